"""Control planes of recorded networks: their requests, replayed to `sluice run` as they came, get the answers of then.

`recordings` holds what the repository has. Captures of real networks are not part of it: they are looked for where
SLUICE_PCAP points, else in `../shared/data/pcap` beside the checkout, and replayed too where there are any. With
`CI=true` it is an error that there are none."""
import contextlib
import os
import pathlib
import re
import socket
import subprocess
import sys
import time

from scapy.all import IP, UDP, PcapReader
from scapy.contrib.pfcp import PFCP, IE_Cause, IE_FSEID

from lab import N4, Namespace

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE / "recordings"))
import make  # noqa: E402

CAPTURES = pathlib.Path(os.environ.get("SLUICE_PCAP", HERE.parents[2] / "shared/data/pcap"))
ESTABLISHMENT = 50
REQUESTS = {1, 3, 5, 7, 9, 14, 16, 50, 52, 54}

CONFIGURATION = """
node: {{id: {n4}}}
n4: {{addresses: [{n4}], accept_cp_f_teids: true, release_wait_s: 0, unknown_source_s: 0, unverified_percent: 100}}
ports:
  - {{name: tunnels, driver: {{memory: {{}}}}}}
  - {{name: dn, driver: {{memory: {{}}}}}}
instances:
  - {{name: tunnels, roles: [n3, n9], port: tunnels, addresses: ["{tunnels}/24", "2001:db8:127::{host}/64"]}}
  - name: internet
    roles: [n6]
    port: dn
    addresses: [10.200.0.1/24, "2001:db8:6::1/64"]
    routes: [{{to: 0.0.0.0/0, via: 10.200.0.254}}, {{to: "::/0", via: "2001:db8:6::254"}}]
"""


def files():
    """Those of the repository, and captures beside it."""
    captured = sorted(CAPTURES.glob("*.pcapng"))
    if not captured:
        absent = f"no captures in {CAPTURES}: SLUICE_PCAP names the folder"
        assert os.environ.get("CI") != "true", absent
        print(f"{absent}; only those of the repository are replayed")
    return sorted((HERE / "recordings").glob("*.pcap")) + captured


def messages(file):
    """The PFCP messages of a capture: from, to, octets."""
    with PcapReader(str(file)) as packets:
        for packet in packets:
            if IP in packet and UDP in packet and 8805 in (packet[UDP].sport, packet[UDP].dport):
                yield packet[IP].src, packet[IP].dst, bytearray(bytes(packet[UDP].payload))


LOOPBACK6 = socket.inet_pton(socket.AF_INET6, "::1")
OUR_TUNNEL = re.compile(rb"\x00\x15\x00\x19\x03.{8}" + re.escape(LOOPBACK6), re.DOTALL)


def off_loopback(raw, host):
    """Some captures are of one machine whose parts have addresses 127.0.0.x and ::1. No tunnel may lead there."""
    ours, theirs = (socket.inet_pton(socket.AF_INET6, f"2001:db8:127::{end}") for end in (host, "ffff"))
    raw = OUR_TUNNEL.sub(lambda f_teid: f_teid[0][:-16] + ours, bytes(raw)).replace(LOOPBACK6, theirs)
    return bytearray(raw.replace(b"\x7f\x00\x00", b"\x0a\x7f\x00"))


def one_prefix_each(raw):
    """Some give UEs the addresses cafe::2, cafe::3 and so on, all of one /64, which is one UE's (TS 29.244 §8.2.62):
    here they become cafe:0:0:2:: and so on."""
    start = b"\xca\xfe" + bytes(12)
    at = raw.find(start)
    while at >= 0:
        raw[at:at + 16] = b"\xca\xfe\0\0\0\0" + raw[at + 14:at + 16] + bytes(8)
        at = raw.find(start, at + 16)
    return raw


class UserPlane:
    """`sluice run` in the place of a recorded user plane."""

    def __init__(self, stack, files, address):
        self.host = host = address.split(".")[-1]
        self.namespace = Namespace(f"rec{host}")
        stack.callback(self.namespace.close)
        config, log = files / f"{host}.yaml", files / f"{host}.log"
        config.write_text(CONFIGURATION.format(n4=N4, tunnels=f"10.127.0.{host}", host=host))
        process = self.namespace.popen(os.environ["SLUICE"], "run", "-c", str(config), stdout=subprocess.DEVNULL,
                                       stderr=stack.enter_context(log.open("w")))
        stack.callback(process.wait, 15)
        stack.callback(process.terminate)
        deadline = time.monotonic() + 30
        while "ready" not in log.read_text():
            assert process.poll() is None and time.monotonic() < deadline, log.read_text()
            time.sleep(0.05)
        self.stack, self.sockets, self.seids, self.requests = stack, {}, {}, {}

    def _socket(self, address):
        if address not in self.sockets:
            with self.namespace.entered():
                sock = self.stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
                sock.bind((address, 8805))
            sock.settimeout(5)
            self.sockets[address] = sock
        return self.sockets[address]

    def ask(self, source, raw):
        """Replays a request, and keeps the answer by its sequence number."""
        recorded = PFCP(bytes(raw))
        raw = off_loopback(one_prefix_each(raw), self.host)
        if recorded.seid in self.seids:
            raw[4:12] = self.seids[recorded.seid].to_bytes(8, "big")
        sock = self._socket(source)
        sock.sendto(raw, (N4, 8805))
        while True:
            answer = PFCP(sock.recv(65535))
            if (answer.message_type, answer.seq) == (recorded.message_type + 1, recorded.seq):
                self.requests[source, recorded.seq] = answer
                return

    def recorded_answer(self, to, raw):
        """What was answered then: the same now, but for the SEID."""
        recorded = PFCP(bytes(raw))
        answer = self.requests.pop((to, recorded.seq), None)
        if answer is None:
            return
        assert (answer.message_type, value(answer, IE_Cause, "cause")) == \
            (recorded.message_type, value(recorded, IE_Cause, "cause")), answer.show(dump=True)
        if recorded.message_type == ESTABLISHMENT + 1:
            self.seids[value(recorded, IE_FSEID, "seid")] = value(answer, IE_FSEID, "seid")


def value(message, ie, field):
    return next((getattr(found, field) for found in message.payload.IE_list if isinstance(found, ie)), None)


def replay(file, folder):
    """How many requests were answered as they were recorded."""
    recorded = list(messages(file))
    user_planes = {to for _, to, raw in recorded if raw[1] == ESTABLISHMENT}
    answered = 0
    with contextlib.ExitStack() as stack:
        ours = {address: UserPlane(stack, folder, address) for address in sorted(user_planes)}
        for source, to, raw in recorded:
            if to in ours and raw[1] in REQUESTS:
                ours[to].ask(source, raw)
                answered += 1
            elif source in ours and raw[1] - 1 in REQUESTS:
                ours[source].recorded_answer(to, raw)
    return answered


def test_recorded_control_planes_are_served(tmp_path):
    for number, file in enumerate(files()):
        folder = tmp_path / str(number)
        folder.mkdir()
        answered = replay(file, folder)
        print(f"{file.name}: {answered} requests answered as recorded")
        assert answered or file.parent == CAPTURES, file


def test_the_recordings_are_what_their_script_makes():
    for name, datagrams in make.recordings().items():
        kept = [(source, to, bytes(raw)) for source, to, raw in messages(HERE / "recordings" / name)]
        assert kept == [(d[IP].src, d[IP].dst, bytes(d[UDP].payload)) for d in datagrams], name
