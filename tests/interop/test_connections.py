"""Access lists that let pass only what a UE has asked for, against the kernel's connection tracking.

The data network's kernel tracks connections, too: of each packet that it sends to the UE it says whether that belongs to
one that the UE has begun (nftables, `ct state established,related`) or not. Sluice must drop the latter, packet for packet
and octet for octet, and the former must arrive.
"""
import contextlib
import errno
import json
import os
import random
import signal
import socket
import struct
import subprocess
import time

import pytest
from scapy.all import ICMP, IP, UDP, ICMPv6DestUnreach, IPv6, Raw

from conftest import serve
from lab import API_CONFIGURATION, DN, DN6, Lab, eventually, kernel_ue, shown
from test_access_lists import attempt, counted, oracle

STEPS = 500
SEED = int(os.environ.get("SLUICE_SEED", "") or random.SystemRandom().getrandbits(32))
CONFIGURATION = API_CONFIGURATION + """
store: {{directory: "{files}/store"}}
access_lists:
  - name: consumers
    dnn: internet
    rules:
      - {{name: servers, action: permit, direction: downlink, flows: ["permit out 6 from any to assigned 8443"]}}
    otherwise: solicited
    connections: {{filtering: address_and_port_dependent, unsolicited: deny}}
"""
SERVER = 7070


@pytest.fixture(scope="module", params=[("af_packet", 1), ("af_packet", 2)], ids=lambda of: f"{of[0]}-{of[1]}")
def lab(request):
    driver, workers = request.param
    print(f"SLUICE_SEED={SEED}")
    lab = Lab(os.environ["SLUICE"], driver, workers, configuration=CONFIGURATION)
    yield from serve(request, lab, lab.associate)


def kernels_view(lab, ue4, ue6):
    """The kernel of the data network counts what it sends to the UE, that of the UE what arrives."""
    to_ue = lambda words, name: [f'ip daddr {ue4} {words} counter accept comment "{name}4"',
                                 f'ip6 daddr {ue6} {words} counter accept comment "{name}6"']
    sent = to_ue("ct state established,related", "solicited") + to_ue("", "unsolicited")
    return oracle((lab.dn, "output", 0, sent), (lab.ue, "prerouting", -300, ['iifname != "ue0" accept', *to_ue("", "v")]))


def dropped(lab):
    rules = shown(lab, "access-lists")["access_lists"][0]["rules"]
    rule = next(rule for rule in rules if rule["name"] == "otherwise")
    return rule["dropped_packets"], rule["dropped_octets"]


class Ends:
    """A UE and a host of the data network that do this and that."""

    def __init__(self, lab, draw, ue, host):
        self.lab, self.draw, self.ue, self.host = lab, draw, ue, host
        self.family = socket.AF_INET6 if ":" in ue else socket.AF_INET
        self.flows, self.open, self.sockets = [], [], contextlib.ExitStack()
        self.listener = self._socket(lab.dn, socket.SOCK_STREAM, host, SERVER)
        self.listener.listen(100)
        self.pings = 0

    def _socket(self, namespace, kind, address, port=0, protocol=0):
        with namespace.entered():
            sock = self.sockets.enter_context(socket.socket(self.family, kind, protocol))
        sock.settimeout(2)
        if port:
            # Without one, it would not be this socket's alone.
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((address, port))
        return sock

    def _host_sends(self, port, to):
        with contextlib.closing(self._socket(self.lab.dn, socket.SOCK_DGRAM, self.host, port)) as sock:
            sock.sendto(b"x" * self.draw.randrange(200), (self.ue, to))

    def ask(self):
        """The UE asks over UDP, and is answered."""
        client = self._socket(self.lab.ue, socket.SOCK_DGRAM, self.ue)
        port = self.draw.randrange(45_600, 46_900)
        with contextlib.closing(self._socket(self.lab.dn, socket.SOCK_DGRAM, self.host, port)) as server:
            client.sendto(b"question", (self.host, port))
            _, source = server.recvfrom(100)
            server.sendto(b"answer", source)
        assert client.recv(100) == b"answer"
        self.flows.append((client, port))

    def answer_again(self):
        if self.flows:
            client, port = self.draw.choice(self.flows)
            self._host_sends(port, client.getsockname()[1])
            client.recv(1000)

    def answer_from_elsewhere(self):
        if self.flows:
            client, port = self.draw.choice(self.flows)
            self._host_sends(port + 2_000, client.getsockname()[1])

    def call(self):
        """The UE opens a connection of TCP, and keeps it."""
        client = self._socket(self.lab.ue, socket.SOCK_STREAM, self.ue)
        client.connect((self.host, SERVER))
        server = self.sockets.enter_context(self.listener.accept()[0])
        server.settimeout(2)
        self.open.append((client, server))

    def talk(self):
        """The host says something first."""
        if self.open:
            client, server = self.draw.choice(self.open)
            server.sendall(b"news")
            assert client.recv(10) == b"news"

    def hang_up(self):
        if self.open:
            client, server = self.open.pop(self.draw.randrange(len(self.open)))
            client.close()
            assert server.recv(10) == b""
            server.close()

    def unsolicited(self):
        self._host_sends(self.draw.randrange(31_000, 39_000), self.draw.randrange(1, 65_535))

    def call_the_ue(self):
        with contextlib.closing(self._socket(self.lab.dn, socket.SOCK_STREAM, self.host)) as sock:
            sock.setblocking(False)
            assert sock.connect_ex((self.ue, self.draw.randrange(1, 8_000))) == errno.EINPROGRESS

    def ping(self):
        self._ping(self.lab.ue, self.ue, self.host)

    def ping_the_ue(self):
        self._ping(self.lab.dn, self.host, self.ue)

    def _ping(self, namespace, source, destination):
        self.pings += 1
        is_v4 = self.family == socket.AF_INET
        protocol = socket.IPPROTO_ICMP if is_v4 else socket.IPPROTO_ICMPV6
        message = struct.pack("!BBHHH", 8 if is_v4 else 128, 0, 0, self.pings, 1) + b"ping"
        if is_v4:
            words = sum(struct.unpack("!6H", message))
            checksum = ~((words & 0xFFFF) + (words >> 16)) & 0xFFFF
            message = message[:2] + struct.pack("!H", checksum) + message[4:]
        with contextlib.closing(self._socket(namespace, socket.SOCK_RAW, source, protocol=protocol)) as sock:
            sock.sendto(message, (destination, 0))

    def error(self):
        """A router tells the UE that a packet did not arrive, which the UE has sent, or has not."""
        if not self.flows:
            return
        client, port = self.draw.choice(self.flows)
        sport = client.getsockname()[1] if self.draw.random() < 0.5 else self.draw.randrange(1, 1000)
        if self.family == socket.AF_INET:
            about = IP(src=self.ue, dst=self.host) / UDP(sport=sport, dport=port) / Raw(b"question")
            message = bytes(ICMP(type=3, code=0) / about)
            protocol = socket.IPPROTO_ICMP
        else:
            about = IPv6(src=self.ue, dst=self.host) / UDP(sport=sport, dport=port) / Raw(b"question")
            message = bytes(IPv6(src=self.host, dst=self.ue) / ICMPv6DestUnreach(code=0) / about)[40:]
            protocol = socket.IPPROTO_ICMPV6
        with contextlib.closing(self._socket(self.lab.dn, socket.SOCK_RAW, self.host, protocol=protocol)) as sock:
            sock.sendto(message, (self.ue, 0))

    STEPS = [ask, ask, answer_again, answer_again, answer_from_elsewhere, call, talk, talk, hang_up, unsolicited, unsolicited,
             call_the_ue, ping, ping_the_ue, error]


def test_what_the_kernel_calls_unsolicited_is_dropped(lab):
    draw = random.Random(SEED)
    sock = lab.gnb_socket()
    with sock, kernel_ue(lab, sock) as (_, ue4, ue6), kernels_view(lab, ue4, ue6):
        for of in ("udp_timeout", "udp_timeout_stream"):
            # As long as Sluice has it at least, for the test.
            lab.dn.run(f"sysctl -q -w net.netfilter.nf_conntrack_{of}=300")
        before = dropped(lab)
        both = [Ends(lab, draw, ue4, DN), Ends(lab, draw, ue6, DN6)]
        with both[0].sockets, both[1].sockets:
            for _ in range(STEPS):
                draw.choice(Ends.STEPS)(draw.choice(both))
        # Closed connections have said so.
        time.sleep(1)
        sent, came = counted(lab.dn), counted(lab.ue)
    unsolicited = tuple(sum(sent[f"unsolicited{version}"][at] for version in "46") for at in (0, 1))
    now = lambda: tuple(after - old for after, old in zip(dropped(lab), before))
    eventually(lambda: now()[0] >= unsolicited[0], "the drops are counted")
    assert now() == unsolicited, f"SLUICE_SEED={SEED} {sent}"
    assert {version: came[f"v{version}"] for version in "46"} == {version: sent[f"solicited{version}"] for version in "46"}, \
        f"SLUICE_SEED={SEED}"
    # It is a test of both.
    assert unsolicited[0] > 50 and min(count[0] for count in came.values()) > 50, (sent, came)


def test_a_rule_permits_connections_to_a_server_of_the_ue(lab):
    sock = lab.gnb_socket()
    with sock, kernel_ue(lab, sock) as (_, ue4, _):
        with lab.ue.entered():
            server = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        with server:
            server.bind((ue4, 8443))
            server.listen(1)
            ended, within = attempt(lab.dn, socket.AF_INET, DN, (ue4, 8443))
            assert ended is None and within < 5
        ended, within = attempt(lab.dn, socket.AF_INET, DN, (ue4, 8444))
        assert ended is None and within >= 5, "it receives nothing"


def test_a_trace_says_that_a_packet_is_unsolicited(lab):
    sock = lab.gnb_socket()
    with sock, kernel_ue(lab, sock) as (_, ue4, _), open(lab.files / "trace", "w+") as said:
        traced = trace(lab, ue4, said)
    assert traced["access"] == "denied, as the UE has no such connection, by rule otherwise of list consumers"
    assert traced["end"]["reason"] == "access_list" and "disagreement" not in traced, traced


def trace(lab, ue4, said):
    tracing = subprocess.Popen([os.environ["SLUICE"], "trace", "--ue", ue4, "--json", "--socket", str(lab.files / "control"),
                                "--count", "4"], stdout=said)
    with lab.dn.entered():
        host = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    with host:
        host.bind((DN, 0))
        for _ in range(100):
            host.sendto(b"unsolicited", (ue4, 4000))
            time.sleep(0.1)
            if tracing.poll() is not None:
                break
        tracing.kill()
        tracing.wait()
    said.seek(0)
    # Of a packet that comes to the other worker there is a trace there, too.
    return next(one for one in map(json.loads, said) if "access" in one)


def test_an_idle_connection_outlives_the_process(lab):
    """What a server pushes into a connection that was idle when the daemon was killed arrives, and no call does."""
    sock = lab.gnb_socket()
    with sock, kernel_ue(lab, sock) as (_, ue4, _), contextlib.ExitStack() as all_of_it:
        with lab.dn.entered():
            listener = all_of_it.enter_context(socket.socket(socket.AF_INET, socket.SOCK_STREAM))
        listener.bind((DN, 7443))
        listener.listen(1)
        with lab.ue.entered():
            client = all_of_it.enter_context(socket.socket(socket.AF_INET, socket.SOCK_STREAM))
        client.settimeout(5)
        client.bind((ue4, 0))
        client.connect((DN, 7443))
        server = all_of_it.enter_context(listener.accept()[0])
        # The session is in the store.
        time.sleep(2.5)
        lab.process.send_signal(signal.SIGKILL)
        lab.process.wait(15)
        lab._start(os.environ["SLUICE"])
        ended, within = attempt(lab.dn, socket.AF_INET, DN, (ue4, 22))
        assert ended is None and within >= 5, "no other end gets through"
        server.sendall(b"push")
        assert client.recv(10) == b"push"
