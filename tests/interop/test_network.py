"""The kernel's stack as UE, gNB host, router and server around a running UPF, over IPv4 and IPv6 inside and outside.

    ue (tun)  ran  --veth--  upf  --veth--  dn  --veth--  net
              10.100.0.2                    routes        198.51.100.2, 2001:db8:51::2; 1,300 octets go there
              2001:db8:3::2

Neighbour entries are valid for a short time, so that they age during a test.
"""
import contextlib
import json
import os
import socket
import struct
import subprocess
import threading

import pytest
from scapy.all import Ether

from conftest import serve
from lab import (CONFIGURATION, DN, DN6, GNB, N3, N6, N6_6, NEIGHBOUR_TIMES, PATIENCE, UE4, UE_POOL, UE_POOL6, Lab, Tunnel,
                 eventually, kernel_ue, mtu_of)
from tagged import TaggedSocket, asks

GNB6, N3_6 = "2001:db8:3::2", "2001:db8:3::1"
SERVER, SERVER6 = "198.51.100.2", "2001:db8:51::2"
SERVER_MTU = 1300
SOCKET = f"/tmp/slu{os.getpid()}network.sock"
# GTP-U, a PDU Session Container and UDP, over IPv4 and IPv6.
TUNNEL_OCTETS = {4: 16 + 8 + 20, 6: 16 + 8 + 40}
CHOOSE_IPV6 = 0x04 | 0x02
OCTETS = "300K"
# Of no protocol that a dissector knows.
PORT = 40001

NETWORK_CONFIGURATION = CONFIGURATION.replace("addresses: [{n3}/24]", f'addresses: [{{n3}}/24, "{N3_6}/64"]') + NEIGHBOUR_TIMES + (
    f"control: {{{{socket: {SOCKET}}}}}\n")


class NetworkLab(Lab):
    """The gNB has IPv6, and the data network's kernel routes to a server behind a narrow link."""

    def _wire(self):
        super()._wire()
        self.ran.add_address(f"{GNB6}/64", "ran0")
        self.net = self._namespace("net")
        self.dn.run(f"ip link add net0 type veth peer name net1 netns {self.net.name}")
        ends = ((self.dn, "net0", "198.51.100.1", "2001:db8:51::1"), (self.net, "net1", SERVER, SERVER6))
        for namespace, link, _, _ in ends:
            namespace.run(f"ip link set {link} up")
        for namespace, link, v4, v6 in ends:
            namespace.add_address(f"{v4}/24", link)
            namespace.add_address(f"{v6}/64", link)
        # The server does not know how little goes through there, so that it offers UEs more.
        self.dn.run(f"ip route replace 198.51.100.0/24 dev net0 mtu lock {SERVER_MTU}")
        self.dn.run(f"ip route replace 2001:db8:51::/64 dev net0 metric 1 mtu lock {SERVER_MTU}")
        self.net.run("ip route add default via 198.51.100.1")
        self.net.run("ip route add default via 2001:db8:51::1")
        self.dn.run("sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1")
        for namespace, link in ((self.ran, "ran0"), (self.dn, "dn0")):
            # Else a link that goes down takes them along.
            namespace.run(f"sysctl -qw net.ipv6.conf.{link}.keep_addr_on_down=1")

    def gnb(self, version):
        """The gNB's socket, and where its G-PDUs go."""
        if version == 4:
            return self.gnb_socket(), N3
        return self._socket(self.ran, socket.AF_INET6, socket.SOCK_DGRAM, 0, (GNB6, 2152)), N3_6


@pytest.fixture(scope="module", params=["af_packet", "af_xdp", "accelerator"])
def lab(request):
    lab = NetworkLab(os.environ["SLUICE"], request.param, configuration=NETWORK_CONFIGURATION)
    yield from serve(request, lab, lab.associate)


@pytest.fixture(params=[4, 6], ids=["outer IPv4", "outer IPv6"])
def outer(request):
    return request.param


def tunnel_of(outer):
    """What the SMF says of a tunnel over this version of IP."""
    return {} if outer == 4 else {"gnb": GNB6, "choose_flags": CHOOSE_IPV6}


@contextlib.contextmanager
def attached(lab, outer, mtu=1500):
    """A UE with the kernel's stack, at a gNB of this version of IP: its addresses."""
    gnb, to = lab.gnb(outer)
    with gnb, kernel_ue(lab, gnb, to, mtu, **tunnel_of(outer)) as (session, ue4, ue6):
        assert session["n3"] == to
        yield ue4, ue6


@contextlib.contextmanager
def iperf_server(namespace, address):
    """Serves one test of iperf3."""
    server = namespace.popen("iperf3", "-s", "-1", "-B", address, "--forceflush",
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        for line in server.stdout:
            if "Server listening" in line:
                break
        yield
        server.wait(PATIENCE)
    finally:
        server.kill()
        server.wait()


def iperf(lab, namespace, address, *options):
    """Sends OCTETS over TCP from the UE to a server, or with -R the other way; octets that look like no protocol."""
    with iperf_server(namespace, address):
        said = lab.ue.run(f"timeout 20 iperf3 -c {address} -n {OCTETS} --repeating-payload {' '.join(options)}", check=False)
        assert said.returncode == 0, said.stdout + said.stderr


def test_ping_and_tcp_find_their_size(lab, outer):
    """Of each path that is narrower than the links at its ends a kernel learns the MTU, and TCP continues."""
    with attached(lab, outer) as ues:
        for target in (SERVER, SERVER6, DN, DN6):
            done = lab.ue.run(f"ping -n -c 3 -i 0.05 -W 2 {target}", check=False)
            assert "3 received" in done.stdout, done.stdout + done.stderr
        for ue, near, far in zip(ues, (DN, DN6), (SERVER, SERVER6)):
            # The UE's octets are too long behind the router, which says so; the UPF hands that to the UE.
            assert mtu_of(lab.ue, far) is None
            iperf(lab, lab.net, far)
            assert mtu_of(lab.ue, far) == SERVER_MTU
            iperf(lab, lab.net, far, "-R")
            # The host's are too long for the tunnel: the UPF says so.
            assert mtu_of(lab.dn, ue) is None
            iperf(lab, lab.dn, near, "-R")
            assert mtu_of(lab.dn, ue) == 1500 - TUNNEL_OCTETS[outer]
            iperf(lab, lab.dn, near)


def neighbour(address):
    """The state of a neighbour, as an operator sees it; where it is, and on which port."""
    shown = subprocess.run([os.environ["SLUICE"], "show", "neighbours", "--json", "--socket", SOCKET],
                           capture_output=True, text=True, check=True)
    rows = [row for row in json.loads(shown.stdout)["neighbours"] if row["address"] == address]
    return rows[0] if rows else None


def answers(lab, ue):
    """Whether a UE gets an answer from the data network."""
    return lab.ue.run(f"ping -n -c 1 -W 0.3 {DN if ue == 4 else DN6}", check=False).returncode == 0


@contextlib.contextmanager
def frames_at(namespace, link):
    """What has come in by a link since it was asked last."""
    sock = TaggedSocket(namespace, link)
    try:
        yield lambda: [Ether(frame) for frame in iter(sock.receive, None)]
    finally:
        sock.close()


NEIGHBOURS = [("ran", "ran0", GNB, 24), ("ran", "ran0", GNB6, 64), ("dn", "dn0", DN, 24), ("dn", "dn0", DN6, 64)]


@pytest.mark.parametrize("where, link, address, length", NEIGHBOURS, ids=["gNB", "gNB IPv6", "DN", "DN IPv6"])
def test_a_neighbour_ages_and_comes_back(lab, where, link, address, length):
    """A silent neighbour is probed, then requested by multicast, then given up, and found again when it is back."""
    namespace = getattr(lab, where)
    version = 6 if ":" in address else 4
    with attached(lab, version if where == "ran" else 4) as _, frames_at(namespace, link) as frames:
        eventually(lambda: answers(lab, version), "no reply at first")
        namespace.run(f"ip addr del {address}/{length} dev {link}")
        try:
            eventually(lambda: any(asks(frame, address) for frame in frames()), "no request for it")
            eventually(lambda: neighbour(address)["state"] == "unreachable", "it is not given up")
            assert not answers(lab, version)
        finally:
            # The first address of a prefix is the one that a kernel sends from.
            again = namespace.run(f"ip -o -{version} addr show dev {link} scope global").stdout.split()
            namespace.run(f"ip addr add {address}/{length} dev {link}" + (" nodad" if version == 6 else ""))
            for other in [word for word in again if word.endswith(f"/{length}")]:
                namespace.run(f"ip addr del {other} dev {link}")
                namespace.run(f"ip addr add {other} dev {link}" + (" nodad" if version == 6 else ""))
            routes_of_ues(lab)
        eventually(lambda: answers(lab, version), "it does not come back")
        found = neighbour(address)
        assert found["state"] in ("reachable", "checking") and found["port"] == where
        assert found["mac"] == namespace.run(f"cat /sys/class/net/{link}/address").stdout.strip()


def routes_of_ues(lab):
    """The way to UEs, which goes with an address or a link of the data network."""
    lab.dn.run(f"ip route replace {UE_POOL} via {N6}")
    lab.dn.run(f"ip route replace {UE_POOL6} via {N6_6}")


@pytest.mark.parametrize("where, link, version", [("ran", "ran0", 4), ("ran", "ran0", 6), ("dn", "dn0", 4),
                                                  ("dn", "dn0", 6)])
def test_a_station_that_changes_is_found(lab, where, link, version):
    """The address is the same, the station another one, and it does not say so."""
    namespace = getattr(lab, where)
    before = namespace.run(f"cat /sys/class/net/{link}/address").stdout.strip()
    with attached(lab, version if where == "ran" else 4):
        eventually(lambda: answers(lab, version), "no reply at first")
        for station in ("02:00:00:00:77:01", before):
            namespace.run(f"ip link set {link} address {station}")
            eventually(lambda: answers(lab, version), f"{station} is not found")


class Numbered:
    """Numbered datagrams of one direction, and which of them came."""

    def __init__(self, send, receive):
        self.send, self.receive, self.next, self.came = send, receive, 0, []

    def offer(self, count):
        """Sends this number of packets; returns their numbers."""
        first, self.next = self.next, self.next + count
        for number in range(first, self.next):
            # Without a link there is no way.
            with contextlib.suppress(OSError):
                self.send(struct.pack("!I", number))
        return range(first, self.next)

    def collect(self, wanted):
        """Takes what comes until all of these have, or nothing more does."""
        missing = set(wanted) - set(self.came)
        while missing:
            try:
                payload = self.receive()
            except TimeoutError:
                break
            if payload is not None:
                number, = struct.unpack("!I", payload)
                self.came.append(number)
                missing.discard(number)
        return missing


def udp4(source, destination, payload):
    """An IPv4 packet with a UDP datagram without checksum."""
    header = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 28 + len(payload), 0, 0, 64, 17, 0,
                         socket.inet_aton(source), socket.inet_aton(destination))
    total = sum(struct.unpack("!10H", header))
    total = (total & 0xffff) + (total >> 16)
    total = (total & 0xffff) + (total >> 16)
    header = header[:10] + struct.pack("!H", total ^ 0xffff) + header[12:]
    return header + struct.pack("!HHHH", PORT, PORT, 8 + len(payload), 0) + payload


@pytest.mark.parametrize("where, link", [("ran", "ran0"), ("dn", "dn0")])
def test_a_link_that_flaps_loses_what_was_under_way(lab, where, link):
    """Before it goes nothing is lost, nor once it is back, nor twice there; the session is as it was."""
    namespace = getattr(lab, where)
    session = lab.smf.session(ue4=str(UE4[60_000]))
    ue = session["ue_ipv4"]
    with lab.gnb_socket() as gnb, lab.dn_udp_socket(DN, PORT) as dn:
        for sock in (gnb, dn):
            sock.settimeout(1)
        tunnel = Tunnel(session, gnb)

        def at_ue():
            inner = tunnel.receive()
            return inner[28:] if inner and inner[9] == 17 else None

        if where == "ran":
            flow = Numbered(lambda payload: dn.sendto(payload, (ue, PORT)), at_ue)
        else:
            flow = Numbered(lambda payload: tunnel.send(udp4(ue, DN, payload)), lambda: dn.recv(100))

        eventually(lambda: not flow.collect(flow.offer(1)), "nothing arrives at first")
        assert not flow.collect(flow.offer(200))
        namespace.run(f"ip link set {link} down")
        flow.offer(200)
        namespace.run(f"ip link set {link} up")
        routes_of_ues(lab)
        eventually(lambda: not flow.collect(flow.offer(1)), "nothing arrives any more")
        assert not flow.collect(flow.offer(200))
        assert len(flow.came) == len(set(flow.came)), "something came twice"
    lab.smf("delete", up_seid=session["up_seid"])


def test_a_connection_outlives_a_flap(lab, outer):
    """TCP continues where it was when both links have been down."""
    words = b"0123456789" * 10_000
    with attached(lab, outer):
        with lab.dn.entered():
            listener = socket.create_server((DN, PORT))
        with lab.ue.entered():
            client = socket.create_connection((DN, PORT), timeout=PATIENCE)
        with listener, client:
            server, _ = listener.accept()
            with server:
                server.settimeout(PATIENCE)
                for _ in range(2):
                    sender = threading.Thread(target=client.sendall, args=(words,))
                    sender.start()
                    got = b""
                    while len(got) < len(words):
                        got += server.recv(65536)
                    sender.join()
                    assert got == words
                    for namespace, link in ((lab.ran, "ran0"), (lab.dn, "dn0")):
                        namespace.run(f"ip link set {link} down")
                        namespace.run(f"ip link set {link} up")
                    routes_of_ues(lab)
