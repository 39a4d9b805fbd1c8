"""Two routers towards the data network, simulated here: one that answers gets its share of packets, a silent one none."""
import threading
import time

import pytest
from scapy.all import ARP, IP, UDP, Ether, Raw
from scapy.contrib.gtp import GTP_U_Header, GTPPDUSessionContainer

from lab import N3

ROUTERS = {"10.200.0.251": "02:00:00:00:00:51", "10.200.0.252": "02:00:00:00:00:52"}
# Behind both routers.
SERVER = "198.51.100.7"
FLOWS = 64
# Six questions of 0.1 s, and some patience.
SILENCE_SECONDS = 3


class Routers:
    """Answers ARP for those of the routers that are `alive`, in a thread, and keeps the frames that they get."""

    def __init__(self, lab):
        self.socket = lab.dn_tap()
        self.socket.settimeout(0.1)
        self.alive, self.frames, self.stop = set(ROUTERS), [], threading.Event()
        self.thread = threading.Thread(target=self._serve, daemon=True)
        self.thread.start()

    def _serve(self):
        while not self.stop.is_set():
            try:
                frame = Ether(self.socket.recv(65535))
            except TimeoutError:
                continue
            if ARP in frame and frame[ARP].op == 1 and frame[ARP].pdst in self.alive:
                self._answer(frame)
            elif IP in frame and frame[IP].dst == SERVER:
                self.frames.append((frame.dst, frame[UDP].dport))

    def _answer(self, question):
        mac = ROUTERS[question[ARP].pdst]
        answer = ARP(op=2, hwsrc=mac, psrc=question[ARP].pdst, hwdst=question.src, pdst=question[ARP].psrc)
        self.socket.send(bytes(Ether(src=mac, dst=question.src) / answer))

    def close(self):
        self.stop.set()
        self.thread.join(5)
        self.socket.close()


@pytest.fixture
def routers(router_lab):
    played = Routers(router_lab)
    yield played
    played.close()


def shares(lab, gnb, routers, sessions, round_number):
    """How many of the sessions' packets each router's station gets."""
    routers.frames.clear()
    for session in sessions:
        inner = IP(src=session["ue_ipv4"], dst=SERVER) / UDP(sport=4000, dport=round_number) / Raw(b"routed")
        container = GTPPDUSessionContainer(type=1, QFI=session["qfi"])
        packet = GTP_U_Header(teid=session["teid"], gtp_type=255, E=1, next_ex=0x85) / container / inner
        gnb.sendto(bytes(packet), (N3, 2152))
    deadline = time.monotonic() + 3
    while time.monotonic() < deadline:
        got = [mac for mac, port in list(routers.frames) if port == round_number]
        if len(got) >= len(sessions):
            break
        time.sleep(0.02)
    return {address: got.count(mac) for address, mac in ROUTERS.items()}


def until(lab, gnb, routers, sessions, rounds, wanted):
    """Sends rounds until the shares are as `wanted`, for as long as it takes to notice a router."""
    deadline = time.monotonic() + SILENCE_SECONDS
    while not wanted(got := shares(lab, gnb, routers, sessions, next(rounds))):
        assert time.monotonic() < deadline, got
        time.sleep(0.1)
    return got


def test_a_silent_router_is_passed_over(router_lab, routers):
    lab, rounds = router_lab, iter(range(10000, 20000))
    first, second = ROUTERS
    sessions = [lab.smf.session(ue4=f"10.45.3.{host}") for host in range(1, FLOWS + 1)]
    with lab.gnb_socket() as gnb:
        # A router may come while a round is under way.
        until(lab, gnb, routers, sessions, rounds, lambda got: min(got.values()) > 0)
        both = shares(lab, gnb, routers, sessions, next(rounds))
        assert sum(both.values()) == FLOWS
        # About half and half.
        assert FLOWS / 4 < both[first] < FLOWS * 3 / 4
        assert shares(lab, gnb, routers, sessions, next(rounds)) == both, "a flow keeps to its router"
        routers.alive = {second}
        until(lab, gnb, routers, sessions, rounds, lambda got: got == {first: 0, second: FLOWS})
        routers.alive = set(ROUTERS)
        until(lab, gnb, routers, sessions, rounds, lambda got: got == both)
    for session in sessions:
        lab.smf("delete", up_seid=session["up_seid"])
