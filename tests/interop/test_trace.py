"""`sluice trace` over the captures of the golden cases: tshark reads what it writes, comments included."""
import os
import pathlib
import subprocess

import pytest

from conftest import FAULTY, tshark

CASES = sorted((pathlib.Path(__file__).parents[1] / "golden").glob("*/trace.pcapng"))


@pytest.mark.parametrize("capture", CASES, ids=lambda path: path.parent.name)
def test_tshark_reads_a_written_trace(capture, tmp_path):
    written = tmp_path / "written.pcapng"
    done = subprocess.run([os.environ["SLUICE"], "trace", "--pcap", capture, "-c", capture.parent / "sluice.yaml",
                           "--count", "100000", "--write", written], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    # Ports by their own names, instances behind them; what came in on N4 is no packet of the user plane.
    frames = tshark(written, "frame", "frame.interface_name", "frame.time_epoch", "frame.comment")
    text = (capture.parent / "trace.txt").read_text()
    assert frames and text.count("    -> ") == sum("as it left" not in frame for frame in frames)
    assert text.count("    -> SENT") == sum("as it left" in frame for frame in frames)
    for frame in frames:
        interface, time, comment = frame.split("\t", 2)
        assert interface and float(time) >= 1_700_000_000 and comment.startswith("#"), frame
    dropped = {words.split(":")[0].split()[-1] for words in text.split("    -> DROPPED")[1:]
               for words in [" " + words]}
    for reason in dropped:
        assert any(f"dropped: {reason} (" in frame for frame in frames), reason
    faulty = tshark(written, f"({FAULTY}) && frame.comment contains \"as it left\"", "frame.comment")
    assert not faulty, faulty


def test_there_are_cases():
    assert CASES
