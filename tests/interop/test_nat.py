"""CG-NAT with kernels at both ends, and a tester of NATs that we did not write: coturn's, by RFC 5780.

The UE is a kernel behind the tunnel, the data network another one, which routes the public addresses to Sluice.
"""
import contextlib
import http.client
import ipaddress
import os
import re
import socket
import threading
import time

import pytest

from conftest import FAULTY, TOGETHER, serve, tshark
from lab import DN, N3, N6, OTHER_GNB, UE6, Tunnel, Ue, eventually, kernel_ue, shown
from nat_lab import (CHOSEN, FORWARDED, OTHER_DN, POOL, PORTS, SERVER, discovered, held_by, is_public, made, reach, sock,
                     stun_server)

LABS = [("af_packet", 1, "endpoint_independent", "udp"), ("af_packet", 2, "endpoint_independent", "tcp"),
        ("af_xdp", 1, "endpoint_independent", "udp"), ("af_packet", 1, "address_dependent", "udp")]


@pytest.fixture(scope="module", params=LABS, ids=lambda of: "-".join(map(str, of)))
def lab(request):
    lab = made(*request.param)
    yield from serve(request, lab, lab.associate)


@pytest.fixture
def ue(lab):
    with lab.gnb_socket() as sock, kernel_ue(lab, sock) as (session, address, _):
        yield session, address


def test_a_tester_says_what_the_nat_is(lab, ue):
    with stun_server(lab):
        said = discovered(lab, "-m", "-f", "-H")
        assert "NAT with Endpoint Independent Mapping!" in said, said
        filtering = lab.filtering.replace("_", " ").title()
        assert f"NAT with {filtering} Filtering!" in said, said
        # The tester sends to a mapping that has not sent to its own public address.
        is_hairpinned = "Received a request (maybe a successful hairpinning)" in said
        assert is_hairpinned == (lab.filtering == "endpoint_independent"), said
        public = re.findall(r"UDP reflexive addr: ([0-9.]+):", said)
        assert public and all(map(is_public, public)), said


def test_connections_carry_what_they_are_given(lab, ue):
    _, address = ue
    data = os.urandom(3_000_000)
    listener = sock(lab.dn, socket.SOCK_STREAM, DN, 8080)
    listener.listen(4)
    with contextlib.closing(listener):
        clients = []

        def answer():
            for _ in range(2):
                connection, client = listener.accept()
                clients.append(client)
                with connection:
                    connection.settimeout(10)
                    got = b"".join(iter(lambda: connection.recv(65536), b""))
                    connection.sendall(got[::-1])
        server = threading.Thread(target=answer, daemon=True)
        server.start()
        for port in (40_001, 40_002):
            with contextlib.closing(sock(lab.ue, socket.SOCK_STREAM, address, port)) as client:
                client.settimeout(20)
                client.connect((DN, 8080))
                sender = threading.Thread(target=lambda: (client.sendall(data), client.shutdown(socket.SHUT_WR)), daemon=True)
                sender.start()
                got = b"".join(iter(lambda: client.recv(65536), b""))
                sender.join(10)
                assert got == data[::-1]
        server.join(10)
    assert len({host for host, _ in clients}) == 1 and all(is_public(host) for host, _ in clients), clients
    assert len({port for _, port in clients}) == 2, clients


def test_pings_and_errors_come_back(lab, ue):
    done = lab.ue.run(f"ping -c 3 -i 0.2 -W 2 {DN}", check=False)
    assert " 0% packet loss" in done.stdout, done.stdout
    # A closed port: the error reaches the socket that has sent.
    with contextlib.closing(sock(lab.ue, socket.SOCK_DGRAM)) as client:
        client.connect((DN, 9))
        client.send(b"x")
        time.sleep(0.3)
        with pytest.raises(ConnectionRefusedError):
            client.send(b"x")
    done = lab.ue.run(f"traceroute -n -q 1 -w 2 -m 4 {DN}", check=False)
    hops = re.findall(r"^ *\d+ +([0-9.]+|\*)", done.stdout, re.M)
    assert hops == [N6, DN], done.stdout


def test_datagrams_in_fragments_pass_both_ways(lab, ue):
    host = sock(lab.dn, socket.SOCK_DGRAM, DN, 7000)
    with contextlib.closing(host), contextlib.closing(sock(lab.ue, socket.SOCK_DGRAM)) as client:
        for size in (5_000, 9_001, 1_473):
            data = os.urandom(size)
            client.sendto(data, (DN, 7000))
            got, public = host.recvfrom(65535)
            assert got == data and is_public(public[0])
            host.sendto(data[::-1], public)
            assert client.recv(65535) == data[::-1]


def test_what_nobody_asked_for_reaches_no_ue(lab, ue):
    _, address = ue
    before = dropped(lab)
    host = sock(lab.dn, socket.SOCK_DGRAM, DN, 7001)
    with contextlib.closing(host), contextlib.closing(sock(lab.ue, socket.SOCK_DGRAM, address, 5_000)) as client:
        for public in POOL:
            for port in range(1_000, 65_536, 997):
                host.sendto(b"stray", (str(public), port))
        client.settimeout(0.5)
        with pytest.raises(TimeoutError):
            client.recv(100)
        # A mapping lets anyone answer, for as long as the UE keeps it.
        client.sendto(b"question", (DN, 7001))
        _, public = host.recvfrom(100)
        with contextlib.closing(sock(lab.dn, socket.SOCK_DGRAM, OTHER_DN, 9_999)) as other:
            other.sendto(b"from another", public)
            if lab.filtering == "address_dependent":
                with pytest.raises(TimeoutError):
                    client.recv(100)
            else:
                client.settimeout(3)
                assert client.recv(100) == b"from another"
        # Nothing but what the UE sends keeps it.
        heard = 0
        for _ in range(10):
            time.sleep(1)
            host.sendto(b"again", public)
            with contextlib.suppress(TimeoutError):
                client.settimeout(0.2)
                heard += client.recv(100) == b"again"
        assert 2 <= heard <= 7, heard
    assert dropped(lab) - before >= 4 * 60


def dropped(lab):
    """Packets to public addresses of no mapping."""
    connection = http.client.HTTPConnection("localhost")
    with contextlib.closing(socket.socket(socket.AF_UNIX)) as connection.sock:
        connection.sock.connect(str(lab.files / "control"))
        connection.request("GET", "/metrics")
        text = connection.getresponse().read().decode()
    return sum(float(count) for count in re.findall(r'^sluice_drops_total{[^}]*reason="nat_no_mapping"[^}]*} (\S+)$', text, re.M))


def test_ues_reach_each_other_by_their_public_addresses(lab):
    with lab.gnb_socket() as gnb, lab.gnb_socket(OTHER_GNB) as other_gnb, lab.other_ue() as other, \
            kernel_ue(lab, gnb) as (_, ue, _), kernel_ue(other, other_gnb, gnb=OTHER_GNB) as (_, other_ue, _):
        host = sock(lab.dn, socket.SOCK_DGRAM, DN, 7002)
        with contextlib.closing(host), contextlib.closing(sock(lab.ue, socket.SOCK_DGRAM, ue)) as one, \
                contextlib.closing(sock(other.ue, socket.SOCK_DGRAM, other_ue)) as two:
            ends = []
            for client in (one, two):
                client.sendto(b"who am I", (DN, 7002))
                ends.append(host.recvfrom(100)[1])
            assert ends[0] != ends[1] and all(is_public(address) for address, _ in ends)
            if lab.filtering == "address_dependent":
                two.sendto(b"I expect you", ends[0])
                # What is sent behind it has arrived: Sluice has seen it before the hello, and one does not get it.
                two.sendto(b"I said so", (DN, 7002))
                assert host.recvfrom(100) == (b"I said so", ends[1])
            one.sendto(b"hello", ends[1])
            assert two.recvfrom(100) == (b"hello", ends[0])
            two.sendto(b"hello to you", ends[0])
            assert one.recvfrom(100) == (b"hello to you", ends[1])


def test_a_session_gets_more_ports_as_it_needs_them(lab, ue):
    _, address = ue
    host = sock(lab.dn, socket.SOCK_DGRAM, DN, 7003)
    with contextlib.closing(host), contextlib.ExitStack() as stack:
        ends = set()
        for number in range(200):
            client = stack.enter_context(contextlib.closing(sock(lab.ue, socket.SOCK_DGRAM, address)))
            for _ in range(30):
                client.sendto(number.to_bytes(2, "big"), (DN, 7003))
                with contextlib.suppress(TimeoutError):
                    host.settimeout(0.1)
                    got, public = host.recvfrom(100)
                    assert got == number.to_bytes(2, "big")
                    ends.add(public)
                    break
            else:
                raise AssertionError(f"no port for socket {number}")
        assert len(ends) == 200 and len({host for host, _ in ends}) == 1
        assert len({port // 64 for _, port in ends}) == 4


def test_operators_see_who_has_what(lab, ue):
    session, address = ue
    seid = f"{session['up_seid']:#018x}"
    host = sock(lab.dn, socket.SOCK_DGRAM, DN, 7005)
    with contextlib.closing(host), contextlib.closing(sock(lab.ue, socket.SOCK_DGRAM, address)) as client:
        client.sendto(b"who am I", (DN, 7005))
        public = host.recvfrom(100)[1]
        inside, outside = f"{address}:{client.getsockname()[1]}", f"{public[0]}:{public[1]}"
        owner = eventually(lambda: mapped(lab, outside), "the mapping")
    assert (owner["seid"], owner["pool"]) == (seid, "cgn") and address in owner["ue"]
    assert owner["block"]["first"] <= public[1] <= owner["block"]["last"] == owner["block"]["first"] + 63
    mapping = owner["mapping"]
    assert (mapping["protocol"], mapping["inside"], mapping["public"]) == ("udp", inside, outside)
    assert mapping["expires_s"] <= 6
    # The kernel of the UE may have sent datagrams of its own.
    assert (inside, outside) in {(row["inside"], row["public"]) for row in shown(lab, "nat", "--mappings", seid)["mappings"]}
    assert shown(lab, "session", seid)["nat"]["address"] == public[0]
    status = eventually(lambda: (now := shown(lab, "nat"))["mappings"]["mappings"] and now, "the mapping is counted")
    pool, chosen = status["pools"]
    assert (chosen["name"], chosen["smf_only"], chosen["held"]) == ("chosen", True, 0)
    assert (pool["name"], pool["addresses"], pool["filtering"]) == ("cgn", ["198.51.100.0-198.51.100.3"], lab.filtering)
    assert pool["held"] >= 1 and pool["reserved"] == 1
    assert sum(pool[state] for state in ("held", "resting", "reserved", "free")) == pool["blocks"] == 4 * len(PORTS) // 64
    assert status["mappings"]["made"] >= status["mappings"]["mappings"]


def test_a_server_behind_a_forward_is_reached_by_anyone(lab):
    outside = "%s:%d" % FORWARDED
    before = shown(lab, "nat", outside)
    assert before["ue"] == [SERVER] and "seid" not in before, before
    with lab.gnb_socket() as gnb:
        session = lab.smf.session(ue4=SERVER, ue6=str(UE6[0xfff << 64]))
        ue = Ue(lab, Tunnel(session, gnb, N3), [f"{SERVER}/32"], 1400)
        try:
            reach(lab)
            owner = eventually(lambda: mapped(lab, outside), "the mapping")
            assert (owner["seid"], owner["mapping"]["inside"]) == (f"{session['up_seid']:#018x}", f"{SERVER}:8080")
            assert "expires_s" not in owner["mapping"]
            # Longer than a mapping of UDP lives.
            time.sleep(8)
            reach(lab)
        finally:
            ue.close()
            lab.smf("delete", up_seid=session["up_seid"])


def seen(lab, address, port):
    """From where a datagram of a UE comes to the data network, which takes it from an address that it knows a way to."""
    lab.dn.run(f"ip route add {address}/32 via {N6}")
    try:
        with (contextlib.closing(sock(lab.dn, socket.SOCK_DGRAM, DN, 7006)) as host,
              contextlib.closing(sock(lab.ue, socket.SOCK_DGRAM, address, port)) as client):
            client.sendto(b"who am I", (DN, 7006))
            return host.recvfrom(100)[1]
    finally:
        lab.dn.run(f"ip route del {address}/32")


def test_the_smf_chooses_the_pool(lab):
    with lab.gnb_socket() as gnb, kernel_ue(lab, gnb, nat={"pool": "chosen"}) as (session, address, _):
        seid, wanted = session["up_seid"], f"{session['up_seid']:#018x}"

        def is_of(pool, by, binding):
            public = seen(lab, address, 40_000)
            assert ipaddress.ip_address(public[0]) in pool
            nat = shown(lab, "session", wanted)["nat"]
            assert (nat["address"], nat["chosen_by"]) == (public[0], by)
            if binding:
                assert binding["address"] == public[0] and binding["first"] <= public[1] <= binding["last"]
                assert binding["last"] - binding["first"] == 63

        assert session["binding"]["pool"] == "chosen"
        is_of(CHOSEN, "FAR 1", session["binding"])
        told = lab.smf("nat", up_seid=seid, nat={"pool": "cgn"})["binding"]
        assert told["pool"] == "cgn"
        # The flow is the same as before.
        is_of(POOL, "FAR 1", told)
        assert lab.smf("nat", up_seid=seid, nat={"off": True})["binding"] is None
        assert seen(lab, address, 40_000) == (address, 40_000)
        assert not shown(lab, "session", wanted).get("nat")
        told = lab.smf("nat", up_seid=seid, nat={"pool": "chosen"})["binding"]
        is_of(CHOSEN, "FAR 1", told)
        # What there is not changes nothing.
        with pytest.raises(Exception, match="73"):
            lab.smf("nat", up_seid=seid, nat={"pool": "none"})
        is_of(CHOSEN, "FAR 1", told)


def test_forwarding_policies_choose_the_pool(lab):
    for policy, pool, by in (("gold", CHOSEN, "forwarding policy `gold` of FAR 1"), ("marked", POOL, "configuration"),
                             ("plain", None, None)):
        with lab.gnb_socket() as gnb, kernel_ue(lab, gnb, nat={"policy": policy}) as (session, address, _):
            assert session["binding"] is None
            public = seen(lab, address, 40_000)
            nat = shown(lab, "session", f"{session['up_seid']:#018x}").get("nat")
            if not pool:
                assert public == (address, 40_000) and not nat
                continue
            assert ipaddress.ip_address(public[0]) in pool and nat["chosen_by"] == by
            # Another one takes its place.
            lab.smf("nat", up_seid=session["up_seid"], nat={"policy": "plain"})
            assert seen(lab, address, 40_000) == (address, 40_000)


def mapped(lab, outside):
    """The owner of a public end, if it has a mapping of UDP."""
    owner = shown(lab, "nat", outside, "udp")
    return owner if owner.get("mapping") else None


def test_the_log_says_who_it_was(lab):
    begun = time.time()
    host = sock(lab.dn, socket.SOCK_DGRAM, DN, 7004)
    with contextlib.closing(host), lab.gnb_socket() as gnb:
        with kernel_ue(lab, gnb) as (session, address, _):
            with contextlib.closing(sock(lab.ue, socket.SOCK_DGRAM, address)) as client:
                client.sendto(b"who am I", (DN, 7004))
                public = host.recvfrom(100)[1]
            used = time.time()
        ended = time.time()
    seid = f"{session['up_seid']:#018x}"
    eventually(lambda: held_by(lab, public, ended + 1) == (None, True), "the end of the session in the log")
    holder, is_known = held_by(lab, public, used)
    assert is_known
    assert (holder["ue"], holder["seid"]) == (address, seid)
    assert holder["first_port"] <= public[1] <= holder["last_port"] == holder["first_port"] + 63
    assert held_by(lab, public, begun - 3600) == (None, False) and held_by(lab, public, ended + 3600) == (None, False)
    written = lab.files / "ipfix.pcap"
    eventually(lambda: lab.exported(written), "events at the collector")
    options = TOGETHER if lab.transport == "tcp" else ()
    assert not tshark(written, FAULTY, "_ws.expert.message", options=options)
    lines = tshark(written, "cflow.nat_event", "cflow.nat_event", "cflow.srcaddr", "cflow.post_natsource_ipv4_address",
                   "cflow.port_range_start", "cflow.port_range_end", options=options)
    events = [event for line in lines for event in zip(*(column.split(",") for column in line.split("\t")))]
    block = (address, public[0], str(holder["first_port"]), str(holder["last_port"]))
    assert [event[0] for event in events if event[1:] == block] == ["16", "17"], events
