"""Floods of ClientHellos, of one UE and of 10,000: flows that never say what they are for, and flows for ever new hosts.

Meanwhile another UE is served as before: none of its packets is lost, its new connections are known by their hosts and billed
by them, and the daemon takes no more memory than its bounds are. The ClientHellos are OpenSSL's.
"""
import collections
import contextlib
import http.client
import itertools
import os
import random
import socket
import ssl
import struct
import subprocess

import nginx
from lab import DN, OTHER_GNB, PATIENCE, UE4, Lab, Tunnel, eventually, kernel_ue, shown
from test_inspection import CONFIGURATION, check, ports_of, settled

SEED = int(os.environ.get("SLUICE_SEED", "") or random.SystemRandom().getrandbits(32))
# Nothing answers there: a reset would end the flood's flows.
NOWHERE, NOWHERE_NET = "198.51.100.1", "198.51.100.0/24"
ECHO = 7007
SYN, PSH_ACK = 0x02, 0x18
# Of halves, of names of one UE, and of names of many: flows in one flood, and UEs.
FLOWS, MANY_FLOWS, UES, NAMING_UES = 10_000, 40_000, 10_000, 2_000
# Some more than it takes to have all blocks for what is in several segments, with 16 of each, and all states of flows that are
# not decided, with 64 of each.
FEW_UES, MORE_UES = 40, 320
# Packets of the flood to one datagram of the other UE each way: they are no full burst of a worker, so that none is refused for
# want of time on a host that is slow. And flows whose SYNs come together.
AT_ONCE, WAVE = 24, 128
# Units of 52 octets: a name of the flood takes four. One UE's are twice as many as there is room for, and those of many, too;
# then each of those has room for six and more, and the other UE has five.
ROOM, MANY_ROOM = 2 * FLOWS, 32_768
# Flows of a flood whose hosts may find no room: of the records that are looked at none may have a host.
FEW_LOST = 100
# No flow is given up because of its age before the flood is over.
INSPECTION = "inspection: {{{{hosts: {hosts}, timeout_ms: 600000}}}}\nlimits: {{{{sessions: 16384}}}}\n"
# What the daemon may grow by in a flood, for each worker, as tables have memory when they are first used: those of inspection
# have 30 MiB. And what another flood like it may add.
MOST_GROWTH_KIB, MOST_GROWTH_AGAIN_KIB = 32 << 10, 4 << 10
# What a UE's kernel sends by itself, and what comes to the links besides.
NOISE = {"no_matching_pdr", "not_for_us"}


def client_hello(host):
    """OpenSSL's, for a host."""
    sends = ssl.MemoryBIO()
    client = ssl.create_default_context().wrap_bio(ssl.MemoryBIO(), sends, server_hostname=host)
    with contextlib.suppress(ssl.SSLWantReadError):
        client.do_handshake()
    return sends.read()


def long_name(draw):
    return ".".join(draw.randbytes(31).hex() for _ in range(3)) + ".bad.example"


class Flood:
    """Flows of UEs of which the gNB sends a SYN and one segment."""

    PLACEHOLDER = long_name(random.Random(0))
    HELLO = client_hello(PLACEHOLDER)
    HALF = HELLO[:len(HELLO) // 2]

    def __init__(self, draw, tunnels):
        self.draw, self.tunnels = draw, tunnels
        # No flow is there twice, nor one of a flood before.
        self.ports = itertools.cycle(range(10_000, 50_000))

    def segment(self, ue, port, sequence, flags, payload=b""):
        head = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 40 + len(payload), 0, 0x4000, 64, 6, 0, socket.inet_aton(ue),
                           socket.inet_aton(NOWHERE))
        total = sum(struct.unpack("!10H", head))
        total = (total & 0xFFFF) + (total >> 16)
        tcp = struct.pack("!HHIIBBHHH", port, 443, sequence, 1, 0x50, flags, 65_535, 0, 0)
        return head[:10] + struct.pack("!H", ~((total & 0xFFFF) + (total >> 16)) & 0xFFFF) + head[12:] + tcp + payload

    def halves(self, flows=FLOWS):
        """Half a ClientHello in each flow, of one UE after the other, behind the SYNs of some flows."""
        senders = itertools.islice(itertools.cycle(self.tunnels), flows)
        while flows := [(ue, tunnel, next(self.ports)) for ue, tunnel in itertools.islice(senders, WAVE)]:
            for ue, tunnel, port in flows:
                tunnel.send(self.segment(ue, port, 0, SYN))
                yield
            for ue, tunnel, port in flows:
                tunnel.send(self.segment(ue, port, 1, PSH_ACK, self.HALF))
                yield

    def syns(self, flows):
        """Nothing but a SYN in each flow, of one UE after the other."""
        for ue, tunnel in itertools.islice(itertools.cycle(self.tunnels), flows):
            tunnel.send(self.segment(ue, next(self.ports), 0, SYN))
            yield

    def names(self, flows, ues=1):
        """A host that was never there before in each flow, the same number of each UE."""
        for ue, tunnel in self.tunnels[:ues]:
            for _ in range(flows // ues):
                port, name = next(self.ports), long_name(self.draw)
                tunnel.send(self.segment(ue, port, 0, SYN))
                yield
                tunnel.send(self.segment(ue, port, 1, PSH_ACK, self.HELLO.replace(self.PLACEHOLDER.encode(), name.encode())))
                yield


def own_name(name):
    """One of the other UE, that takes as much room as a name of the flood."""
    return f"{name}.{'x' * 60}.{'x' * 60}.{'x' * 40}.video.example"


class Beside:
    """The other UE: a flow of UDP that goes to and fro, a connection of TLS that stays, and new ones."""

    def __init__(self, lab, session, ue, stack):
        self.lab, self.session, self.ue, self.exchanges, self.floods = lab, session, ue, 0, 0
        with lab.ue.entered():
            self.client = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        self.server = stack.enter_context(lab.dn_udp_socket(DN, ECHO))
        self.client.bind((ue, 0))
        self.client.settimeout(PATIENCE)

    @contextlib.contextmanager
    def connection(self):
        """One that stays."""
        context = ssl._create_unverified_context()
        with self.lab.ue.entered():
            plain = socket.create_connection((DN, 443), timeout=PATIENCE)
        with plain, context.wrap_socket(plain, server_hostname=own_name("kept")) as secure:
            self.kept = http.client.HTTPConnection(own_name("kept"))
            self.kept.sock = secure
            yield

    def exchange(self):
        """A datagram each way arrives, or this times out."""
        self.exchanges += 1
        said = struct.pack("!I", self.exchanges)
        self.client.sendto(said, (DN, ECHO))
        received, source = self.server.recvfrom(100)
        assert received == said
        self.server.sendto(said, source)
        assert self.client.recv(100) == said

    def ask_again(self):
        self.kept.request("GET", "/2000")
        assert len(self.kept.getresponse().read()) == 2_000

    def start(self, name):
        host = own_name(f"{name}{self.floods}")
        return self.lab.ue.popen("curl", "-sSkfo", "/dev/null", "--max-time", "20", "--resolve", f"{host}:443:{DN}",
                                 f"https://{host}/50000", stderr=subprocess.PIPE, text=True)

    def endure(self, flood, packets):
        """A flood of as many packets, with all that the UE does in between, and a new connection behind it."""
        clients, self.floods = [], self.floods + 1
        for number, _ in enumerate(flood):
            if number % AT_ONCE == 0:
                self.exchange()
            if number % (packets // 20) == 0:
                self.ask_again()
            # The tables are full by now.
            if number in (packets * 3 // 4, packets * 7 // 8):
                clients.append(self.start("while"))
        self.exchange()
        self.ask_again()
        clients.append(self.start("behind"))
        for client in clients:
            _, said = client.communicate(timeout=30)
            assert client.returncode == 0, said


def counts(lab):
    """Counts, and drops, of all workers."""
    both = collections.Counter(), collections.Counter()
    for worker in shown(lab, "runtime")["workers"]:
        for total, of in zip(both, (worker["counts"], worker["drops"])):
            total.update(of)
    return both


def resident_kib(lab):
    with open(f"/proc/{lab.process.pid}/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmRSS"))


def capture(lab, ue):
    """What the UE and the data network say to each other, and no flood."""
    file = lab.captures["n6"] = lab.files / "beside.pcap"
    dump = lab.upf.popen("tcpdump", "-Z", "root", "--immediate-mode", "-B", "65536", "-s", "16384", "-U", "-i", "n6", "-w", str(file),
                         "host", ue, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    dump.stderr.readline()
    lab.dumps.append(dump)


@contextlib.contextmanager
def flooded(workers, ues, room):
    """A laboratory with sessions of UEs that flood, and another UE."""
    print(f"SLUICE_SEED={SEED}")
    configuration = CONFIGURATION + INSPECTION.format(hosts=room)
    with contextlib.ExitStack() as stack:
        lab = Lab(os.environ["SLUICE"], "af_packet", workers, configuration=configuration)
        stack.callback(lab.close)
        # The flood is not captured.
        lab.stop_captures()
        lab.associate()
        lab.dn.run(f"ip route add blackhole {NOWHERE_NET}")
        gnb, other_gnb = stack.enter_context(lab.gnb_socket()), stack.enter_context(lab.gnb_socket(OTHER_GNB))
        tunnels = []
        for number in range(ues):
            lab.smf.seids += 1
            wanted = {"seid": lab.smf.seids, "ue_ipv4": str(UE4[2_000 + number]), "qfi": 9, "access_instance": "access",
                      "core_instance": "internet", "activate": ["web"]}
            tunnels.append((wanted["ue_ipv4"], Tunnel({**wanted, **lab.smf("establish", session=wanted)}, gnb)))
        session, ue, _ = stack.enter_context(kernel_ue(lab, other_gnb, activate=["web"], gnb=OTHER_GNB))
        capture(lab, ue)
        try:
            yield lab, Flood(random.Random(SEED), tunnels), Beside(lab, session, ue, stack)
        except BaseException:
            print(lab.said())
            raise


def run(lab, beside, *floods):
    """The floods, one after the other, each with its number of flows: what the daemon counted of each, and grew by in KiB."""
    counted = []
    with nginx.serving(lab) as requests, beside.connection():
        for flood, flows in floods:
            (before, dropped), resident = counts(lab), resident_kib(lab)
            beside.endure(flood, 2 * flows)
            opened = lambda: sum((counts(lab)[0] - before)[name] for name in ("inspections", "inspections_refused"))
            # With the new connections.
            eventually(lambda: opened() >= flows + 3, "each flow of the flood was looked at, or refused")
            now, drops = counts(lab)
            assert set(drops - dropped) <= NOISE, drops
            counted.append((now - before, resident_kib(lab) - resident))
    print(*counted, sep="\n")
    for (_, grown), (_, flows) in zip(counted, floods):
        assert grown <= lab.workers * MOST_GROWTH_KIB
    hosts = collections.Counter(one.sni for one in requests)
    for number in range(1, len(floods) + 1):
        assert (hosts[own_name(f"while{number}")], hosts[own_name(f"behind{number}")]) == (2, 1), hosts
    check(lab, beside.session, beside.ue, [("tcp", ports_of(one), one.what) for one in requests], "n6")
    return counted


def test_one_ue_that_never_says_its_hosts_takes_nothing_from_others():
    with flooded(1, 1, ROOM) as (lab, flood, beside):
        (counted, _), (_, grown) = run(lab, beside, (flood.halves(), FLOWS), (flood.halves(), FLOWS))
        assert counted["inspections_refused"] > FLOWS / 2 and counted["hosts_lost"] == 0, counted
        assert grown <= MOST_GROWTH_AGAIN_KIB


def test_one_ue_with_ever_new_hosts_takes_nothing_from_others():
    with flooded(1, 1, ROOM) as (lab, flood, beside):
        (counted, _), (_, grown) = run(lab, beside, (flood.names(FLOWS), FLOWS), (flood.names(FLOWS), FLOWS))
        assert counted["hosts_found"] >= FLOWS - FEW_LOST, counted
        assert grown <= MOST_GROWTH_AGAIN_KIB


def test_ten_thousand_ues_take_nothing_from_others():
    with flooded(2, UES, MANY_ROOM) as (lab, flood, beside):
        (halves, _), (names, _) = run(lab, beside, (flood.halves(), FLOWS), (flood.names(MANY_FLOWS, NAMING_UES), MANY_FLOWS))
        assert halves["undetected_flows"] > FLOWS / 2 and halves["hosts_lost"] == 0, halves
        assert names["hosts_found"] >= MANY_FLOWS - FEW_LOST, names


def billed_behind(lab, beside, flood, start):
    """What is billed to a host of which a connection is begun behind a flood."""
    with nginx.serving(lab) as requests:
        for number, _ in enumerate(flood):
            if number % AT_ONCE == 0:
                beside.exchange()
        beside.exchange()
        assert start().wait(30) == 0
    assert len(requests) == 1
    print(*(+of for of in counts(lab)), sep="\n")
    return settled(lab, beside.session)["video"]


def test_a_host_in_two_segments_is_found_while_others_never_say_theirs():
    """Go's ClientHello has a key of ML-KEM, and takes two segments, as those of browsers do."""
    with flooded(1, FEW_UES, ROOM) as (lab, flood, beside):
        go = lambda: lab.ue.popen("env", f"WEB_SERVER={DN}", os.environ["WEB"], "get", "https://new.video.example/50000")
        assert billed_behind(lab, beside, flood.halves(FEW_UES * 32), go) > 50_000


def test_a_host_is_found_while_others_begin_flows_and_no_more():
    with flooded(1, MORE_UES, ROOM) as (lab, flood, beside):
        assert billed_behind(lab, beside, flood.syns(MORE_UES * 64), lambda: beside.start("new")) > 50_000
