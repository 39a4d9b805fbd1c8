"""Usage that follows on a Session Deletion Response outlives a kill -9: it comes again, in the same octets, until it is
acknowledged."""
import os
import signal
import struct
import time

import pytest

from lab import N4, Lab
from test_store import STORE

SMF = "127.0.0.9"
SETUP, ESTABLISHMENT, DELETION, REPORT, REPORT_RESPONSE = 5, 50, 54, 56, 57
ACCEPTED, MORE_TO_SEND = 1, 2
URRS = 40
IN_RESPONSE = 32


def ie(kind, value):
    return struct.pack("!HH", kind, len(value)) + value


def group(kind, *members):
    return ie(kind, b"".join(members))


def number(kind, value, octets=4):
    return ie(kind, value.to_bytes(octets, "big"))


def message(kind, sequence, *ies, seid=None):
    body = sequence.to_bytes(3, "big") + b"\0" + b"".join(ies)
    if seid is not None:
        body = seid.to_bytes(8, "big") + body
    return struct.pack("!BBH", 0x20 if seid is None else 0x21, kind, len(body)) + body


def read(octets):
    """Type, sequence number, and the IEs."""
    at = 16 if octets[0] & 1 else 8
    ies, kind, sequence = [], octets[1], int.from_bytes(octets[at - 4:at - 1], "big")
    while at < len(octets):
        what, length = struct.unpack_from("!HH", octets, at)
        ies.append((what, octets[at + 4:at + 4 + length]))
        at += 4 + length
    return kind, sequence, ies


class Peer:
    """An SMF that takes usage after a deletion (ARDR), and acknowledges nothing by itself."""

    def __init__(self, lab):
        self.socket = lab.n4_socket(SMF)
        self.sequence = 0
        self.node = ie(60, b"\0" + bytes(map(int, SMF.split("."))))

    def send(self, octets):
        self.socket.sendto(octets, (N4, 8805))

    def receive(self, wanted):
        """The next message of this type; heartbeats are answered meanwhile."""
        until = time.monotonic() + 20
        self.socket.settimeout(5)
        while time.monotonic() < until:
            octets = self.socket.recv(65_535)
            kind, sequence, ies = read(octets)
            if kind == 1:
                self.send(message(2, sequence, number(96, 3_900_000_000)))
            elif kind == wanted:
                return octets, sequence, ies
        raise AssertionError(f"no message of type {wanted}")

    def ask(self, kind, *ies, seid=None):
        self.sequence += 1
        self.send(message(kind, self.sequence, *ies, seid=seid))
        _, sequence, got = self.receive(kind + 1)
        assert sequence == self.sequence
        return got

    def associate(self):
        got = dict(self.ask(SETUP, self.node, number(96, 3_900_000_000), ie(89, bytes([0x40]))))
        assert got[19] == bytes([ACCEPTED]), got

    def establish(self):
        address = bytes(map(int, SMF.split(".")))
        urrs = [group(6, number(81, urr), ie(62, b"\x02"), ie(37, b"\x02\0\0")) for urr in range(1, URRS + 1)]
        uplink = group(
            1, number(56, 1, 2), number(29, 100),
            group(2, ie(20, b"\0"), ie(21, b"\x05"), ie(22, b"access")),
            ie(95, b"\0"), number(108, 1), *[number(81, urr) for urr in range(1, URRS + 1)])
        far = group(3, number(108, 1), ie(44, b"\x02"), group(4, ie(42, b"\x01"), ie(22, b"internet")))
        cp = ie(57, b"\x02" + (77).to_bytes(8, "big") + address)
        got = dict(self.ask(ESTABLISHMENT, self.node, cp, uplink, far, *urrs, seid=0))
        assert got[19] == bytes([ACCEPTED]), got
        return int.from_bytes(got[57][1:9], "big")

    def acknowledge(self, sequence):
        self.send(message(REPORT_RESPONSE, sequence, ie(19, bytes([ACCEPTED])), seid=0))


@pytest.fixture
def lab():
    made = Lab(os.environ["SLUICE"], "af_packet", workers=1, configuration=STORE)
    yield made
    made.close()


def kill(lab):
    lab.process.send_signal(signal.SIGKILL)
    lab.process.wait(15)
    lab._start(os.environ["SLUICE"])


def test_usage_that_follows_on_a_deletion_comes_again_after_a_kill(lab):
    smf = Peer(lab)
    smf.associate()
    seid = smf.establish()
    got = smf.ask(DELETION, seid=seid)
    assert dict(got)[19] == bytes([MORE_TO_SEND]), got
    assert sum(kind == 79 for kind, _ in got) == IN_RESPONSE
    first, _, ies = smf.receive(REPORT)
    assert sum(kind == 80 for kind, _ in ies) == URRS - IN_RESPONSE
    for _ in range(2):
        kill(lab)
        again, sequence, _ = smf.receive(REPORT)
        assert again == first
    smf.acknowledge(sequence)
    # The acknowledgement is durable before long; then nothing is left of the session.
    time.sleep(1)
    kill(lab)
    smf.socket.settimeout(4)
    with pytest.raises((TimeoutError, AssertionError)):
        smf.receive(REPORT)
