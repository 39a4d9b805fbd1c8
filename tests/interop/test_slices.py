"""Slices with workers of their own: by the counters of the workers, each slice's packets are passed by its own worker, both ways."""
import os
import re
import signal
import struct

import pytest

from lab import API_CONFIGURATION, DN, N3, Lab, Tunnel, eventually, shown

# Worker 1 is slice 1-000001's alone; worker 0 has slice 2, and what names no slice.
CONFIGURATION = API_CONFIGURATION.replace("release_wait_s: 0", "release_wait_s: 0, accept_cp_f_teids: true") + """\
store: {{directory: "{files}/store"}}
slices:
  - {{sst: 1, sd: "000001", workers: [1]}}
"""
# What each is to the SMF, and its worker.
SLICES = {"1-000001": ({"sst": 1, "sd": 1}, 1), "2": ({"sst": 2, "sd": 0xffffff}, 0), "": ({}, 0)}
# UE addresses and TEIDs of the SMF's choice are in buckets of both workers.
SESSIONS, PACKETS = 12, 5
UDP = 17


@pytest.fixture(scope="module")
def slices(request):
    """A laboratory with two workers. A veth has one queue for af_xdp, so one worker."""
    lab = Lab(os.environ["SLUICE"], "af_packet", 2, CONFIGURATION)
    lab.associate()
    yield lab
    if request.session.testsfailed:
        print(lab.said())
    lab.close()


def counts(lab, *names):
    """The sum of these metrics for each worker."""
    text = lab.upf.run(f"curl -s --unix-socket {lab.files}/control http://localhost/metrics").stdout
    workers = [0, 0]
    for name in names:
        for worker, value in re.findall(rf'^{name}{{worker="(\d)"}} (\d+)$', text, re.M):
            workers[int(worker)] += int(value)
    return workers


def passed(lab):
    """Packets of sessions that each worker has looked up: a packet that is handed over is looked up by the one that gets it."""
    return counts(lab, "sluice_worker_flow_hits_total", "sluice_worker_flow_misses_total", "sluice_worker_flow_stale_total",
                  "sluice_worker_flow_bypassed_total")


def datagram(source, destination, payload):
    """An IPv4 datagram of UDP without a checksum of its own."""
    octets = struct.pack("!HHHH", 7000, 7001, 8 + len(payload), 0) + payload
    head = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 20 + len(octets), 0, 0, 64, UDP, 0,
                       bytes(map(int, source.split("."))), bytes(map(int, destination.split("."))))
    total = sum(struct.unpack("!10H", head))
    while total >> 16:
        total = (total & 0xffff) + (total >> 16)
    return head[:10] + struct.pack("!H", ~total & 0xffff) + head[12:] + octets


def exchange(lab, gnb, server, session):
    """Packets of a session both ways, all of which arrive."""
    tunnel, ue = Tunnel(session, gnb), session["ue_ipv4"]
    for number in range(PACKETS):
        payload = b"%d" % number
        tunnel.send(datagram(ue, DN, payload))
        assert server.recvfrom(100) == (payload, (ue, 7000))
        server.sendto(payload, (ue, 7000))
        inner = tunnel.receive()
        assert inner[28:] == payload and inner[16:20] == bytes(map(int, ue.split(".")))


def establish(lab, name, third, count, teid=None):
    """Sessions of a slice, whose UE addresses, in 10.45.x, are the SMF's choice; with a TEID, their TEIDs are, too."""
    sessions = []
    for number in range(count):
        chosen = {} if teid is None else {"chosen_teid": teid + number, "chosen_address": N3}
        session = lab.smf.session(ue4=f"10.45.{third}.{number + 1}", **SLICES[name][0], **chosen)
        sessions.append(session if teid is None else {**session, "teid": teid + number})
    return sessions


@pytest.mark.parametrize("teid", [None, 0x0200_0001])
@pytest.mark.parametrize("name", SLICES)
def test_a_slice_is_served_by_its_own_worker_both_ways(slices, name, teid):
    lab, worker = slices, SLICES[name][1]
    with lab.gnb_socket() as gnb, lab.dn_udp_socket(DN, 7001) as server:
        sessions = establish(lab, name, 40, SESSIONS, teid)
        details = [shown(lab, "session", str(session["up_seid"])) for session in sessions]
        assert {detail["worker"] for detail in details} == {worker}
        # Some addresses, and nearly all TEIDs that the SMF has chosen, are in other buckets than their sessions.
        least = 1 if teid is None else SESSIONS // 2
        eventually(lambda: min(counts(lab, "sluice_worker_selection_exceptions")) >= least, "all workers have exceptions")
        before, handed = passed(lab), counts(lab, "sluice_worker_handed_over_packets_total")
        for session in sessions:
            exchange(lab, gnb, server, session)
        expected = [0, 0]
        expected[worker] = 2 * PACKETS * SESSIONS
        # Workers show what they have counted a moment later.
        eventually(lambda: sum(passed(lab)) - sum(before) >= sum(expected), "the workers' counts")
        assert [now - then for now, then in zip(passed(lab), before)] == expected
        assert counts(lab, "sluice_worker_handed_over_packets_total")[worker] == handed[worker]
        assert sum(counts(lab, "sluice_worker_selection_exceptions_lost_total")) == 0
    for session in sessions:
        lab.smf("delete", up_seid=session["up_seid"])
    eventually(lambda: counts(lab, "sluice_worker_selection_exceptions") == [0, 0], "no exception is left")


def test_what_is_shown_says_which_workers_a_slice_has(slices):
    assert shown(slices, "slices")["workers"] == [{"slice": "1-000001", "workers": [1]}, {"slice": "other", "workers": [0]}]


def test_another_list_of_workers_takes_a_restart_and_brings_sessions_to_their_new_workers(slices):
    lab = slices
    sessions = {name: establish(lab, name, 50 + place, 4) for place, name in enumerate(SLICES)}
    other = lab.files / "other.yaml"
    other.write_text((lab.files / "sluice.yaml").read_text().replace("workers: [1]", "workers: [0]"))
    commit = lab.upf.run(f"{lab.binary} config commit {other} --socket {lab.files / 'control'}", check=False)
    assert commit.returncode and "slices[1 000001].workers: [1] -> [0] (restart)" in commit.stdout + commit.stderr, commit
    assert shown(lab, "session", str(sessions["2"][0]["up_seid"]))["worker"] == 0
    lab.process.send_signal(signal.SIGKILL)
    lab.process.wait(15)
    lab.configuration = lab.configuration.replace("workers: [1]", "workers: [0]")
    lab._start(lab.binary)
    with lab.gnb_socket() as gnb, lab.dn_udp_socket(DN, 7001) as server:
        for name, own in sessions.items():
            before = passed(lab)
            for session in own:
                exchange(lab, gnb, server, session)
            worker = 1 - SLICES[name][1]
            expected = [0, 0]
            expected[worker] = 2 * PACKETS * len(own)
            eventually(lambda: sum(passed(lab)) - sum(before) >= sum(expected), "the workers' counts")
            assert {shown(lab, "session", str(session["up_seid"]))["worker"] for session in own} == {worker}
            got = [now - then for now, then in zip(passed(lab), before)]
            assert got == expected, (name, got)
