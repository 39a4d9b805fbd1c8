"""Numbered packets to a UE whose rate is shaped: what was lost, reordered or too early, by its gNB's kernel and its clock."""
import socket
import struct
import threading
import time

from lab import DN
from test_egress import KBIT

SO_TIMESTAMPNS = 35
# Octets of an IP packet of the stream, and of its headers.
LENGTH, HEADERS = 1000, 28
# What a rate may let pass at once: 50 ms of it, and a packet that began within it.
BURST = KBIT * 1000 // 8 // 20 + 2 * LENGTH
# What waits in one queue at most.
QUEUE = 262_144
# Packets that the stream begins with: half a queue.
AHEAD = QUEUE // LENGTH // 2
PORT = 41000


class Stream:
    """Numbered packets to a UE, some at once and then at a rate, so that packets wait all the time; and what its gNB
    gets of them: (number, seconds of the kernel's clock)."""

    def __init__(self, lab, gnb, session, kbit=KBIT):
        self.gnb, self.ue, self.kbit = gnb, session["ue_ipv4"], kbit
        self.server = lab.dn_udp_socket(DN, 0)
        self.sent, self.got = 0, []
        gnb.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        gnb.settimeout(0.2)
        self.over, self.ended = threading.Event(), threading.Event()
        self.receiver = threading.Thread(target=self._receive)
        self.sender = threading.Thread(target=self._send)

    def _receive(self):
        while not self.ended.is_set():
            try:
                datagram, more, _, _ = self.gnb.recvmsg(2048, 128)
            except TimeoutError:
                continue
            [seconds, nanos] = next(struct.unpack("qq", data) for _, kind, data in more if kind == SO_TIMESTAMPNS)
            number = struct.unpack("!I", datagram[-4:])[0]
            self.got.append((number, seconds + nanos / 1e9))

    def _send(self):
        begin = time.monotonic()
        while not self.over.is_set():
            due = AHEAD + int((time.monotonic() - begin) * self.kbit * 1000 / 8 / LENGTH)
            while self.sent < due:
                payload = bytes(LENGTH - HEADERS - 4) + struct.pack("!I", self.sent)
                self.server.sendto(payload, (self.ue, PORT))
                self.sent += 1
            time.sleep(0.002)

    def end(self):
        """No more is sent."""
        self.over.set()
        self.sender.join()

    def __enter__(self):
        self.receiver.start()
        self.sender.start()
        return self

    def __exit__(self, *_):
        self.end()
        self.ended.set()
        self.receiver.join()
        self.server.close()

    def assert_shaped(self, got):
        """No more came in any time than the rate and a burst, and what a busy machine may keep a thread from its core between
        the decision that a packet leaves and its way out."""
        late = 0.1
        first = got[0][1]
        # The most that any span from an earlier packet has is found by the lowest line so far.
        lowest = 0.0
        for count, (_, at) in enumerate(got):
            line = count * LENGTH - (at - first) * KBIT * 1000 / 8
            lowest = min(lowest, line)
            assert line - lowest <= BURST + late * KBIT * 1000 / 8, f"packet {count}, {at - first:.3f} s"


def charged(lab, session):
    return sum(report["downlink"] for report in lab.smf("delete", up_seid=session["up_seid"])["usage"])
