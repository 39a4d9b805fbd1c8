"""PFCP messages made by scapy from a seed: of random IEs, of a good session's rules with something changed, and with
octets changed; and what TS 29.244 has a UP function answer to each.

What is expected is read from the octets, by tables of this file: nothing here is shared with Sluice.
"""
import random
import struct
from dataclasses import dataclass

from scapy.contrib import pfcp
from scapy.contrib.pfcp import PFCP, IE_Compound
from scapy.fields import (BitField, BitFieldLenField, ConditionalField, FieldLenField, FieldListField, IP6Field,
                          IPField, MACField, MultipleTypeField, PacketListField, SignedIntField, SignedLongField,
                          StrField)

# §7.3, §7.4, §7.5: requests that a UP function gets, with the IEs that are mandatory in each.
NODE_ID, F_SEID, RECOVERY, CAUSE, OFFENDING_IE, UP_F_SEID = 60, 57, 96, 19, 40, 57
HEARTBEAT, ASSOCIATION_SETUP, ESTABLISHMENT, MODIFICATION, DELETION = 1, 5, 50, 52, 54
MANDATORY = {
    HEARTBEAT: {RECOVERY}, 3: set(), ASSOCIATION_SETUP: {NODE_ID, RECOVERY}, 7: {NODE_ID}, 9: {NODE_ID},
    14: {NODE_ID}, 16: set(), ESTABLISHMENT: {NODE_ID, F_SEID, 1, 3}, MODIFICATION: set(), DELETION: set(),
}
# What it sends itself, and so is not asked.
SENT_BY_UP = {12, 56}
SESSION = range(50, 100)
# §8.2.1
CAUSES = {1, *range(64, 87)}
NOT_FOUND, MISSING, CONDITIONAL_MISSING, BAD_LENGTH, INCORRECT, NO_ASSOCIATION = 65, 66, 67, 68, 69, 72
# Causes of an IE, and the responses whose tables have Offending IE.
OF_AN_IE = {MISSING, CONDITIONAL_MISSING, INCORRECT}
NAMES_OFFENDING_IE = {4, 15, 17, 51, 53, 55}
# §7.6.1: Cause, Node ID, Offending IE, Failed Rule ID, Load and Overload Control, Recovery Time Stamp.
IN_REJECTIONS = {CAUSE, NODE_ID, OFFENDING_IE, 114, 51, 54, RECOVERY}
# Table 8.1.2-1: of the contents of new rules, the IEs that have fixed octets; and the groups in these groups. A null
# length removes something that there is (§5.6.3), and has no place there.
FIXED = {
    1: {56, 29, 95, 108, 81, 109}, 2: {20, 21, 93, 23, 124}, 3: {108, 44, 88}, 4: {42, 84, 30},
    6: {81, 62, 37, 64, 31, 73, 32, 74}, 7: {109, 25, 26, 27, 124},
}
WITHIN = {1: 2, 3: 4}


@dataclass
class Expectation:
    """What comes back: nothing, or one message of `answer` with one of `causes` (all, where it is None)."""
    answer: int | None = None
    causes: set | None = None
    is_open: bool = False  # nothing is right too


def header_length(raw):
    return 16 if raw[0] & 1 else 8


def tlvs(raw):
    """The types of the outermost IEs that are not empty; None where a length leads outside."""
    found, at = [], header_length(raw)
    while at < len(raw):
        if at + 4 > len(raw):
            return None
        kind, length = struct.unpack_from("!HH", raw, at)
        at += 4 + length
        if at > len(raw):
            return None
        if length:
            found.append(kind)
    return found


def members(octets):
    """Type and value of each IE; those behind a length that leads outside are left out."""
    at = 0
    while at + 4 <= len(octets):
        kind, length = struct.unpack_from("!HH", octets, at)
        at += 4 + length
        if at > len(octets):
            return
        yield kind, octets[at - length:at]


def has_null(group, octets):
    """Whether a new rule has a null length where there are octets to be. Of groups in it the first counts (§7.6.10)."""
    found = list(members(octets))
    inner = next((value for kind, value in found if kind == WITHIN.get(group)), b"")
    return any(kind in FIXED[group] and not value for kind, value in found) or (
        group in WITHIN and has_null(WITHIN[group], inner))


def expectation(raw):
    """§7.6, in its order."""
    if len(raw) < 8:
        return Expectation()
    if raw[0] >> 5 != 1:
        # Where another version has its sequence number is not said, unless there is no SEID.
        return Expectation(11, is_open=bool(raw[0] & 1))
    if raw[0] & 4 or len(raw) < header_length(raw):
        # Bundled messages are each their own; a header cut short is none, or one whose length is wrong.
        return Expectation(raw[1] + 1, is_open=True)
    kind = raw[1]
    if kind not in MANDATORY:
        return Expectation()
    has_seid = bool(raw[0] & 1)
    if has_seid != (kind in SESSION):
        return Expectation(kind + 1, is_open=True)
    if struct.unpack_from("!H", raw, 2)[0] != len(raw) - 4:
        # A Heartbeat Response has no Cause to say so.
        return Expectation(kind + 1, {BAD_LENGTH}, is_open=kind == HEARTBEAT)
    if kind == HEARTBEAT:
        return Expectation(kind + 1)
    present = tlvs(raw)
    if present is None:
        return Expectation(kind + 1, CAUSES - {1})
    if MANDATORY[kind] - set(present):
        return Expectation(kind + 1, CAUSES - {1})
    new = [(group, value) for group, value in members(raw[header_length(raw):]) if group in (1, 3, 6, 7)]
    if kind in (ESTABLISHMENT, MODIFICATION) and any(has_null(group, value) for group, value in new):
        return Expectation(kind + 1, CAUSES - {1})
    return Expectation(kind + 1, CAUSES)


class Generator:
    """Everything random in a run, from one seed."""

    def __init__(self, seed, rules):
        self.random = random.Random(seed)
        self.rules = rules  # the good session: its IEs, by message type
        self.classes = [c for c in pfcp.ietypecls.values() if c.ie_type not in (1, 3)]
        self.sequence = 0

    def value(self, field):
        """A random value of a field; None leaves what scapy would put there."""
        rng = self.random
        if isinstance(field, (FieldLenField, BitFieldLenField, MultipleTypeField, PacketListField, FieldListField)):
            return None
        if field.name.startswith("spare") or field.name == "extra_data":
            return None
        if isinstance(field, IPField):
            return ".".join(str(rng.randrange(256)) for _ in range(4))
        if isinstance(field, IP6Field):
            return ":".join(f"{rng.randrange(0x10000):x}" for _ in range(8))
        if isinstance(field, MACField):
            return ":".join(f"{rng.randrange(256):02x}" for _ in range(6))
        if isinstance(field, StrField):
            return rng.randbytes(rng.randrange(12))
        if isinstance(field, BitField):
            return rng.getrandbits(field.size)
        is_signed = isinstance(field, (SignedIntField, SignedLongField))
        return rng.getrandbits(8 * int(field.sz) - is_signed)

    def ie(self, cls, depth=3):
        """An IE of this class that is valid: its lengths and flags fit what it holds, which is random."""
        made = cls()
        if issubclass(cls, IE_Compound):
            members = self.random.randrange(5) if depth else 0
            made.IE_list = [self.any_ie(depth - 1) for _ in range(members)]
            return made
        for field in cls.fields_desc[2:]:
            inner = field.fld if isinstance(field, ConditionalField) else field
            value = self.value(inner)
            if value is not None:
                setattr(made, inner.name, value)
        try:
            bytes(made)
        except Exception:  # scapy cannot write what it would read: what it has by default will do
            return cls()
        return made

    def any_ie(self, depth=3):
        return self.ie(self.random.choice(self.classes), depth)

    def message(self, kind, ies, seid=0):
        is_session = kind in SESSION
        header = PFCP(version=1, S=int(is_session), message_type=kind, seq=0)
        if is_session:
            header.seid = seid
        body = b"".join(bytes(ie) for ie in ies)
        raw = bytearray(bytes(header) + body)
        struct.pack_into("!H", raw, 2, len(raw) - 4)
        return raw

    def random_message(self, seid):
        """Any message of the protocol with random IEs, and more often than not all that it must have."""
        rng = self.random
        kind = rng.choice([*MANDATORY, *MANDATORY, *SENT_BY_UP, *pfcp.PFCPmessageType, rng.randrange(256)])
        ies = [self.any_ie() for _ in range(rng.randrange(7))]
        if rng.random() < 0.7:
            ies += [self.ie(pfcp.ietypecls[wanted]) for wanted in sorted(MANDATORY.get(kind, ()))]
        rng.shuffle(ies)
        return self.message(kind, ies, rng.choice([0, seid, rng.getrandbits(64)]))

    def changed_rules(self, seid):
        """A good session's establishment or modification in which something is missing, double, other, or too much."""
        kind = self.random.choice(list(self.rules))
        ies = [ie.copy() for ie in self.rules[kind]]
        for _ in range(self.random.randint(1, 3)):
            self._change(ies)
        return self.message(kind, ies, 0 if kind == ESTABLISHMENT else seid)

    def _change(self, ies):
        rng = self.random
        while True:
            if not ies:
                ies.append(self.any_ie())
                return
            at = rng.randrange(len(ies))
            if not isinstance(ies[at], IE_Compound) or rng.random() < 0.2:
                break
            ies[at].IE_list = [ie.copy() for ie in ies[at].IE_list]
            ies[at].length = None
            ies = ies[at].IE_list
        match rng.randrange(4):
            case 0:
                del ies[at]
            case 1:
                ies.insert(rng.randrange(len(ies) + 1), ies[at].copy())
            case 2:
                ies[at] = self.ie(type(ies[at]))
            case _:
                ies.insert(at, self.any_ie())

    def mutated(self, raw):
        """A message with octets changed, cut, added, or with its length set right again after any of that."""
        rng = self.random
        for _ in range(rng.randint(1, 4)):
            match rng.randrange(5):
                case 0 | 1 if raw:
                    raw[rng.randrange(len(raw))] = rng.choice([0, 1, 0x7f, 0x80, 0xff, rng.getrandbits(8)])
                case 2 if raw:
                    del raw[rng.randrange(len(raw)):]
                case 3:
                    at = rng.randrange(len(raw) + 1)
                    raw[at:at] = rng.randbytes(rng.randint(1, 8))
                case _ if len(raw) > 16:
                    at = rng.randrange(8, len(raw) - 1)
                    struct.pack_into("!H", raw, at, rng.choice([0, 1, 0xffff, rng.getrandbits(16)]))
        if rng.random() < 0.7 and len(raw) >= 4:
            struct.pack_into("!H", raw, 2, len(raw) - 4)
        return raw

    def next(self, seid):
        """The next message, with a sequence number of its own; `seid` is of a session that lives."""
        rng = self.random
        raw = rng.choice([self.random_message, self.changed_rules])(seid)
        if rng.random() < 0.4:
            raw = self.mutated(raw)
        self.sequence = self.sequence % 0xffffff + 1
        if len(raw) >= 8:
            at = 12 if raw[0] & 1 and len(raw) >= 16 else 4
            raw[at:at + 3] = self.sequence.to_bytes(3, "big")
        return bytes(raw), self.sequence
