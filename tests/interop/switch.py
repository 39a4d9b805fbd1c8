"""A switch in user space with two links to Sluice, N3 on a VLAN and N6 on two tags (QinQ) of one LAG of any mode."""
import json
import os
import struct
import subprocess
import threading
import time

from scapy.all import ARP, IP, UDP, Ether, Raw
from scapy.contrib.gtp import GTP_U_Header, GTPPDUSessionContainer
from scapy.contrib.lacp import LACP, SlowProtocol

from lab import CONFIGURATION, DN, GNB, N3, Lab
from tagged import TaggedSocket, tagged, vlans

SLOW_PROTOCOLS = "01:80:c2:00:00:02"
SYSTEM, STATION = "02:00:00:00:aa:00", "02:00:00:00:aa:01"
N3_VLAN, N6_VLANS = 100, (200, 30)
# What is sent while a link goes or comes: packets a second, and seconds. The event is after a third of them.
RATE, SECONDS = 500, 3
# The most that may go by from the first packet that is lost to the last: 100 ms.
MOST_LOST = RATE // 10
PATIENCE = 12

SOCKET = f"/tmp/slu{os.getpid()}lag.sock"
LACP_MODE = "mode: lacp, members: [first, second], lacp: {{fast: true}}"
MODES = {"lacp": LACP_MODE, "balance": "mode: balance, members: [first, second]",
         "active_backup": "mode: active_backup, members: [first, second]"}
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

    def __init__(self, mode="lacp"):
        configuration = LAG_CONFIGURATION.replace(LACP_MODE, MODES[mode])
        super().__init__(os.environ["SLUICE"], "af_packet", configuration=configuration, links=LAG_LINKS)
        if mode != "lacp":
            # Only LACPDUs have the address of their member: all else has the LAG's, which is the first member's.
            self.ours["m1"] = self.ours["m0"]

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
        reported = LACP(actor_system=self.system, actor_key=self.key, actor_port_number=self.number + 1, actor_state=0x3f)
        if self.partner:
            ours = self.partner
            reported.partner_system_priority, reported.partner_system = ours.actor_system_priority, ours.actor_system
            reported.partner_key, reported.partner_state = ours.actor_key, ours.actor_state
            reported.partner_port_priority, reported.partner_port_number = ours.actor_port_priority, ours.actor_port_number
        self.send(Ether(src=STATION, dst=SLOW_PROTOCOLS, type=0x8809) / SlowProtocol() / reported)


class Switch:
    """Speaks LACP on both links, answers ARP for every address, and keeps what else comes, with its link. It learns
    by which link our station sent last."""

    def __init__(self, lab, speaks=True):
        self.links, self.frames, self.stop = [Link(lab, number) for number in (0, 1)], [], threading.Event()
        self.station = bytes.fromhex(mac(lab).replace(":", ""))
        self.learned = 0
        for link in self.links:
            link.speaks = speaks
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
            if octets[6:12] == self.station and octets[12:14] != b"\x88\x09":
                self.learned = link.number
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


def flow_on(lab, switch, session, event, link=lambda: 1):
    """Sends at the known rate, each packet by the link that `link` returns, and lets `event` happen after a third. Number of
    packets were lost, and how many were sent from the first of them to the last. A late sender does not catch up, so that a
    busy machine makes the packets fewer, not more."""
    switch.frames.clear()
    total = RATE * SECONDS
    frames = [uplink(lab, switch, session, 1, number) for number in range(total)]
    due = time.monotonic()
    for number, frame in enumerate(frames):
        if number == total // 3:
            threading.Thread(target=event, daemon=True).start()
        switch.links[link()].send(frame)
        due = max(due + 1 / RATE, time.monotonic())
        time.sleep(max(0, due - time.monotonic()))
    count = -1
    while count != (count := len(switch.frames)):
        time.sleep(0.5)
    lost = sorted(set(range(total)) - set(flows_at_dn(switch)))
    return len(lost), lost[-1] - lost[0] + 1 if lost else 0
