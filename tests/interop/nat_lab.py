"""Laboratories of CG-NAT: a pool of public addresses that the data network routes to Sluice, and a STUN server there; the
kernel's own NAT in its place; and a second data network, which has everything as the first one has it.
"""
import contextlib
import datetime
import ipaddress
import json
import os
import re
import socket
import struct
import subprocess
import tempfile
import threading
import types
from pathlib import Path

from lab import API_CONFIGURATION, DN, LINKS, N6, UE_POOL, Lab, Namespace, eventually

POOL = ipaddress.ip_network("198.51.100.0/30")
# That of sessions whose SMF names it.
CHOSEN = ipaddress.ip_network("198.51.100.4/30")
# A STUN server by RFC 5780 has two addresses.
OTHER_DN = "10.200.0.253"
# Those of which tshark takes none for a protocol's that it knows.
PORTS = range(50176, 54272)
# A UE with a server, and the public end that stands for its port.
SERVER = "10.45.255.77"
FORWARDED = ("198.51.100.2", PORTS.start + 100)
CONFIGURATION = API_CONFIGURATION + f"""
nat_pools:
  - name: cgn
    instance: internet
    dnn: internet
    addresses: [{POOL}]
    ports: {{{{first: {PORTS.start}, last: {PORTS.stop - 1}}}}}
    block: 64
    filtering: @FILTERING@
    per_session: {{{{blocks: 4, mappings_s: 0}}}}
    forwards:
      - {{{{ue: {SERVER}, port: 8080, protocol: tcp, public: {FORWARDED[0]}, public_port: {FORWARDED[1]}}}}}
      - {{{{ue: {SERVER}, port: 8080, protocol: udp, public: {FORWARDED[0]}, public_port: {FORWARDED[1]}}}}}
  - name: chosen
    instance: internet
    smf_only: true
    addresses: [{CHOSEN}]
    ports: {{{{first: {PORTS.start}, last: {PORTS.stop - 1}}}}}
    block: 64
forwarding_policies:
  - {{{{name: gold, nat_pool: chosen}}}}
  - {{{{name: plain, nat_pool: none}}}}
  - {{{{name: marked, dscp: 46}}}}
nat:
  lifetime_s: {{{{udp: @UDP_S@}}}}
  log: {{{{directory: "{{files}}/nat-log", ipfix: {{{{to: "127.0.0.1:4739", transport: @TRANSPORT@}}}}}}}}
"""


# Another data network in an address space of its own: its link, and its configuration. Sluice's own address alone is not
# the same. Each network has one block of ports, so that their sessions have the same public ones.
OTHER_N6 = "10.200.0.2"
NETWORKS_LINKS = LINKS + (("other_dn", "dn0", "n6b"),)
BLOCK = 16
NETWORKS_CONFIGURATION = API_CONFIGURATION.replace("instances:", """\
  - {{name: other-dn, driver: {{{driver}: {{interface: n6b{options}}}}}}}
instances:
  - name: corporate
    roles: [n6]
    port: other-dn
    vrf: 1
    addresses: [@OTHER_N6@/24]
    routes: [{{to: 0.0.0.0/0, via: {dn}}}]
""").replace("@OTHER_N6@", OTHER_N6) + "nat_pools:\n" + "".join(f"""\
  - name: {network}
    instance: {network}
    dnn: {network}
    addresses: [{POOL[0]}/32]
    ports: {{{{first: {PORTS.start}, last: {PORTS.start + BLOCK - 1}}}}}
    block: {BLOCK}
    per_session: {{{{blocks: 1}}}}
""" for network in ("internet", "corporate")) + "nat: {{quarantine_s: 0, log: {{directory: \"{files}/nat-log\"}}}}\n"


class NatLab(Lab):
    """A laboratory with an IPFIX collector. That of UDP is there before the daemon, as the template comes first."""

    def _wire(self):
        if self.links == NETWORKS_LINKS:
            self.other_dn = self._namespace("other_dn")
        super()._wire()
        # The data network knows no way to the UEs' own addresses.
        self.dn.run(f"ip route del {UE_POOL}")
        self.dn.add_address(f"{OTHER_DN}/24", "dn0")
        for pool in (POOL, CHOSEN):
            self.dn.run(f"ip route add {pool} via {N6}")
        if self.links == NETWORKS_LINKS:
            self.other_dn.add_address(f"{DN}/24", "dn0")
            self.other_dn.run(f"ip route add {POOL} via {OTHER_N6}")
        self.collector = sock(self.upf, socket.SOCK_DGRAM, "127.0.0.1", 4739)
        self.stack.callback(self.collector.close)
        self.listener = sock(self.upf, socket.SOCK_STREAM, "127.0.0.1", 4739)
        self.stack.callback(self.listener.close)
        self.listener.listen()

    def exported(self, path):
        """A capture of what the collector has got so far."""
        if self.transport == "udp":
            return captured(received(self.collector), path)
        if not self.stream:
            connection, _ = self.listener.accept()
            self.stack.callback(connection.close)
            self.stream = [connection, b""]
        self.stream[1] += b"".join(received(self.stream[0]))
        return captured_stream(self.stream[1], path)


def received(from_socket):
    """What comes until nothing comes for a while."""
    octets = []
    from_socket.settimeout(0.5)
    with contextlib.suppress(TimeoutError):
        while True:
            octets.append(from_socket.recv(65535))
            assert octets[-1], "the daemon has ended the connection"
    return octets


def captured(messages, path):
    """A capture file with these datagrams to IPFIX's port. Whether there is any."""
    ports = [struct.pack("!HHHH", 4739, 4739, 8 + len(message), 0) + message for message in messages]
    write_capture(path, 17, ports)
    return bool(messages)


def captured_stream(octets, path, segment=999):
    """A capture file with the segments of a connection to IPFIX's port, which know nothing of messages. Whether any."""
    segments = [struct.pack("!HHIIBBHHH", 4739, 4739, 1 + place, 1, 0x50, 0x18, 65535, 0, 0) + octets[place:place + segment]
                for place in range(0, len(octets), segment)]
    write_capture(path, 6, segments)
    return bool(octets)


def write_capture(path, protocol, payloads):
    """A capture file with packets of these payloads."""
    with open(path, "wb") as file:
        file.write(struct.pack("<IHHiIII", 0xa1b2c3d4, 2, 4, 0, 0, 65535, 101))
        for payload in payloads:
            packet = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 20 + len(payload), 0, 0, 64, protocol, 0, bytes([192, 0, 2, 1]),
                                 bytes([192, 0, 2, 2])) + payload
            file.write(struct.pack("<IIII", 0, 0, len(packet), len(packet)) + packet)


def made(driver, workers, filtering="endpoint_independent", transport="udp", udp_s=6, change=str):
    """A laboratory with this filtering, this transport of IPFIX, this lifetime of mappings of UDP in seconds, and what
    `change` makes of its configuration.
    """
    configuration = CONFIGURATION
    for name, value in (("FILTERING", filtering), ("TRANSPORT", transport), ("UDP_S", udp_s)):
        configuration = configuration.replace(f"@{name}@", str(value))
    lab = NatLab(os.environ["SLUICE"], driver, workers, configuration=change(configuration))
    lab.filtering, lab.transport, lab.stream = filtering, transport, None
    return lab


def reach(lab):
    """Connects to the UE's server from the data network, and sends datagrams both ways."""
    data = os.urandom(1_000_000)
    listener, server = sock(lab.ue, socket.SOCK_STREAM, SERVER, 8080), sock(lab.ue, socket.SOCK_DGRAM, SERVER, 8080)
    listener.listen()
    with contextlib.closing(listener), contextlib.closing(server):
        def answer():
            connection, _ = listener.accept()
            with connection:
                connection.settimeout(10)
                connection.sendall(b"".join(iter(lambda: connection.recv(65536), b""))[::-1])
        thread = threading.Thread(target=answer, daemon=True)
        thread.start()
        with contextlib.closing(sock(lab.dn, socket.SOCK_STREAM, DN)) as client:
            client.settimeout(20)
            client.connect(FORWARDED)
            sender = threading.Thread(target=lambda: (client.sendall(data), client.shutdown(socket.SHUT_WR)), daemon=True)
            sender.start()
            assert b"".join(iter(lambda: client.recv(65536), b"")) == data[::-1]
            sender.join(10)
        thread.join(10)
        with contextlib.closing(sock(lab.dn, socket.SOCK_DGRAM, OTHER_DN)) as client:
            client.sendto(b"question", FORWARDED)
            got, host = server.recvfrom(100)
            assert (got, host) == (b"question", client.getsockname())
            server.sendto(b"answer", host)
            assert client.recvfrom(100) == (b"answer", FORWARDED)


def made_networks():
    """A laboratory with another data network, `other_dn`."""
    return NatLab(os.environ["SLUICE"], "af_packet", 2, NETWORKS_CONFIGURATION, NETWORKS_LINKS)


@contextlib.contextmanager
def kernel_nat(statement):
    """A host behind the kernel's own NAT, by a statement of nftables, before the same data network."""
    with contextlib.ExitStack() as stack:
        files = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        host, router, dn = (Namespace(name) for name in ("host", "router", "host_dn"))
        for namespace in (host, router, dn):
            stack.callback(namespace.close)
        host.run(f"ip link add lan0 type veth peer name lan1 netns {router.name}")
        dn.run(f"ip link add dn0 type veth peer name wan0 netns {router.name}")
        for namespace, link, address in ((host, "lan0", "192.168.1.2"), (router, "lan1", "192.168.1.1"),
                                         (router, "wan0", N6), (dn, "dn0", DN), (dn, "dn0", OTHER_DN)):
            namespace.run(f"ip link set {link} up")
            namespace.add_address(f"{address}/24", link)
        host.run("ip route add default via 192.168.1.1")
        router.run("sysctl -qw net.ipv4.ip_forward=1")
        rules = files / "rules"
        rules.write_text(f"""table ip nat {{
    chain postrouting {{
        type nat hook postrouting priority srcnat
        oifname wan0 {statement}
    }}
}}
""")
        router.run(f"nft -f {rules}")
        yield types.SimpleNamespace(ue=host, dn=dn, files=files)


def sock(namespace, kind, address="", port=0):
    with namespace.entered():
        made = socket.socket(socket.AF_INET, kind)
    made.settimeout(3)
    if port:
        # Without one, it would not be this socket's alone.
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    made.bind((address, port))
    return made


def is_public(address):
    return ipaddress.ip_address(address) in POOL


@contextlib.contextmanager
def stun_server(lab):
    """coturn, for STUN alone, at both addresses."""
    process = lab.dn.popen("turnserver", "-n", "-S", "--no-cli", "--no-tls", "--no-dtls", "-L", DN, "-L", OTHER_DN, "--log-file",
                           "stdout", "--pidfile", str(lab.files / "turnserver.pid"), "--simple-log",
                           stdout=subprocess.DEVNULL, stderr=subprocess.STDOUT)
    try:
        with contextlib.closing(sock(lab.dn, socket.SOCK_DGRAM, DN)) as client:
            client.settimeout(0.2)

            def answers():
                client.sendto(bytes.fromhex("000100002112a442") + os.urandom(12), (DN, 3478))
                with contextlib.suppress(OSError):
                    return client.recv(1000)
                return None
            eventually(answers, "a STUN server")
        yield
    finally:
        process.terminate()
        process.wait(10)


def discovered(lab, *options):
    """What coturn's tester says of the NAT before a UE."""
    done = lab.ue.run(f"turnutils_natdiscovery {' '.join(options)} {DN}", check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def behaviour(lab, *options):
    """What coturn's tester says of a NAT's mapping and filtering, in our words."""
    said = discovered(lab, "-m", "-f")
    return {what: found[1].lower().replace(" ", "_") if (found := re.search(f"NAT with (.*) {what.title()}!", said)) else said
            for what in ("mapping", "filtering")}


def held_by(lab, public, at, *options):
    """Who had a public port at a time, by the log, and of which times it knows."""
    address, port = public
    when = datetime.datetime.fromtimestamp(at, datetime.UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    done = subprocess.run([os.environ["SLUICE"], "show", "nat", f"{address}:{port}", "--at", when, "--json", *options,
                           "-c", str(lab.files / "sluice.yaml")], capture_output=True, text=True, check=True)
    answer = json.loads(done.stdout)
    return answer["holder"], answer["log"]["from"] <= when <= answer["log"]["to"]
