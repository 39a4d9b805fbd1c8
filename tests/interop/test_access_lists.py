"""Access lists, against nftables: the same rules in the UE's kernel count the same packets, rule by rule.

The kernel's filter sees each packet as it leaves the UE, Sluice sees it in its tunnel. What Sluice says that a rule has
dropped is what nftables has counted for that rule, to the octet; the rest arrives at the data network.
"""
import contextlib
import errno
import json
import os
import random
import socket
import subprocess
import time

import pytest

from conftest import serve
from lab import API_CONFIGURATION, DN, DN6, Lab, eventually, kernel_ue, shown

RULES, PACKETS, PER_S = 10_000, 1_500, 1_500
SEED = int(os.environ.get("SLUICE_SEED", "") or random.SystemRandom().getrandbits(32))
PROTOCOLS = {6: "tcp", 17: "udp"}


class Rule:
    """One rule at random, for Sluice and for nftables."""

    def __init__(self, draw, number):
        self.name = f"r{number}"
        self.action = draw.choice(["deny", "deny", "reject", "permit"])
        self.protocol = draw.choice([6, 17, None])
        self.is_v4 = draw.random() < 0.5
        self.prefix = self._prefix(draw) if self.protocol is None or draw.random() < 0.9 else None
        # No port that tshark has a protocol for.
        first = draw.randrange(41_200, 44_200)
        has_ports = self.protocol is not None and draw.random() < 0.8
        self.ports = (first, first + draw.choice([0, 0, 3, 60])) if has_ports else None

    def _prefix(self, draw):
        if self.is_v4:
            bits = draw.choice([24, 28, 32])
            host = draw.randrange(256) & (0xFF << (32 - bits)) & 0xFF
            return f"{draw.choice(['192.0.2', '198.51.100'])}.{host}/{bits}"
        bits = draw.choice([64, 120, 128])
        host = draw.randrange(256) if bits == 128 else 0
        return f"2001:db8:{draw.choice('ab')}::{host:x}/{bits}"

    def breadth(self):
        bits = int(self.prefix.partition("/")[2]) + (96 if self.is_v4 else 0) if self.prefix else 0
        return self.ports is None, -bits, self.ports and self.ports[1] - self.ports[0]

    def yaml(self):
        remote = self.prefix or "any"
        ports = f" {self.ports[0]}-{self.ports[1]}" if self.ports else ""
        return f"""\
      - name: {self.name}
        action: {self.action}
        direction: uplink
        flows: ["permit out {self.protocol or 'ip'} from {remote}{ports} to assigned"]
"""

    def nft(self):
        words = []
        if self.prefix:
            words += ["ip daddr" if self.is_v4 else "ip6 daddr", self.prefix]
        if self.protocol:
            words += ["meta l4proto", str(self.protocol)]
        if self.ports:
            words += [PROTOCOLS[self.protocol], f"dport {self.ports[0]}-{self.ports[1]}"]
        return f"{' '.join(words)} counter accept comment \"{self.name}\""

    def packet(self, draw):
        """Protocol, address and port of a packet that it describes, if no rule before it does."""
        address = self.prefix or draw.choice(["192.0.2.77/32", "2001:db8:a::77/128"])
        address, _, bits = address.partition("/")
        if bits == "28":
            start, _, last = address.rpartition(".")
            address = f"{start}.{int(last) + draw.randrange(16)}"
        port = draw.randint(*self.ports) if self.ports else draw.randrange(41_200, 44_300)
        return self.protocol or draw.choice([6, 17]), address, port


DRAW = random.Random(SEED)
# The narrow ones come first, so that wide ones leave something of them.
LIST = sorted((Rule(DRAW, number) for number in range(RULES)), key=Rule.breadth)
CONFIGURATION = API_CONFIGURATION + """
access_lists:
  - name: consumers
    dnn: internet
    rules:
      - {{name: dn-may-not-call, action: reject, direction: downlink, flows: ["permit out 6 from """ + DN + """ to assigned 9000"]}}
      - {{name: mail, action: reject, direction: uplink, flows: ["permit out 6 from """ + DN + """ 25 to assigned", \
"permit out 6 from """ + DN6 + """ 25 to assigned"]}}
      - {{name: data-network, action: permit, flows: ["permit out ip from """ + DN + """ to assigned", "permit out ip from """ + DN6 + """ to assigned"]}}
""" + "".join(rule.yaml() for rule in LIST)


@pytest.fixture(scope="module", params=[("af_packet", 1), ("af_packet", 2)], ids=lambda of: f"{of[0]}-{of[1]}")
def lab(request):
    driver, workers = request.param
    print(f"SLUICE_SEED={SEED}")
    lab = Lab(os.environ["SLUICE"], driver, workers, configuration=CONFIGURATION)
    yield from serve(request, lab, lab.associate)


def nft(namespace, *lines):
    done = subprocess.run(["ip", "netns", "exec", namespace.name, "nft", "-f", "-"], input="\n".join(lines), capture_output=True,
                          text=True)
    assert done.returncode == 0, done.stderr[:2000]


def counted(namespace):
    """Packets and octets by rule of the table there."""
    said = json.loads(namespace.run("nft -j list table inet oracle").stdout)
    rules = [one["rule"] for one in said["nftables"] if "rule" in one]
    counter = lambda rule: next(part["counter"] for part in rule["expr"] if "counter" in part)
    return {rule["comment"]: (counter(rule)["packets"], counter(rule)["bytes"]) for rule in rules if "comment" in rule}


@contextlib.contextmanager
def oracle(*chains):
    """Namespaces with a chain each of nftables: at this hook and priority, of these rules."""
    for namespace, hook, priority, rules in chains:
        nft(namespace, "add table inet oracle",
            f"add chain inet oracle {hook} {{type filter hook {hook} priority {priority}; policy accept;}}",
            *(f"add rule inet oracle {hook} {rule}" for rule in rules))
    try:
        yield
    finally:
        for namespace, *_ in chains:
            nft(namespace, "delete table inet oracle")


def of_list(lab, ue4, ue6):
    """The rules of the list as packets leave the UE; and what arrives of it."""
    sent = ['oifname != "ue0" accept', *(rule.nft() for rule in LIST), 'counter accept comment "otherwise"']
    came = [f'ip saddr {ue4} counter accept comment "v4"', f'ip6 saddr {ue6} counter accept comment "v6"']
    return oracle((lab.ue, "output", 0, sent), (lab.dn, "prerouting", -300, came))


def send(lab, ue4, ue6, protocol, address, port):
    """One packet: a datagram, or the SYN of a connection that is given up at once."""
    is_v4 = ":" not in address
    kind = socket.SOCK_STREAM if protocol == 6 else socket.SOCK_DGRAM
    with lab.ue.entered():
        sock = socket.socket(socket.AF_INET if is_v4 else socket.AF_INET6, kind)
    with sock:
        sock.setblocking(False)
        sock.bind((ue4 if is_v4 else ue6, 0))
        if protocol == 6:
            assert sock.connect_ex((address, port)) == errno.EINPROGRESS
        else:
            sock.sendto(b"access", (address, port))


def dropped(lab):
    rules = shown(lab, "access-lists")["access_lists"][0]["rules"]
    return {rule["name"]: (rule["dropped_packets"], rule["dropped_octets"]) for rule in rules if rule["dropped_packets"]}


def test_each_rule_drops_what_nftables_counts_for_it(lab):
    draw = random.Random(SEED + 1)
    sock = lab.gnb_socket()
    before = dropped(lab)
    with sock, kernel_ue(lab, sock) as (_, ue4, ue6), of_list(lab, ue4, ue6):
        began = time.monotonic()
        for number in range(PACKETS):
            send(lab, ue4, ue6, *draw.choice(LIST).packet(draw))
            time.sleep(max(0, began + number / PER_S - time.monotonic()))
        time.sleep(0.3)
        told, arrived = counted(lab.ue), counted(lab.dn)
    denying = {rule.name for rule in LIST if rule.action != "permit"}
    expected = {name: count for name, count in told.items() if name in denying and count[0]}
    since = lambda now: {name: tuple(a - b for a, b in zip(count, before.get(name, (0, 0)))) for name, count in now.items()}
    now = lambda: {name: count for name, count in since(dropped(lab)).items() if count[0]}
    eventually(lambda: sum(count[0] for count in now().values()) >= sum(count[0] for count in expected.values()),
               "the drops are counted")
    assert now() == expected, f"SLUICE_SEED={SEED}"
    assert sum(packets for packets, _ in arrived.values()) == PACKETS - sum(packets for packets, _ in expected.values())
    # It is a test of many rules, and of both ends.
    assert len(expected) > 100 and arrived["v4"][0] > 20 and arrived["v6"][0] > 20, (len(expected), arrived)


def attempt(namespace, family, source, destination):
    """How a connection ends, and how soon."""
    with namespace.entered():
        sock = socket.socket(family, socket.SOCK_STREAM)
    with sock:
        sock.settimeout(5)
        sock.bind((source, 0))
        began = time.monotonic()
        with contextlib.suppress(TimeoutError):
            try:
                sock.connect(destination)
            except OSError as error:
                return error.errno, time.monotonic() - began
        return None, time.monotonic() - began


def test_who_is_rejected_is_notified_at_once(lab):
    sock = lab.gnb_socket()
    with sock, kernel_ue(lab, sock) as (_, ue4, ue6):
        # Linux takes these codes of ICMP for the end of a connection that opens.
        ended, within = attempt(lab.ue, socket.AF_INET, ue4, (DN, 25))
        assert ended == errno.EHOSTUNREACH and within < 1, (ended, within)
        ended, within = attempt(lab.ue, socket.AF_INET6, ue6, (DN6, 25))
        assert ended == errno.EACCES and within < 1, (ended, within)
        ended, within = attempt(lab.dn, socket.AF_INET, DN, (ue4, 9000))
        assert ended == errno.EHOSTUNREACH and within < 1, (ended, within)
        # Another port is refused by the server itself.
        ended, within = attempt(lab.ue, socket.AF_INET, ue4, (DN, 2525))
        assert ended == errno.ECONNREFUSED


def test_a_trace_says_which_rule_decides(lab):
    sock = lab.gnb_socket()
    with sock, kernel_ue(lab, sock) as (_, ue4, ue6), open(lab.files / "trace", "w+") as said:
        trace = subprocess.Popen([os.environ["SLUICE"], "trace", "--ue", ue4, "--json", "--socket", str(lab.files / "control"),
                                  "--count", "2"], stdout=said)
        while trace.poll() is None:
            send(lab, ue4, ue6, 6, DN, 25)
            time.sleep(0.1)
        said.seek(0)
        traced = [json.loads(line) for line in said]
    (first, *_) = [one for one in traced if one.get("access", "").startswith("rejected")]
    assert first["access"] == "rejected by rule mail of list consumers"
    assert first["end"]["reason"] == "access_list" and "disagreement" not in first, first


def test_a_commit_changes_what_flows_in_use_may_do(lab):
    sock = lab.gnb_socket()
    with sock, kernel_ue(lab, sock) as (_, ue4, ue6), lab.dn_udp_socket(DN, 7007) as server:
        server.settimeout(1)
        with lab.ue.entered():
            client = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        client.bind((ue4, 0))
        came = lambda: client.sendto(b"use", (DN, 7007)) and received(server)
        assert came()
        running = (lab.files / "sluice.yaml").read_text()
        rule = f'      - {{name: new, action: deny, flows: ["permit out 17 from {DN} 7007 to assigned"]}}\n'
        changed = running.replace("    rules:\n      - {name: dn-may", f"    rules:\n{rule}      - {{name: dn-may", 1)
        assert changed != running
        counts = dropped(lab)
        commit(lab, changed)
        eventually(lambda: not came(), "the flow is denied")
        eventually(lambda: dropped(lab).get("new", (0,))[0] > 0, "the new rule counts")
        now = dropped(lab)
        # Counts are published once a second: some of before may come later.
        assert all(now[name][0] >= count[0] for name, count in counts.items()), "the others keep their counts"
        commit(lab, running)
        eventually(came, "the flow is permitted again")


def received(server):
    with contextlib.suppress(TimeoutError):
        return server.recv(100)


def commit(lab, text):
    candidate = lab.files / "candidate.yaml"
    candidate.write_text(text)
    done = subprocess.run([os.environ["SLUICE"], "config", "commit", str(candidate), "--socket", str(lab.files / "control")],
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
