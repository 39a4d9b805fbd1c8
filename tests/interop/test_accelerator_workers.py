"""Two workers of a UPF with one accelerator: sessions of both are there, each packet is charged once and comes in order, and the
end of either process, and moves of buckets, cost no more than with one worker.

The suites of user plane and network run over an accelerator with several workers, too (`lab.driver` is `accelerator`).
"""
import json
import os
import signal
import subprocess
import time

import pytest

from conftest import serve
from lab import API_CONFIGURATION, eventually, shown
from test_accelerator import EVERY, LOST, SIZE, AcceleratorLab, Stream, assert_in_order, charged
from test_egress_moves import Mover

WORKERS = 2


@pytest.fixture(scope="module")
def lab(request):
    configuration = API_CONFIGURATION.replace("count: {workers}", "count: {workers}, rebalance: {{after_s: 0}}")
    made = AcceleratorLab(os.environ["SLUICE"], "accelerator", WORKERS,
                          configuration + "store: {{directory: {files}/store}}\n")
    yield from serve(request, made, made.associate)


@pytest.fixture(scope="module")
def mover(lab):
    return Mover(lab)


@pytest.fixture
def gnb(lab):
    with lab.gnb_socket() as sock:
        yield sock


def accelerators(lab):
    """What each worker says of the accelerator."""
    return shown(lab, "offload")["accelerators"]


def away(lab):
    return [of["sessions"]["away"] for of in accelerators(lab)]


def pair_of_sessions(lab, mover):
    """A session at each worker, by its number."""
    one = lab.smf.session(ue4=mover.ues[0])
    for ue in mover.ues[1:]:
        other = lab.smf.session(ue4=ue)
        if mover.where(other)[1] != mover.where(one)[1]:
            return dict(sorted((mover.where(session)[1], session) for session in (one, other)))
        lab.smf("delete", up_seid=other["up_seid"])
    raise AssertionError("all sessions are at one worker")


def nft_counts(lab, session):
    """Octets of a UE that the kernel of the data network has counted."""
    rules = json.loads(lab.dn.run("nft -j list table ip charged").stdout)["nftables"]
    counts = [entry["rule"]["expr"][-1]["counter"] for entry in rules
              if "rule" in entry and session["ue_ipv4"] in json.dumps(entry)]
    return counts[0]["packets"], counts[0]["bytes"]


@pytest.fixture
def counted(lab):
    """Has the data network's kernel count the packets of UEs that are added."""
    lab.dn.run("nft add table ip charged")
    lab.dn.run("nft add chain ip charged in { type filter hook input priority 0 ; }")
    yield lambda session: lab.dn.run(f"nft add rule ip charged in ip saddr {session['ue_ipv4']} counter")
    lab.dn.run("nft delete table ip charged")


def test_sessions_of_both_workers_are_there_and_charged_to_the_octet(lab, mover, gnb, counted):
    sessions = pair_of_sessions(lab, mover)
    assert list(sessions) == [0, 1]
    for session in sessions.values():
        counted(session)
    for session in sessions.values():
        with Stream(lab, gnb, session) as stream:
            stream.passes(100)
            # The last packets of the other one have idled, and its session stays there.
            eventually(lambda: away(lab)[mover.where(session)[1]] == 1, "the session is at the accelerator")
            before = accelerators(lab)
            stream.passes(100)
            # Established packets are the accelerator's alone.
            after = accelerators(lab)
            assert [of["exceptions"]["no_flow"] for of in after] == [of["exceptions"]["no_flow"] for of in before]
        assert stream.came == list(range(stream.sent)), "none is lost, twice or out of order"
        packets, octets = nft_counts(lab, session)
        assert (packets, octets) == (stream.sent, stream.sent * SIZE)
    assert away(lab) == [1, 1]
    own = json.loads(lab.accelerator.shown("--json"))
    assert [(of["contact"], of["sessions"]) for of in own["channels"]] == [(True, 1), (True, 1)], own["channels"]
    assert "by 2 of 2 channels" in lab.accelerator.shown()
    for session in sessions.values():
        _, octets = nft_counts(lab, session)
        assert charged(lab, session) == octets


def test_a_bucket_moves_under_traffic_and_each_packet_is_charged_once(lab, mover, gnb):
    session = lab.smf.session(ue4=mover.first())
    returned = sum(of["sessions"]["returned"] for of in accelerators(lab))
    with Stream(lab, gnb, session) as stream:
        for _ in range(4):
            stream.passes(20)
            eventually(lambda: away(lab)[mover.where(session)[1]] == 1, "the session is at the accelerator")
            mover.move(session)
        stream.passes(20)
        eventually(lambda: away(lab)[mover.where(session)[1]] == 1, "the session is at the accelerator")
    assert sorted(stream.came) == list(range(stream.sent)), "none is lost or twice"
    assert charged(lab, session) == stream.sent * SIZE
    assert sum(of["sessions"]["returned"] for of in accelerators(lab)) >= returned + 4


@pytest.mark.parametrize("end", ["accelerator", "upf"])
def test_a_kill_of_either_end_loses_no_more_than_it_may(lab, mover, gnb, end):
    sessions = pair_of_sessions(lab, mover)
    for session in sessions.values():
        with Stream(lab, gnb, session) as stream:
            stream.passes(50)
            eventually(lambda: away(lab)[mover.where(session)[1]] == 1, "the session is at the accelerator")
            if end == "accelerator":
                lab.accelerator.kill()
                lab.accelerator.start()
            else:
                lab.process.send_signal(signal.SIGKILL)
                lab.process.wait(15)
                lab._start(os.environ["SLUICE"])
            stream.passes(100)
            eventually(lambda: away(lab)[mover.where(session)[1]] == 1, "the session is at the accelerator")
            stream.passes(50)
        assert_in_order(stream)
        passed = len(stream.came) * SIZE
        uncounted = LOST + (0 if end == "accelerator" else (1 + lab.lost_after_ms / 1_000) / EVERY)
        assert passed - uncounted * SIZE <= charged(lab, session) <= passed


def test_metrics_say_how_each_channel_stands(lab):
    metrics = subprocess.run(["curl", "-sS", "--unix-socket", lab.files / "accel.sock", "http://localhost/metrics"],
                             capture_output=True, text=True, check=True).stdout
    for channel in range(WORKERS):
        assert f'sluice_accel_channel_up{{channel="{channel}"}} 1' in metrics, metrics
    time.sleep(0.2)
    of_host = lab.upf.run(f"curl -s --unix-socket {lab.files}/control http://localhost/metrics").stdout
    for worker in range(WORKERS):
        assert f'sluice_accelerator_up{{worker="{worker}"}} 1' in of_host, of_host
