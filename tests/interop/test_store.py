"""Sessions outlive the process: kill -9 under traffic, planned stops, and an SMF that sees neither."""
import os
import signal
import threading
import time

import pytest
from scapy.all import IP, UDP, PcapReader, Raw

from lab import API_CONFIGURATION, DN, Lab, Tunnel, eventually, kernel_ue, shown
from test_inspection import CHOOSE_ID, servers, used, web

STORE = API_CONFIGURATION + """\
store: {{directory: "{files}/store"}}
access_lists: [{{name: all, rules: [{{action: deny, flows: [permit out 17 from any 9999 to assigned]}}]}}]
"""
PAYLOAD = b"0123456789" * 10
OCTETS = 28 + len(PAYLOAD)
# A checkpoint of each session is made once a second.
CHECKPOINT = 2.5


@pytest.fixture(params=["af_packet", "af_xdp"])
def lab(request):
    # A veth has one queue: one worker on af_xdp.
    workers = 2 if request.param == "af_packet" else 1
    made = Lab(os.environ["SLUICE"], request.param, workers=workers, configuration=STORE)
    made.associate()
    yield made
    if request.session.testsfailed:
        print(made.said())
    made.close()


def restart(lab, how=signal.SIGKILL):
    """Ends the process and starts another one; what each has logged."""
    lab.process.send_signal(how)
    lab.process.wait(15)
    before = lab.said()
    lab._start(os.environ["SLUICE"])
    return before


def uplink(ue, port):
    return bytes(IP(src=ue, dst=DN) / UDP(sport=40000, dport=port) / Raw(PAYLOAD))


def reaches_dn(tunnel, ue, server, port):
    """Whether a packet gets to the data network within two seconds, and its answer back to the gNB."""
    server.settimeout(0.1)
    tunnel.gnb.settimeout(1)
    for _ in range(20):
        tunnel.send(uplink(ue, port))
        try:
            payload, source = server.recvfrom(2000)
        except TimeoutError:
            continue
        assert payload == PAYLOAD
        server.sendto(PAYLOAD, source)
        return tunnel.receive()[28:] == PAYLOAD
    return False


def requests_of_smf(lab, since):
    """Types of the PFCP messages that the SMF has sent since, without heartbeats."""
    with PcapReader(str(lab.captures["n4"])) as packets:
        for packet in packets:
            if packet.time >= since and IP in packet and packet[IP].src == "127.0.0.2" and UDP in packet:
                kind = bytes(packet[UDP].payload)[1]
                if kind not in (1, 2):
                    yield kind


def test_sessions_outlive_a_kill(lab):
    sessions = [lab.smf.session(ue4=f"10.45.9.{number}") for number in range(1, 21)]
    with lab.dn_udp_socket(DN, 9000) as server, lab.gnb_socket() as gnb:
        tunnels = [(Tunnel(session, gnb), session["ue_ipv4"]) for session in sessions]
        for tunnel, ue in tunnels:
            assert reaches_dn(tunnel, ue, server, 9000)
        time.sleep(CHECKPOINT)
        killed = time.time()
        restart(lab)
        for tunnel, ue in tunnels:
            assert reaches_dn(tunnel, ue, server, 9000), ue
        assert list(requests_of_smf(lab, killed)) == []
        assert "sessions restored" in eventually(lambda: "sessions restored" in lab.said() and lab.said(), "all restored")
        store = shown(lab)
        assert store["state"] == "writing" and store["records"] >= 20 and store["unreadable"] == 0, store
        assert store["sessions"]["restored"] == 20 and store["sessions"]["absent"] == 0, store
    for session in sessions[:10]:
        usage = lab.smf("delete", up_seid=session["up_seid"])["usage"]
        volume = [(report["uplink"], report["downlink"]) for report in usage]
        # Each packet was counted before the checkpoint or by the new process; a lost first packet is sent again.
        assert volume and all(up >= 2 * OCTETS and down == 2 * OCTETS for up, down in volume), volume

    # What was deleted stays so; the others are there after the next kill, too.
    time.sleep(CHECKPOINT)
    restart(lab)
    for session in sessions[:10]:
        with pytest.raises(RuntimeError):
            lab.smf("delete", up_seid=session["up_seid"])
    for session in sessions[10:]:
        usage = lab.smf("delete", up_seid=session["up_seid"])["usage"]
        assert [report["downlink"] for report in usage] == [2 * OCTETS], usage


def send_until(stop, tunnels):
    while not stop.wait(0.01):
        for tunnel, ue in tunnels:
            tunnel.send(uplink(ue, 9004))


def test_packets_during_a_restart_wait_for_their_sessions(lab):
    """They are in the ports' rings before the first session is there."""
    sessions = [lab.smf.session(ue4=f"10.45.9.{number}") for number in range(1, 11)]
    with lab.dn_udp_socket(DN, 9004) as server, lab.gnb_socket() as gnb:
        tunnels = [(Tunnel(session, gnb), session["ue_ipv4"]) for session in sessions]
        stop = threading.Event()
        sender = threading.Thread(target=send_until, args=(stop, tunnels))
        sender.start()
        try:
            for _ in range(3):
                restart(lab)
                time.sleep(0.2)
        finally:
            stop.set()
            sender.join()
        server.settimeout(1)
        assert server.recv(2000) == PAYLOAD
        gnb.settimeout(0.2)
        with pytest.raises(TimeoutError):
            # An Error Indication, say.
            gnb.recv(2000)


def received(server):
    """Packets that wait at the server, until none comes for a second."""
    server.settimeout(1)
    count = 0
    try:
        while server.recv(2000):
            count += 1
    except TimeoutError:
        pass
    return count


def test_a_packet_rate_lets_no_more_pass_in_its_minute_after_a_kill(lab):
    """20 packets in the minute that begins with the first of them, whatever happens to the process meanwhile."""
    session = lab.smf.session(ue4="10.45.9.1", packets_up=20)
    with lab.dn_udp_socket(DN, 9000) as server, lab.gnb_socket() as gnb:
        tunnel = Tunnel(session, gnb)
        send = lambda count: [tunnel.send(uplink("10.45.9.1", 9000)) for _ in range(count)]
        begun = time.time()
        send(8)
        passed = received(server)
        # What was lost on the way to the first neighbour was let pass, too.
        assert 1 <= passed <= 8
        time.sleep(CHECKPOINT)
        restart(lab)
        eventually(lambda: shown(lab)["sessions"]["restored"] == 1, "restored")
        send(30)
        assert received(server) == 12
        time.sleep(CHECKPOINT)
        restart(lab)
        eventually(lambda: shown(lab)["sessions"]["restored"] == 1, "restored")
        send(30)
        assert received(server) == 0
        time.sleep(max(0, begun + 61 - time.time()))
        send(30)
        assert received(server) == 20


def test_a_planned_stop_keeps_every_octet(lab):
    session = lab.smf.session(ue4="10.45.9.1")
    with lab.dn_udp_socket(DN, 9001) as server, lab.gnb_socket() as gnb:
        tunnel = Tunnel(session, gnb)
        assert reaches_dn(tunnel, session["ue_ipv4"], server, 9001)
        stopped = time.time()
        said = restart(lab, signal.SIGTERM)
        assert "sessions kept for the next start" in said
        assert reaches_dn(tunnel, session["ue_ipv4"], server, 9001)
        assert list(requests_of_smf(lab, stopped)) == []
    usage = lab.smf("delete", up_seid=session["up_seid"])["usage"]
    assert [report["downlink"] for report in usage] == [2 * OCTETS]


def test_names_of_applications_and_access_lists_hold_after_a_kill(lab):
    """The session's record has neither: they are the node's, and its configuration's."""
    lab.smf("pfds", application="shop", pfds=[{"domain": "*.shop.example"}])
    with lab.gnb_socket() as gnb, kernel_ue(lab, gnb, choose_flags=CHOOSE_ID, applications=["shop"]) as (session, ue, _):
        time.sleep(CHECKPOINT)
        restart(lab)
        with servers(lab), lab.dn_udp_socket(DN, 9999) as refused:
            before = used(lab, session, ["shop"])
            web(lab, "get", "https://www.shop.example/50000", "https://www.example/3000")
            eventually(lambda: used(lab, session, ["shop"])["shop"] - before["shop"] > 50_000, "the shop's flow is counted as its")
            assert used(lab, session, ["shop"])["rest"] - before["rest"] < 50_000
            refused.settimeout(0.5)
            Tunnel(session, gnb).send(uplink(ue, 9999))
            with pytest.raises(TimeoutError):
                refused.recv(2000)
        dropped = lambda: shown(lab, "access-lists")["access_lists"][0]["rules"][0]["dropped_packets"]
        eventually(lambda: dropped() == 1, "the rule has dropped it")
