"""CG-NAT and programs that we did not write: two testers of NATs, which also tell the kernel's NAT from ours; FTP, whose
active mode needs an ALG; calls by ICE; and the kernel's path MTU discovery.
"""
import contextlib
import ftplib
import json
import os
import re
import socket
import subprocess
import sys
import threading

import pytest

import ice_agent
from conftest import serve, tshark
from lab import DN, OTHER_GNB, PATIENCE, Namespace, eventually, kernel_ue, mtu_of
from nat_lab import behaviour, is_public, kernel_nat, made, sock, stun_server

UDP_S = 4
LABS = [("af_packet", 2, "endpoint_independent"), ("af_packet", 1, "address_dependent")]
# Beyond a router of the data network, by a way that is narrower than Ethernet.
SERVER, SERVER_MTU = "203.0.113.2", 1300
# A gNB's tunnel: GTP-U with a PDU Session Container, UDP, IPv4.
TUNNEL_OCTETS = 16 + 8 + 20


@pytest.fixture(scope="module", params=LABS, ids=lambda of: f"{of[0]}-{of[1]}-{of[2]}")
def lab(request):
    lab = made(*request.param, udp_s=UDP_S)
    yield from serve(request, lab, lab.associate)


@pytest.fixture
def ue(lab):
    with lab.gnb_socket() as gnb, kernel_ue(lab, gnb, mtu=1500) as (_, address, _):
        yield address


def asked(lab, question, *words):
    """What the tester of pion's STUN finds."""
    done = lab.ue.run(f"{os.environ['STUN']} {question} {DN}:3478 {' '.join(words)}", check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_two_testers_say_the_same(lab, ue):
    with stun_server(lab):
        found = asked(lab, "behaviour")
        [public] = set(found.pop("public"))
        assert is_public(public.split(":")[0])
        assert found == behaviour(lab) == {"mapping": "endpoint_independent", "filtering": lab.filtering}


@pytest.mark.parametrize("statement, mapping", [("masquerade", "endpoint_independent"),
                                                ("masquerade fully-random", "address_and_port_dependent")])
def test_the_testers_tell_another_nat(statement, mapping):
    """Linux keeps the port where no connection has it, which is as good as a mapping; its filter is as narrow as can be."""
    with kernel_nat(statement) as lab, stun_server(lab):
        found = asked(lab, "behaviour")
        assert len(set(found.pop("public"))) == (1 if mapping == "endpoint_independent" else 3)
        assert found == behaviour(lab) == {"mapping": mapping, "filtering": "address_and_port_dependent"}


def test_a_binding_lives_as_long_as_said(lab, ue):
    with stun_server(lab):
        bindings = asked(lab, "lifetime", "1", str(UDP_S / 2), str(UDP_S + 2))
    assert [binding["lives"] for binding in bindings][::2] == [True, False], bindings
    for binding in bindings:
        # A second is what the clock of mappings may be off.
        assert binding["least_s"] <= UDP_S + 1 if binding["lives"] else binding["most_s"] >= UDP_S, bindings


@contextlib.contextmanager
def ftp_server(lab):
    """pyftpdlib, which connects to wherever a client wants: its log."""
    files, log = lab.files / "ftp", lab.files / "ftp.log"
    files.mkdir(exist_ok=True)
    (files / "file").write_bytes(bytes(range(256)) * 1000)
    with open(log, "w") as written:
        process = lab.dn.popen(sys.executable, "-m", "pyftpdlib", "-D", "-i", DN, "-p", "21", "-d", str(files),
                               "--permit-foreign-addresses", stdout=subprocess.DEVNULL, stderr=written)
    try:
        eventually(lambda: "starting FTP server" in log.read_text(), "an FTP server")
        yield log
    finally:
        process.terminate()
        process.wait(10)


def fetched(namespace, is_passive):
    """A file that the FTP server has."""
    octets = []
    with namespace.entered(), ftplib.FTP(timeout=PATIENCE) as client:
        client.connect(DN)
        client.login()
        client.set_pasv(is_passive)
        client.retrbinary("RETR file", octets.append)
    return b"".join(octets)


def test_active_ftp_fails_for_want_of_an_alg(lab, ue):
    with ftp_server(lab) as log:
        # Both modes do without a NAT.
        for is_passive in (True, False):
            assert fetched(lab.dn, is_passive) == bytes(range(256)) * 1000
        assert fetched(lab.ue, True) == bytes(range(256)) * 1000
        with pytest.raises(ftplib.error_temp, match="^425 "):
            fetched(lab.ue, False)
        said = log.read_text()
    # The server has got the UE's own address, from a client with a public one.
    client, port = re.findall(r"([0-9.]+):\d+-\[anonymous\] <- PORT ([0-9,]+)", said)[-1]
    assert is_public(client) and port.split(",")[:4] == ue.split("."), said


@contextlib.contextmanager
def agent(lab, role):
    """An ICE agent of a UE, which is ready."""
    process = lab.ue.popen(sys.executable, ice_agent.__file__, role, DN, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        yield process
        process.stdin.write("end\n")
        process.stdin.flush()
        assert process.wait(PATIENCE) == 0
    finally:
        process.kill()
        process.wait(PATIENCE)


def told(agents, lines):
    """Tells each agent a line, and gives what each answers."""
    for process, line in zip(agents, lines):
        process.stdin.write(line + "\n")
        process.stdin.flush()
    return [json.loads(process.stdout.readline()) for process in agents]


def test_a_call_finds_its_way_by_ice(lab):
    """The two know each other's server-reflexive candidates alone, as telephones in different networks. The way is by the
    public addresses; there is none by the UEs' own ones."""
    with stun_server(lab), lab.gnb_socket() as gnb, lab.gnb_socket(OTHER_GNB) as other_gnb, lab.other_ue() as other, \
            kernel_ue(lab, gnb), kernel_ue(other, other_gnb, gnb=OTHER_GNB), \
            agent(lab, "calling") as calling, agent(other, "called") as called:
        offers = told((calling, called), ("begin", "begin"))
        ends = [candidate.split()[4:6] for offer in offers for candidate in offer["candidates"]]
        assert len(ends) == 2 and ends[0] != ends[1] and all(is_public(address) for address, _ in ends), offers
        heard = told((calling, called), map(json.dumps, reversed(offers)))
    spoken = {role: [f"frame of the {role} one, {number}" for number in range(ice_agent.FRAMES)] for role in ("calling", "called")}
    assert [sorted(words["heard"]) for words in heard] == [sorted(spoken["called"]), sorted(spoken["calling"])]
    # What Sluice has sent to the gNBs has the public source.
    for role, (address, port) in zip(spoken, ends):
        wanted = f'{lab.ours["n3"][0]} == {lab.ours["n3"][1]} && frame contains "frame of the {role} one"'
        sources = lambda: [(line.split("\t")[0].split(",")[-1], line.split("\t")[1].split(",")[-1])
                           for line in tshark(lab.captures["n3"], wanted, "ip.src", "udp.srcport")]
        frames = eventually(lambda: found if len(found := sources()) == ice_agent.FRAMES else None, f"frames of the {role} one")
        assert set(frames) == {(address, port)}


@contextlib.contextmanager
def narrow_way(lab):
    """A server beyond a router of the data network, and beyond what the router's next link takes."""
    server = Namespace("net")
    try:
        lab.dn.run(f"ip link add net0 type veth peer name net1 netns {server.name}")
        for namespace, link, address in ((lab.dn, "net0", "203.0.113.1"), (server, "net1", SERVER)):
            namespace.run(f"ip link set {link} up")
            namespace.add_address(f"{address}/24", link)
        # The server does not know, so that it offers UEs more.
        lab.dn.run(f"ip route replace 203.0.113.0/24 dev net0 mtu lock {SERVER_MTU}")
        lab.dn.run("sysctl -qw net.ipv4.ip_forward=1")
        server.run("ip route add default via 203.0.113.1")
        yield server
    finally:
        server.close()


def test_kernels_learn_the_mtu_of_paths(lab, ue):
    data = os.urandom(300_000)
    with narrow_way(lab) as server, contextlib.closing(sock(server, socket.SOCK_STREAM, SERVER, 50_001)) as listener:
        listener.listen(1)
        clients = []

        def answer():
            connection, client = listener.accept()
            clients.append(client[0])
            with connection:
                connection.settimeout(PATIENCE)
                connection.sendall(b"".join(iter(lambda: connection.recv(65536), b""))[::-1])
        thread = threading.Thread(target=answer, daemon=True)
        thread.start()
        assert mtu_of(lab.ue, SERVER) is None
        with contextlib.closing(sock(lab.ue, socket.SOCK_STREAM, ue)) as client:
            client.settimeout(PATIENCE)
            client.connect((SERVER, 50_001))
            client.sendall(data)
            client.shutdown(socket.SHUT_WR)
            assert b"".join(iter(lambda: client.recv(65536), b"")) == data[::-1]
        thread.join(PATIENCE)
        # A router has said so, of a packet with the public source.
        assert mtu_of(lab.ue, SERVER) == SERVER_MTU
        [public] = clients
        assert is_public(public)
        # The server's segments are too long for the tunnel: Sluice has said so, to the packet's public destination.
        assert mtu_of(server, public) == 1500 - TUNNEL_OCTETS
