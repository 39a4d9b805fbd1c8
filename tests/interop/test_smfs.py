"""The SMFs of Open5GS, free5GC, SD-Core and OAI, all four at one UPF: each takes sessions through their whole life in
its own words (smf/open5gs and so on), while a user's packets flow and are charged."""
import contextlib
import ipaddress
import socket
import time

import pytest
from scapy.all import IP, TCP, UDP, ICMPv6ND_RA, ICMPv6ND_RS, IPv6, Raw
from scapy.contrib.gtp import GTP_U_Header, GTPPDUSessionContainer

from conftest import tshark
from lab import ASKED_SMF, CHOSEN_POOL, DN, DN6, GNB, N3, OAI_DN, OAI_GNB, OAI_N3, OTHER_GNB, SMF_GTPU, shown

LOCAL = {"open5gs": "127.0.0.2", "free5gc": "127.0.0.3", "sdcore": "127.0.0.4", "oai": "127.0.0.5"}
QFI = {"open5gs": 1, "free5gc": 1, "sdcore": 9, "oai": 9}
UPLINK_PDR = {"open5gs": "2", "sdcore": "1", "oai": "1"}
# Ports that no dissector knows.
UE_PORT, DN_PORT, FLOW_PORT, OTHER_FLOW_PORT = 61001, 62001, 62002, 62003
END_MARKER, ERROR_INDICATION, G_PDU = 254, 26, 255
DROP_SECONDS = 0.3
UNMARKED = 0
_next = iter(range(2, 250))


class Node:
    """The GTP-U side of a gNB, or of an SMF."""

    def __init__(self, lab, address):
        self.address, self.socket = address, lab.gnb_socket(address)

    def send(self, to, teid, inner, qfi=None, downlink=False):
        header = GTP_U_Header(teid=teid, gtp_type=G_PDU)
        if qfi is not None:
            header = GTP_U_Header(teid=teid, gtp_type=G_PDU, E=1, next_ex=0x85) / \
                GTPPDUSessionContainer(type=0 if downlink else 1, QFI=qfi)
        self.socket.sendto(bytes(header / inner), (to, 2152))

    def receive(self):
        return GTP_U_Header(self.socket.recv(65535))

    def receives_nothing(self):
        assert silent(self.socket)


def data(size):
    """User data that no dissector takes for a protocol of its own."""
    return (b"user data " * (size // 10 + 1))[:size]


def silent(sock, keep=False):
    """Whether nothing comes; what comes is thrown away unless it is to be kept."""
    sock.settimeout(DROP_SECONDS)
    try:
        sock.recv(65535, socket.MSG_PEEK if keep else 0)
        return False
    except TimeoutError:
        return True
    finally:
        sock.settimeout(3)


class Network:
    """The laboratory with its SMFs, gNBs and servers."""

    def __init__(self, lab):
        self.lab = lab
        self.smfs = {name: lab.script(name, local) for name, local in LOCAL.items()}
        self.gnb, self.other_gnb, self.smf_gtpu = (Node(lab, a) for a in (GNB, OTHER_GNB, SMF_GTPU))
        self.oai_gnb = Node(lab, OAI_GNB)
        self.servers = {port: lab.dn_udp_socket(DN, port) for port in (DN_PORT, FLOW_PORT, OTHER_FLOW_PORT)}
        self.oai_server = lab.dn_udp_socket(OAI_DN, DN_PORT)

    def drain(self):
        nodes = (self.gnb, self.other_gnb, self.smf_gtpu, self.oai_gnb)
        for sock in (*(node.socket for node in nodes), *self.servers.values(), self.oai_server):
            sock.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                while True:
                    sock.recv(65535)
            sock.settimeout(3)
        for smf in self.smfs.values():
            smf("reports")

    def others_received_nothing(self, name):
        """Of downlink data: usage is reported when it is due."""
        for other, smf in self.smfs.items():
            if other != name:
                received = [report for report in smf("reports")["reports"] if report["downlink_data"]]
                assert not received, (other, received)


class Session:
    """A PDU session, and what its user has sent and got, in octets of IP packets."""

    def __init__(self, network, name, prefix="10.45.0", **ue):
        self.network, self.name, self.smf = network, name, network.smfs[name]
        self.gnb, self.server, self.n3 = network.gnb, network.servers[DN_PORT], N3
        self.ue, self.qfi = f"{prefix}.{next(_next)}", QFI[name]
        self.smf.seids += 1
        self.seid, self.sent, self.got = self.smf.seids, 0, 0
        made = self("establish", ue={"ipv4": self.ue, **ue})
        self.tunnels, self.ue = made["tunnels"], made.get("address", self.ue)
        self.teid = self.tunnels[UPLINK_PDR[name]]["teid"] if name in UPLINK_PDR else self._only_tunnel()["teid"]

    def _only_tunnel(self):
        [tunnel] = self.tunnels.values()
        return tunnel

    def __call__(self, op, **fields):
        return self.smf(op, seid=self.seid, **fields)

    def tunnel_at(self, gnb):
        self.gnb = gnb
        return {"address": gnb.address, "teid": 0x1000 * self.seid + int(gnb.address.split(".")[-1])}

    def activate(self, gnb=None):
        self.downlink = self.tunnel_at(gnb or self.gnb)
        self("activate", gnb=self.downlink)

    def handover(self, gnb):
        left = self.gnb, self.downlink
        self.downlink = self.tunnel_at(gnb)
        self("handover", gnb=self.downlink)
        return left

    def send(self, payload, qfi=None, port=DN_PORT):
        inner = IP(src=self.ue, dst=self.server.getsockname()[0]) / UDP(sport=UE_PORT, dport=port) / Raw(payload)
        self.gnb.send(self.n3, self.teid, inner, self.qfi if qfi is None else qfi)

    def up(self, size, qfi=None, server=None):
        """A packet from the UE reaches the server."""
        server, payload = server or self.server, data(size)
        self.send(payload, qfi, server.getsockname()[1])
        assert server.recvfrom(65535) == (payload, (self.ue, UE_PORT))
        self.sent += 28 + size

    def is_unknown(self):
        """Whether its tunnel is gone, after a few packets: a release is answered before the workers know of it."""
        for _ in range(10):
            self.send(b"too late")
            if not silent(self.gnb.socket, keep=True):
                return self.gnb.receive().gtp_type == ERROR_INDICATION
        return False

    def reply(self, payload, server=None):
        (server or self.server).sendto(payload, (self.ue, UE_PORT))

    def arrives(self, payload, qfi=None):
        """The packet with this payload is the next one at the gNB, in the session's tunnel; UNMARKED without a QFI."""
        packet = self.gnb.receive()
        assert (packet.gtp_type, packet.teid) == (G_PDU, self.downlink["teid"])
        if qfi is UNMARKED:
            assert GTPPDUSessionContainer not in packet
        else:
            assert packet[GTPPDUSessionContainer].QFI == (qfi or self.qfi)
        assert (packet[IP].dst, bytes(packet[UDP].payload)) == (self.ue, payload)

    def down(self, size, qfi=None, server=None):
        """A packet of the server reaches the gNB."""
        payload = data(size)
        self.reply(payload, server)
        self.arrives(payload, qfi)
        self.got += 28 + size

    def is_reported_once(self):
        """A Downlink Data Report has come, to the session's SMF alone."""
        report = self.smf("report")
        while not report["downlink_data"]:
            report = self.smf("report")
        assert report["seid"] == self.seid and len(report["downlink_data"]) == 1, report
        self.network.others_received_nothing(self.name)

    def charged(self, op="delete"):
        """What passed QoS enforcement, by URR. None of it was lost there: where a URR measures what came before, which
        free5GC asks for, that is as much."""
        charged = {usage.pop("urr"): usage for usage in self(op)["charged"]}
        self.seconds = {urr: usage.pop("seconds", 0) for urr, usage in charged.items()}
        before = [usage for usage in charged.values() if "before_qos" in usage]
        assert bool(before) == (self.name == "free5gc"), charged
        for usage in before:
            assert usage.pop("before_qos") == usage["total"], charged
        return charged


def volume(uplink, downlink):
    return {"total": uplink + downlink, "uplink": uplink, "downlink": downlink}


@pytest.fixture(scope="module")
def whole_network(smf_lab):
    return Network(smf_lab)


@pytest.fixture
def network(whole_network):
    """What a test that failed has left behind is not the next one's."""
    whole_network.drain()
    return whole_network


@pytest.mark.parametrize("name", LOCAL)
def test_the_life_of_a_session(network, name):
    session = Session(network, name)
    session.up(100)
    if name == "open5gs":
        # It starts idle: what comes waits for the gNB.
        session.reply(b"early")
        session.is_reported_once()
        session.activate()
        session.arrives(b"early")
        session.got += 33
    else:
        session.activate()
    for size in (0, 500, 1300):
        session.up(size)
        session.down(size)

    gnb, downlink = session.handover(network.other_gnb)
    if name != "oai":
        marker = gnb.receive()
        assert (marker.gtp_type, marker.teid) == (END_MARKER, downlink["teid"])
    session.down(200)
    gnb.receives_nothing()

    session("idle")
    for number in range(3):
        session.reply(b"wake up %d" % number)
    session.is_reported_once()
    session.gnb.receives_nothing()
    session.activate()
    for number in range(3):
        # OAI's rule for paging has no QER, and so no QFI.
        session.arrives(b"wake up %d" % number, UNMARKED if name == "oai" else None)
    paged = 3 * (28 + len(b"wake up 0"))
    session.up(300)
    session.down(300)

    if name == "free5gc":
        every = volume(session.sent, session.got + paged)
        assert list(session.charged("query").values()) == [every, every]
        session.up(7)
        session.down(70)
    sent, got = session.sent, session.got
    expected = {
        "open5gs": [volume(0, got + paged)],      # its URR is the downlink's
        "free5gc": [volume(sent, got + paged)] * 2,
        "sdcore": [],                             # it has no URR
        "oai": [volume(sent, got)],               # its rule for paging has none
    }
    assert list(session.charged().values()) == expected[name]
    session.send(b"too late")
    assert session.gnb.receive().gtp_type == ERROR_INDICATION


@pytest.mark.parametrize("name", ["free5gc", "sdcore", "oai"])
def test_nothing_leaves_before_the_gnb_is_known(network, name):
    """FORW without a tunnel, DROP, no PDR at all."""
    session = Session(network, name)
    session.reply(b"early")
    network.gnb.receives_nothing()
    session.activate()
    session.down(50)
    session.up(50)
    network.smfs[name]("reports")
    session("delete")


def test_sessions_of_four_smfs_live_side_by_side(network):
    sessions = [Session(network, name) for name in LOCAL for _ in range(3)]
    for session in sessions:
        session.activate()
    for size in (10, 400):
        for session in sessions:
            session.up(size)
            session.down(size)
    for session in sessions:
        for usage in session.charged().values():
            assert usage["downlink"] == 56 + 410


def test_open5gs_router_solicitations_go_to_the_smf_and_back(network):
    session = Session(network, "open5gs", ipv6=f"2001:db8:45:{next(_next):x}::")
    session.activate()
    link_local = "fe80::1234"
    solicitation = IPv6(src=link_local, dst="ff02::2", hlim=255) / ICMPv6ND_RS()
    session.gnb.send(N3, session.teid, solicitation, session.qfi)
    packet = network.smf_gtpu.receive()
    assert (packet.gtp_type, packet.teid) == (G_PDU, 1)
    # Neighbour Discovery holds only with the hop limit that it was sent with (RFC 4861 §6.1.1).
    assert bytes(packet[IPv6]) == bytes(solicitation)
    advertisement = IPv6(src="fe80::1", dst=link_local, hlim=255) / ICMPv6ND_RA()
    network.smf_gtpu.send(N3, session.tunnels["3"]["teid"], advertisement)
    packet = session.gnb.receive()
    assert (packet.gtp_type, packet.teid) == (G_PDU, session.downlink["teid"])
    assert bytes(packet[IPv6]) == bytes(advertisement)
    session("delete")


def test_open5gs_adds_changes_and_removes_a_qos_flow(network):
    session = Session(network, "open5gs")
    session.activate()
    one, other = network.servers[FLOW_PORT], network.servers[OTHER_FLOW_PORT]
    description = "permit out 17 from %s %d to assigned"
    tunnels = session("add_flow", description=description % (DN, FLOW_PORT))["tunnels"]
    assert tunnels["6"]["teid"] == session.teid
    for server, qfi in ((one, 2), (other, 1), (session.server, 1)):
        session.up(20, qfi, server)
        session.down(20, qfi, server)
    session("change_flow", description=description % (DN, OTHER_FLOW_PORT))
    for server, qfi in ((one, 1), (other, 2)):
        session.up(30, qfi, server)
        session.down(30, qfi, server)
    session("remove_flow")
    session.down(40, 1, other)
    session("delete")


def test_open5gs_is_granted_as_much_as_the_ocs_asks_reports_of(network):
    """A Volume Threshold of 0: the quota stops the downlink, which is what the URR counts."""
    session = Session(network, "open5gs")
    session.activate()
    session("grant", octets=500)
    session.down(300)
    session.reply(data(300))
    session.gnb.receives_nothing()
    session("grant", octets=10_000)
    session.down(300)
    session.up(300)
    assert list(session.charged().values()) == [volume(0, session.got)]


# Usage Report Trigger (TS 29.244 §8.2.41), octet 5 in the low byte.
TIMTH, TIMQU, QUVTI = 0x04, 0x200, 0x80000


def is_reported(session, trigger):
    """Waits for a usage report by this trigger."""
    while True:
        report = session.smf("report")
        if report["seid"] == session.seid and any(why & trigger for why in report["triggers"]):
            return


def test_open5gs_restores_a_session_under_its_f_teids(network):
    """RESTI: the gNB keeps its tunnels. A session whose F-TEIDs another has is refused with cause 86."""
    session = Session(network, "open5gs")
    session.activate()
    session.up(100)
    session("delete")
    assert session.is_unknown()
    assert session("restore", now=session.seid)["tunnels"] == session.tunnels
    session.up(200)
    session.down(200)
    assert list(session.charged("delete").values()) == [volume(0, session.got)]
    session("restore", now=session.seid)
    session.smf.seids += 1
    with pytest.raises(RuntimeError, match="cause 86"):
        session("restore", now=session.smf.seids)
    session.up(10)
    session("delete")


@pytest.mark.parametrize("variant", ["", "addressed"])
def test_open5gs_framed_routes_lead_to_the_ue_and_from_it(network, variant):
    """As RADIUS writes them, with a router and a metric; what is neither the UE's nor behind it does not pass."""
    session = Session(network, "open5gs", ipv6=f"2001:db8:45:{next(_next):x}::", variant=variant,
                      framed_routes=["10.60.1.0/24 0.0.0.0 1", "10.60.2.0/24"],
                      framed_ipv6_routes=["2001:db8:60:1::/64 :: 1"])
    session.activate()
    if variant:
        session.up(10)
    else:
        # Sources are matched with the framed routes of the uplink (TS 29.244 §5.16), and the SMF names no other there.
        session.send(b"of the UE itself")
        assert silent(session.server)
    session.down(10)
    for behind in ("10.60.1.7", "10.60.2.9"):
        session.gnb.send(N3, session.teid, IP(src=behind, dst=DN) / UDP(sport=UE_PORT, dport=DN_PORT) / b"framed",
                         session.qfi)
        assert session.server.recvfrom(65535) == (b"framed", (behind, UE_PORT))
        session.server.sendto(b"back", (behind, UE_PORT))
        packet = session.gnb.receive()
        assert (packet.teid, packet[IP].dst, bytes(packet[UDP].payload)) == (session.downlink["teid"], behind, b"back")
    sock = network.lab.dn_udp_socket6(DN6, DN_PORT)
    with sock:
        behind = "2001:db8:60:1::5"
        session.gnb.send(N3, session.teid, IPv6(src=behind, dst=DN6) / UDP(sport=UE_PORT, dport=DN_PORT) / b"framed6",
                         session.qfi)
        payload, address = sock.recvfrom(65535)
        assert (payload, address[:2]) == (b"framed6", (behind, UE_PORT))
        sock.sendto(b"back6", (behind, UE_PORT))
        assert session.gnb.receive()[IPv6].dst == behind
    # Of the UPF's route to all that is framed, but of no session.
    session.server.sendto(b"astray", ("10.60.3.1", UE_PORT))
    session.gnb.receives_nothing()
    session.gnb.send(N3, session.teid, IP(src="10.60.3.1", dst=DN) / UDP(sport=UE_PORT, dport=DN_PORT) / b"spoofed",
                     session.qfi)
    assert silent(session.server)
    session("delete")
    network.drain()
    session.server.sendto(b"late", ("10.60.1.7", UE_PORT))
    session.gnb.receives_nothing()


def test_open5gs_time_quota_stops_the_downlink_until_the_next_one(network):
    session = Session(network, "open5gs")
    session.activate()
    session("grant", seconds=1)
    session.down(100)
    is_reported(session, TIMQU)
    session.reply(data(100))
    session.gnb.receives_nothing()
    session("grant", seconds=60, seconds_threshold=59)
    session.down(200)
    is_reported(session, TIMTH)
    session.down(300)
    session.charged()
    # The first second and the second one, and what came after.
    assert 2 <= sum(session.seconds.values()) <= 3


def test_open5gs_quota_is_void_when_its_validity_ends_and_the_next_one_holds(network):
    session = Session(network, "open5gs")
    session.activate()
    session("grant", octets=10_000, validity=1)
    session.down(100)
    is_reported(session, QUVTI)
    session.reply(data(100))
    session.gnb.receives_nothing()
    session("grant", octets=10_000, validity=60)
    session.down(100)
    assert list(session.charged().values()) == [volume(0, session.got)]


def other_paths(network, session, add):
    """Two paths on one TEID: each has its QFI, and its URR counts what it takes to the octet."""
    one, other = network.servers[FLOW_PORT], network.servers[OTHER_FLOW_PORT]
    session.activate()
    [tunnel] = add()["tunnels"].values()
    assert tunnel["teid"] == session.teid
    for server, qfi in ((one, 2), (other, 1), (session.server, 1)):
        session.up(20, qfi, server)
        session.down(30, qfi, server)
    return one, other


def test_free5gc_has_several_paths_on_one_teid_by_flow_descriptions(network):
    session = Session(network, "free5gc")
    description = "permit out 17 from %s %d to assigned"
    one, other = other_paths(network, session,
                             lambda: session("add_flow", description=description % (DN, FLOW_PORT)))
    session("change_flow", description=description % (DN, OTHER_FLOW_PORT))
    for server, qfi in ((one, 1), (other, 2)):
        session.up(40, qfi, server)
        session.down(50, qfi, server)
    usage = sorted(session.charged().values(), key=lambda usage: usage["total"])
    path = volume(48 + 68, 58 + 78)
    rest = volume(session.sent - path["uplink"], session.got - path["downlink"])
    assert usage == sorted([path, rest, rest], key=lambda usage: usage["total"])


def test_free5gc_has_a_path_by_application(network):
    """The application is known by its PFD, which the PFDF's side sends: the SMF sends none."""
    session = Session(network, "free5gc")
    session("provision", application="streams", description=f"permit out 17 from {DN} {FLOW_PORT} to assigned")
    one, _ = other_paths(network, session, lambda: session("add_application", description="streams"))
    session("remove_flow")
    session.up(5, 1, one)
    session.down(5, 1, one)
    charged = session.charged()
    assert len(charged) == 3 and volume(48, 58) in charged.values(), charged


def test_sdcore_leaves_the_ues_address_to_the_upf(network):
    sessions = [Session(network, "sdcore", variant="pooled") for _ in range(2)]
    pool = ipaddress.ip_network(CHOSEN_POOL)
    assert all(ipaddress.ip_address(session.ue) in pool for session in sessions)
    assert len({session.ue for session in sessions}) == 2
    for session in sessions:
        session.activate()
        session.up(100)
        session.down(100)
    for session in sessions:
        session("delete")


def test_sdcore_sends_on_by_n9(network):
    """The first UPF of two: into the tunnel of the next, with the QoS flow."""
    target = {"address": OTHER_GNB, "teid": 0xA0001}
    session = Session(network, "sdcore", variant="intermediate", next=target)
    session.send(b"far away")
    packet = network.other_gnb.receive()
    assert (packet.gtp_type, packet.teid, packet[IP].src) == (G_PDU, target["teid"], session.ue)
    assert (packet[GTPPDUSessionContainer].type, packet[GTPPDUSessionContainer].QFI) == (1, session.qfi)
    assert bytes(packet[UDP].payload) == b"far away" and silent(session.server)
    session("delete")


def test_sdcore_anchors_behind_another_upf(network):
    """The last UPF of two: the downlink waits although its tunnel is known, until it is forwarded."""
    before = {"address": GNB, "teid": 0xA0002}
    session = Session(network, "sdcore", variant="anchor", next=before)
    session.up(100)
    session.reply(b"early")
    session.gnb.receives_nothing()
    session.is_reported_once()
    session.activate()
    session.arrives(b"early")
    session.down(100)
    session("delete")


def test_sdcore_answers_an_association_that_the_upf_sets_up(network):
    """With sequence number 1, whatever the request's."""
    smf = network.lab.asked_script("sdcore", ASKED_SMF)
    network.smfs["asked"] = smf
    try:
        time.sleep(0.1)
        QFI["asked"], UPLINK_PDR["asked"] = QFI["sdcore"], UPLINK_PDR["sdcore"]
        session = Session(network, "asked")
        session.activate()
        session.up(100)
        session.down(100)
        session("delete")
    finally:
        del network.smfs["asked"]


def test_open5gs_forwards_what_the_old_gnb_sends_back(network):
    session = Session(network, "open5gs")
    session.activate()
    target = {"address": OTHER_GNB, "teid": 0xF0001}
    [tunnel] = session("forward", gnb=target)["tunnels"].values()
    assert tunnel["address"] == N3 and tunnel["teid"] != session.teid
    inner = IP(src=DN, dst=session.ue) / UDP(sport=DN_PORT, dport=UE_PORT) / Raw(b"on its way")
    session.gnb.send(N3, tunnel["teid"], inner, session.qfi, downlink=True)
    packet = network.other_gnb.receive()
    assert (packet.gtp_type, packet.teid, packet[IP].dst) == (G_PDU, target["teid"], session.ue)
    session("stop_forwarding")
    session.gnb.send(N3, tunnel["teid"], inner, session.qfi, downlink=True)
    assert session.gnb.receive().gtp_type == ERROR_INDICATION
    session.up(1)
    session("delete")


def test_sdcore_closes_and_opens_gates(network):
    session = Session(network, "sdcore")
    session.activate()
    session("gate", on=True)
    session.send(b"stop")
    session.reply(b"stop")
    session.gnb.receives_nothing()
    assert silent(session.server)
    session("gate", on=False)
    session.up(10)
    session.down(10)
    session("delete")


def test_sdcore_pages_in_vain(network):
    session = Session(network, "sdcore")
    session.activate()
    session("idle")
    session.smf("page_in_vain", on=True)
    session.reply(b"no host is there")
    session.is_reported_once()
    session.smf("page_in_vain", on=False)
    time.sleep(DROP_SECONDS)
    session.activate()
    session.gnb.receives_nothing()
    session.down(10)
    session("delete")


def test_oai_with_an_instance_for_each_interface(network):
    session = Session(network, "oai", prefix="10.46.0", variant="named")
    session.gnb, session.server, session.n3 = network.oai_gnb, network.oai_server, OAI_N3
    session.reply(b"early")
    session.gnb.receives_nothing()
    session.activate()
    session.up(100)
    session.down(100)
    assert list(session.charged().values()) == [volume(session.sent, session.got)]


def test_oai_takes_n9_by_choose_without_an_id(network):
    """The first UPF of two: the tunnel of the downlink is not that of the uplink, which has a CHOOSE ID."""
    target = {"address": OTHER_GNB, "teid": 0xB0001}
    session = Session(network, "oai", next=target)
    session.activate()
    [n9] = session("tunnels")["tunnels"].values()
    assert n9["teid"] != session.teid
    session.send(data(100))
    packet = network.other_gnb.receive()
    assert (packet.gtp_type, packet.teid, packet[GTPPDUSessionContainer].QFI) == (G_PDU, target["teid"], session.qfi)
    assert silent(session.server)
    inner = IP(src=DN, dst=session.ue) / UDP(sport=DN_PORT, dport=UE_PORT) / Raw(data(200))
    network.other_gnb.send(n9["address"], n9["teid"], inner, session.qfi, downlink=True)
    session.arrives(data(200))
    assert list(session.charged().values()) == [volume(128, 228)]


def test_oai_redirects_to_a_url(network):
    """Redirect Address Type 2 in the forwarding parameters of the uplink: HTTP gets 302 with the URL."""
    url = "http://portal.example/pay?ue=1"
    session = Session(network, "oai", redirect=url)
    session.activate()
    def segment(**fields):
        return IP(src=session.ue, dst=DN) / TCP(sport=UE_PORT, dport=80, window=65535, **fields)
    session.gnb.send(N3, session.teid, segment(flags="S", seq=1000), session.qfi)
    answer = session.gnb.receive()[TCP]
    assert (answer.flags, answer.ack) == ("SA", 1001)
    request = segment(flags="PA", seq=1001, ack=answer.seq + 1) / Raw(b"GET / HTTP/1.1\r\nHost: www.example\r\n\r\n")
    session.gnb.send(N3, session.teid, request, session.qfi)
    while not bytes((answer := session.gnb.receive()[TCP]).payload).startswith(b"HTTP"):
        pass
    said = bytes(answer.payload)
    assert said.startswith(b"HTTP/1.1 302 ") and f"Location: {url}\r\n".encode() in said
    session.send(b"no TCP")
    assert silent(session.server)
    network.drain()
    session("delete")


def test_oai_thresholds_of_a_thousand_octets_make_no_storm(network):
    session = Session(network, "oai")
    session.activate()
    network.smfs["oai"]("reports")
    for _ in range(200):
        session.down(1000)
    reports = network.smfs["oai"]("reports")["reports"]
    assert len(reports) <= 20, reports
    assert list(session.charged().values()) == [volume(0, session.got)]


# What each SMF is known for, as a display filter that some request of its own must match.
QUIRKS = {
    "open5gs": [
        "pfcp.node_id_fqdn",
        "pfcp.f_teid_flags.ch == 1 && pfcp.f_teid_flags.v4 == 1 && pfcp.f_teid_flags.v6 == 1 "
        "&& pfcp.f_teid.choose_id == 05",
        "pfcp.apply_action.buff == 1 && pfcp.apply_action.nocp == 1 && pfcp.bar_id",
        "pfcp.smreq_flags.sndem == 1",
        "pfcp.msg_type == 50 && frame contains 00:ba:00:01:01",   # PFCPSEReq-Flags with RESTI
        "frame contains \"10.60.1.0/24 0.0.0.0 1\"",
    ],
    "free5gc": [
        "pfcp.f_teid_flags.ch == 0 && pfcp.pdr_id > 4711",
        "pfcp.msg_type == 52 && pfcp.smreq_flags.sndem == 0",
        "frame contains 00:b5:00:04:00:00:00:00",   # Quota Validity Time 0
        "frame contains 00:18:00:07:73:74:72:65:61:6d:73",   # Application ID "streams"
    ],
    "sdcore": [
        "pfcp.f_teid_flags.ch == 1 && pfcp.f_teid_flags.v4 == 0 && !pfcp.f_teid.choose_id",
        "pfcp.dst_interface == 2",
        "frame contains 00:5d:00:01:10",            # UE IP Address of CHV4 and nothing else
        "frame contains 00:16:00:00",               # Network Instance of length 0
        "frame contains 23:36:00",                  # Session Deletion Request with a message priority
    ],
    "oai": [
        "pfcp.node_id_fqdn",
        "pfcp.f_teid.choose_id == 2a",
        "pfcp.f_teid_flags.ch == 1 && pfcp.f_teid_flags.v4 == 1 && !pfcp.f_teid.choose_id",
        "pfcp.volume_threshold.dlvol == 1000",
    ],
}


@pytest.mark.parametrize("name", LOCAL)
def test_zy_the_quirks_were_on_the_wire(network, name):
    for quirk in QUIRKS[name]:
        found = tshark(network.lab.captures["n4"], f"ip.src == {LOCAL[name]} && ({quirk})", "frame.number")
        assert found, quirk


def test_zz_all_is_given_back_with_the_association(network):
    """Runs last. What an association had goes with it, and the next one starts with nothing."""
    for name, smf in network.smfs.items():
        network.drain()
        session = Session(network, name)
        session.up(10)
        smf("release")
        assert session.is_unknown()
        with pytest.raises(RuntimeError, match="cause 72"):
            Session(network, name)
        smf("associate")
        Session(network, name)
        smf("release")


def test_zz_packets_have_waited_in_queues(smf_lab):
    """Where the laboratory has them: all tests above have seen no other packets, octets and reports for it."""
    if "egress:" not in smf_lab.configuration:
        pytest.skip("no queues")
    rows = shown(smf_lab, "queues")["priorities"]
    assert [row["classes"] for row in rows] == [["voice"], ["rest"]]
    assert all(row["departed_packets"] > 50 and not row["dropped"] for row in rows), rows
