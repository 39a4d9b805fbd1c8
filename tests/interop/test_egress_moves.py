"""Sessions whose packets wait in queues move between workers: numbered packets come in order and at their rate, and the kernel's
TCP sends nothing again."""
import os
import threading
import time

import pytest

from egress_stream import LENGTH, Stream, charged
from lab import EGRESS_CONFIGURATION, Lab, eventually, kernel_ue, shown
from test_egress import KBIT, OCTETS, download

UES = [f"10.45.20.{number}" for number in range(1, 60)]
MOVES = 4


@pytest.fixture(scope="module")
def balanced(request):
    """A laboratory with queues, whose two workers have sessions evenly. A veth has one queue for af_xdp, so one worker."""
    configuration = EGRESS_CONFIGURATION.replace("count: {workers}", "count: {workers}, rebalance: {{after_s: 0}}")
    lab = Lab(os.environ["SLUICE"], "af_packet", 2, configuration)
    lab.associate()
    yield lab
    if request.session.testsfailed:
        print(lab.said())
    lab.close()


class Mover:
    """Moves the bucket of a session back and forth: the balancer moves the first of the buckets of the worker that has two
    sessions while the other one has none."""

    def __init__(self, lab):
        self.lab = lab
        # The buckets of UE addresses, which are theirs for good.
        self.buckets = {}
        for ue in UES:
            session = lab.smf.session(ue4=ue)
            self.buckets[ue] = self.where(session)[0]
            lab.smf("delete", up_seid=session["up_seid"])
        self.ues = sorted(UES, key=self.buckets.get)

    def where(self, session):
        """The bucket of a session, and its worker."""
        detail = shown(self.lab, "session", str(session["up_seid"]))
        return detail["bucket"], detail["worker"]

    def first(self):
        """The UE address of the lowest bucket."""
        return self.ues[0]

    def move(self, session):
        """Gives the session's worker another one with a higher bucket, until the session is at the other worker."""
        bucket, before = self.where(session)
        others = []
        for ue in self.ues:
            if self.buckets[ue] <= bucket:
                continue
            other = self.lab.smf.session(ue4=ue)
            others.append(other)
            if self.where(session)[1] != before:
                break
            if self.where(other)[1] == before:
                eventually(lambda: self.where(session)[1] != before, "the session moves")
                break
            self.lab.smf("delete", up_seid=others.pop()["up_seid"])
        for other in others:
            self.lab.smf("delete", up_seid=other["up_seid"])
        assert self.where(session)[1] != before


@pytest.fixture(scope="module")
def mover(balanced):
    return Mover(balanced)


def moved_packets(lab):
    """Packets that came with their session from the queues of another worker."""
    done = lab.upf.run(f"curl -s --unix-socket {lab.files}/control http://localhost/metrics").stdout
    return sum(int(line.split()[-1]) for line in done.splitlines()
               if line.startswith("sluice_worker_moved_in_packets_total"))


def test_a_move_loses_and_reorders_nothing_and_keeps_the_rate(balanced, mover):
    lab = balanced
    with lab.gnb_socket() as gnb:
        session = lab.smf.session(ue4=mover.first(), qfi=1, mbr=KBIT)
        before = moved_packets(lab)
        with Stream(lab, gnb, session) as stream:
            for _ in range(MOVES):
                mover.move(session)
                time.sleep(0.2)
            stream.end()
            eventually(lambda: len(stream.got) >= stream.sent, "all packets come")
            got = list(stream.got)
        assert [number for number, _ in got] == list(range(stream.sent))
        assert moved_packets(lab) > before, "packets waited while their session moved"
        stream.assert_shaped(got)
        detail = shown(lab, "session", str(session["up_seid"]))
        assert [queue["class"] for queue in detail["queues"]] == ["voice"]
        assert charged(lab, session) == stream.sent * LENGTH


def test_a_connection_does_not_notice_a_move(balanced, mover):
    lab = balanced
    number = int(mover.first().rsplit(".", 1)[1]) + (20 << 8)
    drops = lambda: sum(sum(row["dropped"].values()) for row in shown(lab, "queues")["priorities"])
    with lab.gnb_socket() as gnb, kernel_ue(lab, gnb, mbr=KBIT, number=number) as (session, ue4, _):
        assert ue4 == mover.first()
        before, moved, begin = drops(), moved_packets(lab), out_of_order(lab)
        got = {}
        thread = threading.Thread(target=lambda: got.update(download(lab, ue4, ecn=True)))
        thread.start()
        count = 0
        while thread.is_alive():
            mover.move(session)
            count += 1
        thread.join()
        lost = drops() - before
        assert got["octets"] == len(OCTETS) and count > 1 and moved_packets(lab) > moved
        assert got["retransmitted"] <= lost, (got, lost)
        assert lost or out_of_order(lab) == begin


def out_of_order(lab):
    """Segments that the UE's kernel has got before others that were sent earlier."""
    lines = lab.ue.run("cat /proc/net/netstat").stdout.splitlines()
    names, values = [line.split() for line in lines if line.startswith("TcpExt:")]
    return int(values[names.index("TCPOFOQueue")])
