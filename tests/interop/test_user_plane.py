"""scapy as gNB and data network, the kernel as UE and host: real packets through a running UPF."""
import socket
import time
import urllib.error
import urllib.request

import pytest
from scapy.all import ICMP, IP, UDP, Ether, ICMPv6EchoRequest, IPv6, Raw
from scapy.contrib.gtp import (GTP_U_Header, GTPEchoRequest, GTPEchoResponse, GTPErrorIndication,
                               GTPPDUSessionContainer)

from lab import DN, DN6, GNB, N3, N6, N6_6, UE4, UE6, kernel_ue

_next = iter(range(2, 200))
# IPv4, UDP, GTP-U and a PDU Session Container.
TUNNEL_OCTETS = 20 + 8 + 8 + 8


@pytest.fixture
def gnb(lab):
    with lab.gnb_socket() as sock:
        yield sock


@pytest.fixture
def session(lab):
    """A session with an IPv4 UE, deleted in the end."""
    got = lab.smf.session(ue4=str(UE4[next(_next)]))
    yield got
    lab.smf("delete", up_seid=got["up_seid"])


@pytest.fixture
def session6(lab):
    """A session with an IPv6 prefix; the UE takes an address of its /64."""
    prefix = UE6[next(_next) << 64]
    got = lab.smf.session(ue6=str(prefix))
    got["ue"] = str(prefix + 0x1234)
    yield got
    lab.smf("delete", up_seid=got["up_seid"])


def g_pdu(session, inner, qfi=None):
    container = GTPPDUSessionContainer(type=1, QFI=session["qfi"] if qfi is None else qfi)
    return bytes(GTP_U_Header(teid=session["teid"], gtp_type=255, E=1, next_ex=0x85) / container / inner)


def is_from_ue(frame, inner):
    packet = Ether(frame)
    layer = packet.getlayer(type(inner))
    return layer is not None and layer.src == inner.src and layer.dst == inner.dst


def received(tap, inner):
    """The next frame at the DN from the UE that sent `inner`."""
    deadline = time.monotonic() + 3
    while time.monotonic() < deadline:
        frame = tap.recv(65535)
        if is_from_ue(frame, inner):
            return Ether(frame)[type(inner)]
    raise AssertionError("nothing reached the data network")


def downlink(gnb):
    """The next G-PDU at the gNB."""
    while True:
        packet = GTP_U_Header(gnb.recv(65535))
        if packet.gtp_type == 255:
            return packet


def nothing_arrives(sock, seconds=0.4):
    sock.settimeout(seconds)
    try:
        with pytest.raises(TimeoutError):
            sock.recv(65535)
    finally:
        sock.settimeout(3)


def test_uplink_ipv4(lab, gnb, session):
    inner = IP(src=session["ue_ipv4"], dst=DN, ttl=64, id=7) / UDP(sport=4000, dport=5000) / Raw(b"uplink" * 20)
    with lab.dn_tap() as tap:
        gnb.sendto(g_pdu(session, inner), (N3, 2152))
        got = received(tap, inner)
    expected = IP(bytes(inner))
    expected.ttl, expected.chksum = 63, None
    assert bytes(got)[:len(inner)] == bytes(expected)


def test_downlink_ipv4(lab, gnb, session):
    payload = bytes(UDP(sport=5000, dport=4000) / Raw(b"downlink" * 30))
    with lab.dn_socket(4, socket.IPPROTO_UDP) as dn:
        dn.sendto(payload, (session["ue_ipv4"], 0))
    got = downlink(gnb)
    container = got[GTPPDUSessionContainer]
    assert (got.teid, container.type, container.QFI) == (session["gnb_teid"], 0, session["qfi"])
    inner = got[IP]
    assert (inner.src, inner.dst, inner.ttl) == (DN, session["ue_ipv4"], 63)
    assert bytes(inner[UDP])[8:] == payload[8:]


def test_uplink_ipv6(lab, gnb, session6):
    inner = IPv6(src=session6["ue"], dst=DN6, hlim=64, fl=0x12345) / UDP(sport=4000, dport=5000) / Raw(b"six" * 40)
    with lab.dn_tap() as tap:
        gnb.sendto(g_pdu(session6, inner), (N3, 2152))
        got = received(tap, inner)
    expected = IPv6(bytes(inner))
    expected.hlim = 63
    assert bytes(got)[:len(inner)] == bytes(expected)


def test_downlink_ipv6(lab, gnb, session6):
    with lab.dn_socket(6, socket.IPPROTO_UDP) as dn:
        dn.sendto(bytes(UDP(sport=5000, dport=4000, chksum=0xBEEF) / Raw(b"six" * 50)), (session6["ue"], 0, 0, 0))
    got = downlink(gnb)
    assert (got.teid, got[GTPPDUSessionContainer].QFI) == (session6["gnb_teid"], session6["qfi"])
    assert (got[IPv6].src, got[IPv6].dst, got[IPv6].hlim) == (DN6, session6["ue"], 63)


def test_ports_never_seen_take_the_same_session(lab, gnb, session):
    with lab.dn_tap() as tap:
        for port in range(6000, 6020):
            inner = IP(src=session["ue_ipv4"], dst=DN) / UDP(sport=port, dport=40000) / Raw(b"q")
            gnb.sendto(g_pdu(session, inner), (N3, 2152))
            assert received(tap, inner)[UDP].sport == port


def test_the_data_network_answers_inside_gtpu(lab, gnb, session):
    request = IP(src=session["ue_ipv4"], dst=DN) / ICMP(id=77, seq=1) / Raw(b"x" * 56)
    gnb.sendto(g_pdu(session, request), (N3, 2152))
    reply = downlink(gnb)
    assert reply[ICMP].type == 0 and reply[ICMP].id == 77
    assert reply[GTPPDUSessionContainer].QFI == session["qfi"]


def test_ping_through_gtpu(lab, gnb):
    with kernel_ue(lab, gnb):
        for target in (DN, DN6):
            done = lab.ue.run(f"ping -n -c 5 -i 0.2 -W 2 {target}", check=False)
            assert "5 received" in done.stdout, done.stdout + done.stderr


def test_a_host_learns_the_path_mtu(lab, gnb):
    """The tunnel takes its octets of 1,500: the kernel learns it."""
    with kernel_ue(lab, gnb) as (_, ue4, ue6):
        for ue, size in ((ue4, 1472), (ue6, 1452)):
            said = lab.dn.run(f"ping -n -M do -c 2 -i 0.2 -W 2 -s {size} {ue}", check=False).stdout
            assert "mtu = 1456" in said or "mtu=1456" in said, said
            assert "mtu 1456" in lab.dn.run(f"ip route get {ue}").stdout
            # What fits arrives; the answer comes in pieces, for the UE's own link takes 1,400.
            done = lab.dn.run(f"ping -n -M do -c 2 -i 0.2 -W 2 -s {size - TUNNEL_OCTETS} {ue}", check=False)
            assert "2 received" in done.stdout, done.stdout + done.stderr


def test_a_ue_traces_its_path(lab, gnb):
    with kernel_ue(lab, gnb):
        for target, router in ((DN, N6), (DN6, N6_6)):
            said = lab.ue.run(f"ping -n -t 1 -c 1 -W 2 {target}", check=False).stdout
            assert f"From {router}" in said and "exceeded" in said, said


class NoRedirection(urllib.request.HTTPRedirectHandler):
    """What the server says is the answer."""

    def redirect_request(self, *_):
        return None


def test_http_is_redirected(lab, gnb):
    """A browser's kernel talks TCP with the UPF: 302 and the end of the connection, over IPv4 and IPv6."""
    url = "http://portal.example/?" + "a" * 700
    opener = urllib.request.build_opener(NoRedirection, urllib.request.ProxyHandler({}))
    with kernel_ue(lab, gnb) as (session, *_):
        lab.smf("redirect", up_seid=session["up_seid"], url=url)
        for host in (DN, f"[{DN6}]"):
            for path in ("/", "/?" + "b" * 4000):
                with lab.ue.entered(), pytest.raises(urllib.error.HTTPError) as caught:
                    opener.open(f"http://{host}{path}", timeout=5)
                assert (caught.value.code, caught.value.headers["Location"]) == (302, url)
            with lab.ue.entered(), pytest.raises(urllib.error.URLError) as caught:
                opener.open(f"https://{host}/", timeout=5)
            assert isinstance(caught.value.reason, ConnectionRefusedError)
        # One that takes small segments gets the same in pieces.
        with lab.ue.entered():
            small = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        with small:
            small.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, 536)
            small.settimeout(5)
            small.connect((DN, 80))
            small.sendall(b"GET / HTTP/1.1\r\nHost: www.example\r\n\r\n")
            got = b""
            while piece := small.recv(65535):
                got += piece
        assert got.startswith(b"HTTP/1.1 302 ") and url.encode() in got and got.endswith(b"\r\n\r\n")


def test_usage_is_exact(lab, gnb):
    session = lab.smf.session(ue4=str(UE4[next(_next)]))
    sizes = [28, 100, 577, 1300]
    octets = 0
    for size in sizes:
        request = IP(src=session["ue_ipv4"], dst=DN) / ICMP(id=5, seq=size) / Raw(b"u" * (size - 28))
        gnb.sendto(g_pdu(session, request), (N3, 2152))
        assert downlink(gnb)[ICMP].type == 0
        octets += size
    usage = lab.smf("delete", up_seid=session["up_seid"])["usage"]
    assert usage == [{"urr": 1, "total": 2 * octets, "uplink": octets, "downlink": octets}]


PERIO, VOLTH, VOLQU = 0x01, 0x02, 0x100


def pinged(gnb, tap, session, size, number):
    """Sends an echo request of a given size: whether the data network got it, and the UE the answer."""
    request = IP(src=session["ue_ipv4"], dst=DN) / ICMP(id=21, seq=number) / Raw(b"c" * (size - 28))
    gnb.sendto(g_pdu(session, request), (N3, 2152))
    for sock in (tap, gnb):
        sock.settimeout(0.5)
    try:
        while not is_from_ue(tap.recv(65535), request):
            pass
    except TimeoutError:
        return False, False
    try:
        return True, downlink(gnb)[ICMP].seq == number
    except TimeoutError:
        return True, False


def summed(reports):
    return tuple(sum(usage[way] for usage in reports) for way in ("uplink", "downlink"))


def test_thresholds_report_and_a_quota_stops_at_the_octets_that_passed(lab, gnb):
    size, threshold, quota = 500, 3_000, 20_000
    charging = {"threshold": threshold, "quota": quota}
    session = lab.smf.session(ue4=str(UE4[next(_next)]), charging=charging)
    lab.smf("reports")
    uplink = downlink_ = 0
    with lab.dn_tap() as tap:
        for number in range(2 * quota // size):
            left, came = pinged(gnb, tap, session, size, number)
            uplink, downlink_ = uplink + size * left, downlink_ + size * came
            if not came:
                break
        late = [pinged(gnb, tap, session, size, number + again) for again in (1, 2)]
        assert late == [(False, False)] * 2, "the quota is used up"
    gnb.settimeout(3)
    assert quota - size < uplink + downlink_ <= quota, "the packet that does not fit does not pass"
    time.sleep(1)  # reports are paced
    reports = [report for report in lab.smf("reports")["reports"] if report["seid"] == session["seid"]]
    triggers = [trigger for report in reports for trigger in report["triggers"]]
    assert any(trigger & VOLTH for trigger in triggers) and any(trigger & VOLQU for trigger in triggers), triggers
    assert len(triggers) <= 2 + quota // threshold
    charged = lab.smf("charged", seid=session["seid"])["charged"]
    last = lab.smf("delete", up_seid=session["up_seid"])["usage"]
    assert summed(charged + last) == (uplink, downlink_)
    assert sum(usage["total"] for usage in charged + last) == uplink + downlink_


def test_periodic_reports_sum_up_to_what_passed(lab, gnb):
    size = 300
    session = lab.smf.session(ue4=str(UE4[next(_next)]), charging={"seconds": 1})
    lab.smf("reports")
    count = 0
    until = time.monotonic() + 3.5
    with lab.dn_tap() as tap:
        while time.monotonic() < until:
            assert pinged(gnb, tap, session, size, count) == (True, True)
            count += 1
            time.sleep(0.05)
    gnb.settimeout(3)
    reports = [report for report in lab.smf("reports")["reports"] if report["seid"] == session["seid"]]
    assert len(reports) >= 2 and all(trigger == PERIO for report in reports for trigger in report["triggers"])
    charged = lab.smf("charged", seid=session["seid"])["charged"]
    last = lab.smf("delete", up_seid=session["up_seid"])["usage"]
    assert summed(charged + last) == (size * count, size * count)


def test_a_gate_acts_on_the_next_packet(lab, gnb, session):
    request = IP(src=session["ue_ipv4"], dst=DN) / ICMP(id=9) / Raw(b"g" * 32)
    gnb.sendto(g_pdu(session, request), (N3, 2152))
    downlink(gnb)
    for uplink, closed in ((1, 0), (0, 1)):
        lab.smf("gate", up_seid=session["up_seid"], uplink=uplink, downlink=closed)
        gnb.sendto(g_pdu(session, request), (N3, 2152))
        nothing_arrives(gnb)
    lab.smf("gate", up_seid=session["up_seid"], uplink=0, downlink=0)
    gnb.sendto(g_pdu(session, request), (N3, 2152))
    assert downlink(gnb)[ICMP].id == 9


def test_a_new_qfi_marks_the_next_packet(lab, gnb, session):
    request = IP(src=session["ue_ipv4"], dst=DN) / ICMP(id=10) / Raw(b"q" * 32)
    for qfi in (session["qfi"], 5, 63):
        lab.smf("qfi", up_seid=session["up_seid"], qfi=qfi)
        gnb.sendto(g_pdu(session, request), (N3, 2152))
        assert downlink(gnb)[GTPPDUSessionContainer].QFI == qfi


def test_a_spoofed_source_goes_nowhere(lab, gnb, session):
    request = IP(src="10.45.255.254", dst=DN) / ICMP() / Raw(b"s" * 32)
    with lab.dn_tap() as tap:
        gnb.sendto(g_pdu(session, request), (N3, 2152))
        tap.settimeout(0.4)
        with pytest.raises(TimeoutError):
            while not is_from_ue(tap.recv(65535), request):
                pass


def test_a_ue_does_not_reach_the_ran(lab, gnb, session):
    other = lab.smf.session(ue4=str(UE4[next(_next)]))
    try:
        forged = g_pdu({"teid": other["gnb_teid"], "qfi": 1}, IP(src="6.6.6.6", dst=other["ue_ipv4"]) / ICMP())
        inner = IP(src=session["ue_ipv4"], dst=GNB) / UDP(sport=2152, dport=2152) / Raw(forged)
        gnb.sendto(g_pdu(session, inner), (N3, 2152))
        nothing_arrives(gnb)
    finally:
        lab.smf("delete", up_seid=other["up_seid"])


def test_the_data_network_cannot_speak_gtpu(lab, session):
    inner = IP(src=session["ue_ipv4"], dst=DN, id=77) / UDP(sport=4000, dport=5000) / Raw(b"from n6")
    lab.dn.run(f"ip route add {N3}/32 via {N6}", check=False)
    with lab.dn_tap() as tap, lab.dn_socket(4, socket.IPPROTO_UDP) as dn:
        dn.sendto(bytes(UDP(sport=2152, dport=2152) / Raw(g_pdu(session, inner))), (N3, 0))
        tap.settimeout(0.4)
        with pytest.raises(TimeoutError):
            while True:
                packet = Ether(tap.recv(65535))
                # What was sent is seen too: only what Sluice took out of the tunnel counts.
                assert not (IP in packet and packet[IP].src == session["ue_ipv4"])


def test_a_deleted_session_is_gone_at_once(lab, gnb):
    session = lab.smf.session(ue4=str(UE4[next(_next)]))
    lab.smf("delete", up_seid=session["up_seid"])
    gnb.sendto(g_pdu(session, IP(src=session["ue_ipv4"], dst=DN) / ICMP()), (N3, 2152))
    answer = GTP_U_Header(gnb.recv(65535))
    assert answer.gtp_type == 26


def test_echo_is_answered_from_the_address_asked(lab):
    with lab._socket(lab.ran, socket.AF_INET, socket.SOCK_DGRAM, 0, (GNB, 33333)) as sock:
        request = GTP_U_Header(teid=0, gtp_type=1, S=1, seq=0xABCD) / GTPEchoRequest()
        sock.sendto(bytes(request), (N3, 2152))
        raw, source = sock.recvfrom(65535)
    answer = GTP_U_Header(raw)
    assert source == (N3, 2152)
    assert (answer.gtp_type, answer.seq, answer.teid) == (2, 0xABCD, 0)
    assert GTPEchoResponse in answer


def test_an_unknown_teid_gets_an_error_indication(lab, gnb):
    inner = IP(src=str(UE4[1]), dst=DN) / ICMP()
    gnb.sendto(g_pdu({"teid": 0xDEAD0001, "qfi": 1}, inner), (N3, 2152))
    answer = GTP_U_Header(gnb.recv(65535))
    assert (answer.gtp_type, answer.teid) == (26, 0)
    # scapy does not look for the message behind a UDP Port extension header: hand it the rest.
    elements = GTPErrorIndication(answer.lastlayer().load).IE_list
    assert [ie.TEIDI for ie in elements if ie.ietype == 16] == [0xDEAD0001]
    assert [ie.ipv4_address for ie in elements if ie.ietype == 133] == [N3]


def test_a_flood_of_unknown_teids_is_answered_at_a_bounded_rate(lab, gnb):
    flood = 5000
    inner = IP(src=str(UE4[1]), dst=DN) / ICMP()
    datagram = g_pdu({"teid": 0xDEAD0002, "qfi": 1}, inner)
    for _ in range(flood):
        gnb.sendto(datagram, (N3, 2152))
    gnb.settimeout(0.5)
    answers = 0
    with pytest.raises(TimeoutError):
        while True:
            gnb.recv(65535)
            answers += 1
    gnb.settimeout(3)
    assert answers < flood / 5, answers


@pytest.mark.parametrize("where, target", [("ran", N3), ("dn", N6), ("dn", N6_6)])
def test_our_own_addresses_answer_ping(lab, where, target):
    namespace = getattr(lab, where)
    done = namespace.run(f"ping -n -c 3 -i 0.2 -W 2 {target}", check=False)
    assert "3 received" in done.stdout, done.stdout + done.stderr


MALFORMED = {
    "empty": b"",
    "truncated header": bytes.fromhex("30ff00"),
    "version 2": bytes.fromhex("50ff000400000001deadbeef"),
    "length beyond the datagram": bytes.fromhex("30ffffff00000001deadbeef"),
    "extension of length 0": bytes.fromhex("34ff000800000001000000850000000000"),
    "extension beyond the message": bytes.fromhex("34ff00080000000100000085ff100900"),
    "endless chain": bytes.fromhex("34ff0040000000010000" + "0085" + "01000085" * 14 + "00000000"),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_malformed_gtpu_does_no_harm(lab, gnb, session, name):
    for _ in range(3):
        gnb.sendto(MALFORMED[name], (N3, 2152))
    request = IP(src=session["ue_ipv4"], dst=DN) / ICMP(id=11) / Raw(b"alive")
    gnb.sendto(g_pdu(session, request), (N3, 2152))
    assert downlink(gnb)[ICMP].id == 11


def test_ipv6_echo_inside_ipv4_tunnel(lab, gnb, session6):
    request = IPv6(src=session6["ue"], dst=DN6) / ICMPv6EchoRequest(id=3, data=b"v6" * 20)
    gnb.sendto(g_pdu(session6, request), (N3, 2152))
    reply = downlink(gnb)
    assert reply[IPv6].src == DN6 and reply[IPv6].nh == 58


def test_zz_every_drop_was_counted(lab):
    """Runs last: stops the UPF and reads what it counted. The uplink PDR names the UE's address, as free5GC's does, so
    a spoofed source matches no PDR."""
    counters = lab.counters()
    for reason in ("no_matching_pdr", "gate_closed", "unknown_teid", "truncated_gtpu", "bad_gtpu_version",
                   "bad_gtpu_length", "bad_gtpu_extension"):
        assert counters["drops"].get(reason, 0) > 0, (reason, counters["drops"])
