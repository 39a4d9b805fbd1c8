"""Neighbour Discovery on two tags (QinQ), with a router of the data network that is played here: the kernel has no VLAN
devices."""
import os
import threading
import time

import pytest
from scapy.all import Ether, ICMPv6ND_NA, ICMPv6ND_NS, ICMPv6NDOptDstLLAddr, ICMPv6NDOptSrcLLAddr, IPv6, UDP, Raw

from conftest import serve
from lab import CONFIGURATION, DN6, N6_6, NEIGHBOUR_TIMES, UE6, Lab, Tunnel, eventually
from tagged import TaggedSocket, asks, tagged, vlans

N6_VLANS = (200, 30)
ROUTER_MAC = "02:00:00:00:60:fe"
# Beyond the router.
SERVER6 = "2001:db8:99::1"
# Of no protocol that a dissector knows.
PORT = 40002
TAGGED_CONFIGURATION = CONFIGURATION.replace(
    "port: dn", "port: dn\n    vlan: {{outer: %d, inner: %d}}" % N6_VLANS) + NEIGHBOUR_TIMES


@pytest.fixture(scope="module", params=["af_packet", "af_xdp"])
def lab(request):
    """A laboratory whose data network is on two tags, and a router there that the test plays."""
    lab = Lab(os.environ["SLUICE"], request.param, configuration=TAGGED_CONFIGURATION)
    yield from serve(request, lab, lab.associate)


class TaggedRouter:
    """Has the data network's IPv6 address on one pair of tags: answers requests for it, and keeps what else comes."""

    def __init__(self, lab):
        self.socket, self.frames = TaggedSocket(lab.dn, "dn0"), []
        self.answers, self.stop = True, threading.Event()
        self.thread = threading.Thread(target=self._serve, daemon=True)
        self.thread.start()

    def _serve(self):
        while not self.stop.is_set():
            octets = self.socket.receive()
            if octets is None:
                continue
            frame = Ether(octets)
            self.frames.append(frame)
            if ICMPv6ND_NS in frame and frame[ICMPv6ND_NS].tgt == DN6 and self.answers:
                self.advertise(vlans(frame), frame.src, frame[IPv6].src)

    def send(self, tags, station, packet):
        self.socket.send(tagged(tags, ROUTER_MAC, station, packet))

    def advertise(self, tags, station, to):
        self.send(tags, station, IPv6(src=DN6, dst=to, hlim=255) / ICMPv6ND_NA(tgt=DN6, R=1, S=1, O=1)
                  / ICMPv6NDOptDstLLAddr(lladdr=ROUTER_MAC))

    def asks(self, tags):
        """Asks all on these tags for the UPF's address."""
        group = "ff02::1:ff00:1"
        self.send(tags, "33:33:ff:00:00:01", IPv6(src=DN6, dst=group, hlim=255) / ICMPv6ND_NS(tgt=N6_6)
                  / ICMPv6NDOptSrcLLAddr(lladdr=ROUTER_MAC))

    def got(self, wanted):
        """The frames that came so far which are `wanted`."""
        return [frame for frame in list(self.frames) if wanted(frame)]

    def close(self):
        self.stop.set()
        self.thread.join(5)
        self.socket.close()


def test_neighbour_discovery_on_two_tags(lab):
    router = TaggedRouter(lab)
    ours = lab.ours["n6"][1]
    advertises = lambda frame: ICMPv6ND_NA in frame and frame[ICMPv6ND_NA].tgt == N6_6
    prefix = UE6[5 << 64]
    session = lab.smf.session(ue6=str(prefix))
    sent = IPv6(src=str(prefix + 7), dst=SERVER6) / UDP(sport=PORT, dport=PORT) / Raw(b"out on two tags")
    is_user = lambda frame: UDP in frame and frame[UDP].dport == PORT
    try:
        with lab.gnb_socket() as gnb:
            tunnel = Tunnel(session, gnb)

            def leaves():
                tunnel.send(bytes(sent))
                time.sleep(0.05)
                return router.got(is_user)

            # The first packets wait for the router's answer.
            out = eventually(leaves, "no user packet on two tags")[0]
            assert vlans(out) == N6_VLANS and (out.src, out.dst) == (ours, ROUTER_MAC)
            asked = router.got(lambda frame: ICMPv6ND_NS in frame and frame[ICMPv6ND_NS].tgt == DN6)
            assert asked and all(vlans(frame) == N6_VLANS for frame in asked)

            # A request on other tags, on one, or without any gets no reply.
            router.frames.clear()
            for tags in ((201, 30), (200, 31), (200,)):
                router.asks(tags)
            router.asks(N6_VLANS)
            eventually(lambda: router.got(advertises), "our address is not advertised")
            assert {vlans(frame) for frame in router.got(advertises)} == {N6_VLANS}
            assert all(frame[ICMPv6ND_NA].S and frame[ICMPv6NDOptDstLLAddr].lladdr == ours
                       for frame in router.got(advertises))

            # An answer on other tags is none.
            router.answers = False
            eventually(lambda: router.got(lambda frame: asks(frame, DN6)), "the router is not looked for")
            gone = lambda: (router.frames.clear(), tunnel.send(bytes(sent)), time.sleep(0.1), not router.got(is_user))[-1]
            eventually(gone, "a router that does not answer gets packets")
            router.advertise((201, 30), ours, N6_6)
            assert gone()
            router.answers = True
            eventually(leaves, "the router is not found again")

            # And back: towards the UE, on the right tags alone.
            def down(tags, words):
                router.send(tags, ours, IPv6(src=SERVER6, dst=sent.src) / UDP(sport=PORT, dport=PORT) / Raw(words))
            down((201, 30), b"lost")
            down(N6_VLANS, b"came")
            inner = IPv6(eventually(tunnel.receive, "nothing at the gNB"))
            assert bytes(inner[UDP].payload) == b"came"
    finally:
        router.close()
        lab.smf("delete", up_seid=session["up_seid"])
