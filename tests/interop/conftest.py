"""Fixtures: one laboratory for each kernel-interface driver, shared by the tests of a module."""
import os
import subprocess

import pytest

from lab import Lab

FAULTY = "_ws.malformed || _ws.expert.severity == error"


def tshark(capture, wanted):
    """The frames of a capture that match a display filter, a line each."""
    done = subprocess.run(["tshark", "-r", str(capture), "-Y", wanted, "-T", "fields", "-e", "frame.number",
                           "-e", "frame.protocols", "-e", "_ws.expert.message"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip().splitlines()


def oracle(lab):
    """What tshark finds wrong in what Sluice sent, by capture. The other ends send nonsense on purpose."""
    faults = {}
    for name, capture in lab.captures.items():
        ours = lab.ours[name]
        assert tshark(capture, ours), f"nothing of ours in the capture of {name}"
        faults[name] = tshark(capture, f"({ours}) && ({FAULTY})")
    return faults


@pytest.fixture(scope="module", params=["af_packet", "af_xdp"])
def lab(request):
    assert os.geteuid() == 0, "network namespaces need root: run as root or with sudo"
    lab = Lab(os.environ["SLUICE"], request.param)
    yield lab
    failed = request.session.testsfailed
    if failed:
        print(lab.said())
    lab.stop_captures()
    faults = oracle(lab)
    lab.close()
    assert not any(faults.values()), faults
