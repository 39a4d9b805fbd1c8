"""docs/guide/network.md is held to what `sluice check` says: its file is good, and each of its mistakes is reported."""
import os
import re
import subprocess
from pathlib import Path

import pytest

GUIDE = (Path(__file__).parents[2] / "docs/guide/network.md").read_text()
FILE = re.search(r"```yaml\n(.*?)```", GUIDE, re.S)[1]
QUOTED = re.search(r"`sluice check` says of this file:\n\n(.*?)\n\n", GUIDE, re.S)[1]
TABLE = GUIDE.split("| Instead of | Written | It says |\n|---|---|---|\n")[1]


def code(cell):
    """The content of a code span, of one backtick or of two."""
    return re.fullmatch(r"`` (.*) ``|`(.*)`", cell.strip()).expand(r"\1\2")


MISTAKES = [tuple(code(cell) for cell in line.strip("|").split(" | "))
            for line in TABLE.splitlines() if line.startswith("|")]


def check(tmp_path, text):
    file = tmp_path / "sluice.yaml"
    file.write_text(text)
    return subprocess.run([os.environ["SLUICE"], "check", "-c", str(file)], capture_output=True, text=True)


def test_the_file_is_good_and_means_what_the_guide_says(tmp_path):
    said = check(tmp_path, FILE)
    assert said.returncode == 0, said.stderr
    lines = said.stdout.splitlines()
    for line in QUOTED.splitlines():
        assert line[4:] in lines, f"{line}\n{said.stdout}"


def test_the_table_has_mistakes():
    assert len(MISTAKES) > 20


@pytest.mark.parametrize("instead, written, words", MISTAKES)
def test_each_mistake_is_reported_in_these_words(tmp_path, instead, written, words):
    assert instead in FILE
    said = check(tmp_path, FILE.replace(instead, written, 1))
    assert said.returncode == 2, said.stdout
    assert words in said.stderr and "line " in said.stderr, said.stderr
