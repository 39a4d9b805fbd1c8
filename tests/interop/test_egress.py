"""Queues before ports: the kernel's TCP through a rate that is shaped, and the same through one that is policed."""
import json
import os
import socket
import struct
import subprocess
import threading

from lab import eventually, kernel_ue, shown

# Far above what a session may have at once, and three seconds of the rate.
OCTETS = bytes(1500) * 2000
KBIT = 8_000
TCP_TOTAL_RETRANS = 100  # in struct tcp_info


def download(lab, ue4, ecn, congestion="cubic"):
    """What a host of the data network sends to the UE: how many octets came, and how many segments were sent again."""
    got = {}
    lab.dn.run(f"sysctl -q -w net.ipv4.tcp_ecn={1 if ecn else 0}")
    lab.ue.run(f"sysctl -q -w net.ipv4.tcp_ecn={1 if ecn else 0}")
    with lab.ue.entered():
        server = socket.create_server((ue4, 0))

    def receive():
        connection, _ = server.accept()
        with connection:
            got["octets"] = 0
            while part := connection.recv(65536):
                got["octets"] += len(part)
    thread = threading.Thread(target=receive)
    thread.start()
    with lab.dn.entered():
        client = socket.create_connection(server.getsockname(), timeout=30)
    with client:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, congestion.encode())
        client.sendall(OCTETS)
        client.shutdown(socket.SHUT_WR)
        thread.join(30)
        info = client.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 192)
        got["retransmitted"] = struct.unpack_from("I", info, TCP_TOTAL_RETRANS)[0]
    server.close()
    return got


def queues(lab):
    return shown(lab, "queues")


def test_tcp_waits_instead_of_losing(egress_lab):
    """A connection whose ends heed ECN is marked at a rate that is shaped, and loses nothing for having waited."""
    lab = egress_lab
    before = queues(lab)
    with lab.gnb_socket() as gnb, kernel_ue(lab, gnb, mbr=KBIT) as (session, ue4, _):
        assert download(lab, ue4, ecn=True)["octets"] == len(OCTETS)
        eventually(lambda: queues(lab)["packets"] == 0, "the queues are empty")
        detail = shown(lab, "session", str(session["up_seid"]))
    [instance] = [one for one in queues(lab)["shapers"] if one["kind"] == "instance"]
    assert (instance["name"], len(instance["workers"])) == ("access", lab.workers)
    [queue] = detail["queues"]
    assert (queue["direction"], queue["class"]) == ("downlink", "rest")
    # A sender that is slow to react may fill the queue; none of its packets is dropped for having waited.
    assert queue["marked_packets"] > 0 and "delay" not in queue.get("dropped", {}), queue
    after = queues(lab)
    [row] = [one for one in after["priorities"] if one["priority"] == 1]
    [old] = [one for one in before["priorities"] if one["priority"] == 1] or [dict(departed_packets=0, departed_octets=0)]
    # Each packet that left was charged, and none other.
    [urr] = detail["urrs"]
    assert row["departed_packets"] - old["departed_packets"] == urr["since_last_report"]["downlink_packets"]
    assert row["departed_octets"] - old["departed_octets"] == urr["since_last_report"]["downlink_octets"]
    eventually(lambda: queues(lab)["queues"] == 0, "the session has no queues any more")


def test_without_ecn_packets_are_lost_and_not_charged(egress_lab):
    lab = egress_lab
    with lab.gnb_socket() as gnb, kernel_ue(lab, gnb, mbr=KBIT) as (session, ue4, _):
        got = download(lab, ue4, ecn=False)
        assert got["octets"] == len(OCTETS)
        eventually(lambda: queues(lab)["packets"] == 0, "the queues are empty")
        detail = shown(lab, "session", str(session["up_seid"]))
        [queue] = detail["queues"]
        dropped = sum(queue.get("dropped", {}).values())
        assert 0 < dropped and queue["marked_packets"] == 0
        assert dropped <= got["retransmitted"] + 20, "what is dropped is sent again"


def test_a_trace_says_how_packets_waited(egress_lab):
    lab = egress_lab
    with lab.gnb_socket() as gnb, kernel_ue(lab, gnb, mbr=KBIT) as (_, ue4, _):
        command = [os.environ["SLUICE"], "trace", "--ue", ue4, "--count", "400", "--seconds", "10", "--json", "--socket",
                   str(lab.files / "control")]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as trace:
            download(lab, ue4, ecn=True)
            lines = [json.loads(line) for line in trace.communicate(timeout=30)[0].splitlines()]
    packets = [line for line in lines if "number" in line]
    waited = [packet for packet in packets if "queue" in packet]
    assert waited and all(packet["direction"] == "downlink" for packet in waited)
    assert {packet["queue"]["class"] for packet in waited} == {"rest"}
    assert max(packet["queue"]["waited_ns"] for packet in waited) > 1_000_000
    assert not [packet for packet in packets if "disagreement" in packet]
    sent = [packet for packet in waited if packet["end"]["outcome"] == "sent"]
    assert len(sent) > len(waited) // 2


def test_nothing_waits_towards_the_data_network(egress_lab):
    lab = egress_lab
    with lab.gnb_socket() as gnb, kernel_ue(lab, gnb) as (session, _, _):
        done = lab.ue.run("ping -n -c 5 -i 0.2 -W 2 10.200.0.254", check=False)
        assert "5 received" in done.stdout, done.stdout + done.stderr
        directions = {queue["direction"] for queue in shown(lab, "session", str(session["up_seid"]))["queues"]}
    assert directions == {"downlink"}
