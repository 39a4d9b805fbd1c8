"""A switch of scapy's LACP, with two links to Sluice, N3 on a VLAN and N6 on two tags (QinQ) of one LAG."""
import json
import os
import struct
import subprocess
import threading
import time

import pytest
from scapy.all import ARP, IP, UDP, Ether, Raw
from scapy.contrib.gtp import GTP_U_Header, GTPPDUSessionContainer
from scapy.contrib.lacp import LACP, SlowProtocol

from conftest import serve
from lab import CONFIGURATION, DN, GNB, N3, Lab
from tagged import TaggedSocket, tagged, vlans

SLOW_PROTOCOLS = "01:80:c2:00:00:02"
SYSTEM, STATION = "02:00:00:00:aa:00", "02:00:00:00:aa:01"
N3_VLAN, N6_VLANS = 100, (200, 30)
# What is sent while a link goes, a second, and for how long.
RATE, SECONDS = 500, 3
# The least that is asked of a failover. What it is, is printed: a busy machine's scheduling is no fault of ours.
MOST_LOST = RATE // 2
PATIENCE = 12

SOCKET = f"/tmp/slu{os.getpid()}lag.sock"
LAG_CONFIGURATION = CONFIGURATION.replace("  - {{name: ran, driver: {{{driver}: {{interface: n3{options}}}}}}}\n", """\
  - {{name: first, driver: {{{driver}: {{interface: m0{options}}}}}}}
  - {{name: second, driver: {{{driver}: {{interface: m1{options}}}}}}}
""").replace("  - {{name: dn, driver: {{{driver}: {{interface: n6{options}}}}}}}\n", """\
  - {{name: core, lag: {{mode: lacp, members: [first, second], lacp: {{fast: true}}}}}}
""").replace("port: ran", f"port: core, vlan: {N3_VLAN}").replace(
    "port: dn", "port: core\n    vlan: {{outer: %d, inner: %d}}" % N6_VLANS) + f"control: {{{{socket: {SOCKET}}}}}\n"
LAG_LINKS = (("switch", "sw0", "m0"), ("switch", "sw1", "m1"))


class LagLab(Lab):
    """A switch with two links, and nothing else."""

    def _wire(self):
        self.switch, self.upf = self._namespace("switch"), self._namespace("upf")
        for _, link, there in self.links:
            self.switch.run(f"ip link add {link} type veth peer name {there} netns {self.upf.name}")
            for namespace, name in ((self.switch, link), (self.upf, there)):
                namespace.run(f"ethtool -K {name} rxvlan off txvlan off", check=False)
                namespace.run("sysctl -qw net.ipv6.conf.all.disable_ipv6=1")
                namespace.run(f"ip link set {name} up")
        self.upf.run("ethtool -K lo tx-udp-segmentation off")


class Link(TaggedSocket):
    """One link of the switch, and what LACP has to say there."""

    def __init__(self, lab, number):
        super().__init__(lab.switch, f"sw{number}")
        self.number, self.key, self.system, self.speaks = number, 7, SYSTEM, True
        self.partner = None

    def speak(self):
        if not self.speaks:
            return
        told = LACP(actor_system=self.system, actor_key=self.key, actor_port_number=self.number + 1, actor_state=0x3f)
        if self.partner:
            ours = self.partner
            told.partner_system_priority, told.partner_system = ours.actor_system_priority, ours.actor_system
            told.partner_key, told.partner_state = ours.actor_key, ours.actor_state
            told.partner_port_priority, told.partner_port_number = ours.actor_port_priority, ours.actor_port_number
        self.send(Ether(src=STATION, dst=SLOW_PROTOCOLS, type=0x8809) / SlowProtocol() / told)


class Switch:
    """Speaks LACP on both links, answers ARP for whoever is asked for, and keeps what else comes, with its link."""

    def __init__(self, lab):
        self.links, self.frames, self.stop = [Link(lab, number) for number in (0, 1)], [], threading.Event()
        self.threads = [threading.Thread(target=self._serve, args=(link,), daemon=True) for link in self.links]
        for thread in self.threads:
            thread.start()

    def _serve(self, link):
        due = 0
        while not self.stop.is_set():
            if time.monotonic() >= due:
                link.speak()
                due = time.monotonic() + 1
            octets = link.receive()
            if octets is None:
                continue
            # User packets are many: what is in them is looked at later.
            if b"\x88\x09" != octets[12:14] and b"\x08\x06" not in octets[12:24]:
                self.frames.append((link.number, octets))
                continue
            frame = Ether(octets)
            if LACP in frame:
                news = link.partner is None or link.partner.actor_state != frame[LACP].actor_state
                link.partner = frame[LACP]
                if news:
                    link.speak()
            elif ARP in frame:
                self._answer(link, frame)

    def _answer(self, link, frame):
        asked = frame[ARP]
        if asked.op != 1 or asked.pdst == asked.psrc:
            return
        answer = ARP(op=2, hwsrc=STATION, psrc=asked.pdst, hwdst=asked.hwsrc, pdst=asked.psrc)
        link.send(tagged(vlans(frame), STATION, asked.hwsrc, answer))

    def close(self):
        self.stop.set()
        for thread in self.threads:
            thread.join(5)
        for link in self.links:
            link.close()


@pytest.fixture(scope="module")
def lab(request):
    lab = LagLab(os.environ["SLUICE"], "af_packet", configuration=LAG_CONFIGURATION, links=LAG_LINKS)
    yield from serve(request, lab, lab.associate)


@pytest.fixture(scope="module")
def switch(lab):
    played = Switch(lab)
    yield played
    played.close()


@pytest.fixture(scope="module")
def session(lab, switch):
    return lab.smf.session(ue4="10.45.7.1")


def members(lab):
    """The states of both members, and whether the LAG has a link, as an operator sees them."""
    shown = subprocess.run([os.environ["SLUICE"], "show", "ports", "--json", "--socket", SOCKET],
                           capture_output=True, text=True, check=True)
    rows = {row["port"]: row for row in json.loads(shown.stdout)["ports"]}
    return rows["first"]["state"], rows["second"]["state"], rows["core"]["link"]


def until(lab, *wanted):
    deadline = time.monotonic() + PATIENCE
    while (got := members(lab)) != wanted:
        assert time.monotonic() < deadline, f"{got} instead of {wanted}\n{lab.said()}"
        time.sleep(0.1)


def both_carry(lab):
    until(lab, "distributing", "distributing", True)


def uplink(lab, switch, session, link, flow):
    inner = IP(src=session["ue_ipv4"], dst=DN) / UDP(sport=40000 + flow % 64, dport=40999) / Raw(struct.pack("!I", flow))
    container = GTPPDUSessionContainer(type=1, QFI=session["qfi"])
    outer = IP(src=GNB, dst=N3) / UDP(sport=2152, dport=2152)
    g_pdu = outer / GTP_U_Header(teid=session["teid"], gtp_type=255, E=1, next_ex=0x85) / container / inner
    return bytes(tagged((N3_VLAN,), STATION, mac(lab), g_pdu))


def mac(lab):
    return lab.ours["m0"][1]


def flows_at_dn(switch):
    """What has come to the data network: the number of the packet, and its link."""
    tags = bytes(tagged(N6_VLANS, STATION, STATION, IP()))[12:22]
    # Behind the tags, IPv4 and UDP to a port that nothing else is sent to.
    seen = [(octets, link) for link, octets in list(switch.frames) if octets[12:22] == tags]
    return {struct.unpack("!I", octets[50:54])[0]: link for octets, link in seen
            if octets[44:46] == struct.pack("!H", 40999)}


def test_both_links_carry_once_lacp_has_agreed(lab, switch):
    both_carry(lab)
    actor = switch.links[0].partner
    assert actor.actor_system == mac(lab) and actor.actor_state & 0x3e == 0x3e, "short timeout, in sync, collecting, distributing"
    assert switch.links[1].partner.actor_port_number != actor.actor_port_number


def test_flows_go_both_ways_by_both_links(lab, switch, session):
    both_carry(lab)
    switch.frames.clear()
    # The first packet finds out who the data network is.
    for flow in range(256):
        switch.links[flow % 2].send(uplink(lab, switch, session, flow % 2, flow))
        time.sleep(0.002)
    deadline = time.monotonic() + 3
    while len(flows_at_dn(switch)) < 250 and time.monotonic() < deadline:
        time.sleep(0.05)
    at_dn = flows_at_dn(switch)
    assert len(at_dn) >= 250, len(at_dn)
    assert set(at_dn.values()) == {0, 1}, "both links"
    by_flow = {}
    for number, link in at_dn.items():
        by_flow.setdefault(number % 64, set()).add(link)
    assert all(len(links) == 1 for links in by_flow.values()), "a flow keeps to its link"
    switch.frames.clear()
    for flow in range(128):
        inner = IP(src=DN, dst=session["ue_ipv4"]) / UDP(sport=40999, dport=40000 + flow) / Raw(b"to the UE")
        switch.links[flow % 2].send(tagged(N6_VLANS, STATION, mac(lab), inner))
        time.sleep(0.002)
    time.sleep(0.5)
    seen = [(link, Ether(octets)) for link, octets in list(switch.frames)]
    at_gnb = [(link, frame) for link, frame in seen if vlans(frame) == (N3_VLAN,) and GTP_U_Header in frame]
    assert len(at_gnb) >= 120 and {link for link, _ in at_gnb} == {0, 1}
    assert all(frame[GTP_U_Header].teid == session["gnb_teid"] for _, frame in at_gnb)


def flow_on(lab, switch, session, event):
    """Sends by the second link at the known rate and lets `event` happen after a third; how many packets were lost."""
    switch.frames.clear()
    total, start = RATE * SECONDS, time.monotonic()
    frames = [uplink(lab, switch, session, 1, number) for number in range(total)]
    start = time.monotonic()
    for number, frame in enumerate(frames):
        if number == total // 3:
            threading.Thread(target=event, daemon=True).start()
        switch.links[1].send(frame)
        ahead = start + number / RATE - time.monotonic()
        if ahead > 0:
            time.sleep(ahead)
    count = -1
    while count != (count := len(switch.frames)):
        time.sleep(0.5)
    return total - len(flows_at_dn(switch))


def test_a_link_that_goes_down_loses_what_was_under_way(lab, switch, session):
    both_carry(lab)
    lost = flow_on(lab, switch, session, lambda: lab.switch.run("ip link set sw0 down"))
    print(f"failover: {lost} packets of {RATE} a second lost")
    until(lab, "link down", "distributing", True)
    assert lost < MOST_LOST
    lab.switch.run("ip link set sw0 up")
    lost = flow_on(lab, switch, session, lambda: None)
    both_carry(lab)
    print(f"recovery: {lost} packets of {RATE} a second lost")
    assert lost < MOST_LOST


def test_a_switch_that_falls_silent_carries_no_more(lab, switch):
    both_carry(lab)
    switch.links[0].speaks = False
    until(lab, "no partner", "distributing", True)
    switch.links[0].speaks = True
    both_carry(lab)


@pytest.mark.parametrize("other", [{"key": 8}, {"system": "02:00:00:00:bb:00"}])
def test_a_link_to_another_group_carries_nothing(lab, switch, other):
    both_carry(lab)
    link, before = switch.links[1], dict(vars(switch.links[1]))
    vars(link).update(other)
    until(lab, "distributing", "not selected", True)
    vars(link).update({name: before[name] for name in other})
    both_carry(lab)


def test_without_any_link_everything_waits_and_comes_back(lab, switch, session):
    both_carry(lab)
    for number in (0, 1):
        lab.switch.run(f"ip link set sw{number} down")
    until(lab, "link down", "link down", False)
    for number in (0, 1):
        lab.switch.run(f"ip link set sw{number} up")
    both_carry(lab)
    lost = flow_on(lab, switch, session, lambda: None)
    assert lost < MOST_LOST
    assert "link down" in lab.said() and "link up" in lab.said()
