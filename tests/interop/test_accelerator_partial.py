"""`sluice accel` in partial mode, as its own file or the UPF's has it, with one and two workers: no session is there, packets are
charged to the octet and keep their order, and the end of the accelerator costs packets on their way, and no count.

The UPF's N4, its rules and the streams are those of test_accelerator.py.
"""
import json
import os
import subprocess
import time

import pytest

from accelerator import TO_HOST
from conftest import FAULTY, serve, tshark
from lab import API_CONFIGURATION, eventually, shown
from test_accelerator import (CONTROL, DISSECTOR, EXCEPTION, PORT, SIZE, AcceleratorLab, Stream, assert_in_order, captured,
                              charged, new_session)

# Workers, and the modes of the UPF and of its accelerator.
CASES = {"host": (1, ("partial", "full")), "accelerator": (1, ("full", "partial")), "two-workers": (2, ("full", "partial")),
         "two-workers-host": (2, ("partial", "full"))}


@pytest.fixture(scope="module", params=CASES.values(), ids=CASES.keys())
def lab(request):
    workers, modes = request.param
    kind = type("PartialLab", (AcceleratorLab,), {"accelerator_modes": modes})
    made = kind(os.environ["SLUICE"], "accelerator", workers,
                configuration=API_CONFIGURATION + "store: {{directory: {files}/store}}\n")
    made.worker_count = workers
    yield from serve(request, made, made.associate)


@pytest.fixture
def gnb(lab):
    with lab.gnb_socket() as sock:
        yield sock


def accelerators(lab):
    return shown(lab, "offload")["accelerators"]


def assert_nothing_left(lab):
    for of in accelerators(lab):
        assert of["mode"] == "partial" and of["ready"], of
        assert not any(of["sessions"].values()), of["sessions"]


def test_packets_are_charged_to_the_octet_and_keep_their_order(lab, gnb):
    session = new_session(lab)
    before = sum(of["packets"]["hinted"] for of in accelerators(lab))
    with Stream(lab, gnb, session) as stream:
        stream.passes(200)
    assert stream.came == list(range(stream.sent)), "none is lost, twice or out of order"
    assert_nothing_left(lab)
    after = accelerators(lab)
    assert sum(of["packets"]["hinted"] for of in after) - before >= stream.sent
    assert sum(of["home_packets"]["partial_mode"] for of in after) >= stream.sent
    steered = sum(of["packets"]["steered"] for of in after)
    assert steered >= stream.sent if lab.worker_count > 1 else steered == 0
    assert charged(lab, session) == stream.sent * SIZE


def test_a_kill_of_the_accelerator_costs_no_count(lab, gnb):
    """What has come is charged; what is charged and did not come was on the link when the accelerator ended."""
    for _ in range(2):
        session = new_session(lab)
        with Stream(lab, gnb, session) as stream:
            stream.passes(100)
            lab.accelerator.kill()
            lab.accelerator.start()
            stream.passes(200)
        assert_in_order(stream)
        octets, came = charged(lab, session), len(stream.came)
        # A packet each 4 ms, of which one or two are between UPF and data network at any time.
        assert came * SIZE <= octets <= (came + 5) * SIZE, (octets, came)
    assert_nothing_left(lab)


def test_a_link_that_goes_and_comes(lab, gnb):
    session = new_session(lab)
    with Stream(lab, gnb, session) as stream:
        stream.passes(100)
        lab.accelerator.namespace.run(f"ip link set {TO_HOST} down")
        time.sleep(3)
        lab.accelerator.namespace.run(f"ip link set {TO_HOST} up")
        stream.passes(200)
    assert_in_order(stream)
    octets, came = charged(lab, session), len(stream.came)
    assert came * SIZE <= octets <= (came + 5) * SIZE, (octets, came)


def test_what_either_end_shows_and_the_dissector_reads(lab, gnb):
    capture = lab.files / "partial.pcap"
    with captured(lab, capture):
        session = new_session(lab)
        with Stream(lab, gnb, session) as stream:
            stream.passes()
            traced = lab.upf.popen(os.environ["SLUICE"], "trace", "--socket", str(lab.files / "control"), "--ue",
                                   session["ue_ipv4"], "--count", "1", stdout=subprocess.PIPE, text=True)
            time.sleep(1)
            stream.server.sendto(bytes(40), (session["ue_ipv4"], PORT))
            out, _ = traced.communicate(timeout=30)
        # The accelerator begins anew, so that the capture has a handshake.
        lab.accelerator.stop()
        lab.accelerator.start()
        eventually(lambda: all(of["ready"] for of in accelerators(lab)), "there is contact")
    assert "the accelerator is in partial mode" in out and "INTERPRETER DISAGREES" not in out, out
    options = ("-X", DISSECTOR)
    assert not tshark(capture, FAULTY, "frame.number", "_ws.expert.message", options=options)
    ours = f"eth.type == {CONTROL} || eth.type == {EXCEPTION}"
    read = tshark(capture, "sluice_control || sluice_exception", "frame.number", options=options)
    assert read == tshark(capture, ours, "frame.number", options=options) and len(read) > 20
    steered = tshark(capture, "sluice.frame.bucket", "frame.number", options=options)
    assert bool(steered) == (lab.worker_count > 1)
    there = json.loads(lab.accelerator.shown("--json"))
    assert there["partial"] and there["sessions"]["used"] == there["flows"]["used"] == 0, there
    assert "mode        partial" in lab.accelerator.shown()
    of_host = lab.upf.run(f"curl -s --unix-socket {lab.files}/control http://localhost/metrics").stdout
    for worker in range(lab.worker_count):
        assert f'sluice_accelerator_partial{{worker="{worker}"}} 1' in of_host, of_host
