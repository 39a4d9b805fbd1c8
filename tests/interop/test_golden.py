"""tshark as oracle of the golden cases: whatever leaves Sluice is well formed, checksums included."""
import pathlib
import subprocess

import pytest

from conftest import FAULTY

CASES = sorted((pathlib.Path(__file__).parents[1] / "golden").glob("*/out.pcapng"))
CHECKSUMS = [f"{protocol}.check_checksum:TRUE" for protocol in ("ip", "udp", "tcp")]


@pytest.mark.parametrize("capture", CASES, ids=lambda path: path.parent.name)
def test_nothing_malformed_leaves(capture):
    options = [word for option in CHECKSUMS for word in ("-o", option)]
    done = subprocess.run(["tshark", "-r", str(capture), *options, "-Y", FAULTY, "-T", "fields", "-e", "frame.number",
                           "-e", "frame.protocols", "-e", "_ws.expert.message"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert not done.stdout.strip(), done.stdout


def test_there_are_cases():
    assert CASES
