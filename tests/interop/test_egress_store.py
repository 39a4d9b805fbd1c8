"""Queues before ports and a store: a kill -9 while packets wait."""
import os
import signal
import time

import pytest

from egress_stream import BURST, LENGTH, QUEUE, Stream, charged
from lab import EGRESS_CONFIGURATION, Lab, eventually, shown
from test_egress import KBIT

# A checkpoint of each session is made once a second; the disk takes some time for it.
CHECKPOINT = 2.5


@pytest.fixture(scope="module", params=[("af_packet", 2), ("af_xdp", 1)], ids="{0[0]}-{0[1]}".format)
def stored(request):
    """A laboratory with queues and a store."""
    driver, workers = request.param
    lab = Lab(os.environ["SLUICE"], driver, workers, EGRESS_CONFIGURATION + "store: {{directory: \"{files}/store\"}}\n")
    lab.associate()
    yield lab
    if request.session.testsfailed:
        print(lab.said())
    lab.close()


@pytest.mark.parametrize("qfi", [1, 9], ids=["own-rate", "last-class"])
def test_a_kill_while_packets_wait(stored, qfi):
    """After the next start the session has its queue and its rate again. What has left is charged, but for the time since the
    last checkpoint; what is charged and never left is no more than can have waited."""
    lab = stored
    with lab.gnb_socket() as gnb:
        session = lab.smf.session(ue4=f"10.45.20.{qfi}", qfi=qfi, mbr=KBIT)
        seid = str(session["up_seid"])
        with Stream(lab, gnb, session, 2 * KBIT) as stream:
            time.sleep(CHECKPOINT + 1)
            [queue] = shown(lab, "session", seid)["queues"]
            assert queue["packets"] > 0, queue
            lab.process.send_signal(signal.SIGKILL)
            lab.process.wait(15)
            time.sleep(0.3)
            before = len(stream.got)
            lab._start(os.environ["SLUICE"])
            time.sleep(CHECKPOINT)
            [queue] = shown(lab, "session", seid)["queues"]
            assert queue["packets"] > 0, queue
            stream.end()
            eventually(lambda: shown(lab, "queues")["packets"] == 0, "the queues are empty")
            time.sleep(0.3)
            after = stream.got[before:]
        assert queue["class"] == {1: "voice", 9: "rest"}[qfi], queue
        assert [number for number, _ in stream.got] == sorted({number for number, _ in stream.got}), "in order, each once"
        for part in stream.got[:before], after:
            assert len(part) * LENGTH > 2 * KBIT * 1000 / 8, "two seconds of the rate"
            stream.assert_shaped(part)
        delivered = LENGTH * len(stream.got)
        volume = charged(lab, session)
        assert volume <= delivered + QUEUE + LENGTH, (volume, delivered)
        assert volume >= delivered - CHECKPOINT * (KBIT * 1000 / 8) - BURST, (volume, delivered)
