"""scapy sends PFCP at random, beside a session of another SMF that must not notice. tshark reads all answers in the
end (conftest.py). SLUICE_SEED repeats a run; the seed is in every failure."""
import os
import time

import pytest
from scapy.all import IP, UDP, Raw, bind_layers
from scapy.contrib import pfcp
from scapy.contrib.gtp import GTP_U_Header, GTPPDUSessionContainer
from scapy.contrib.pfcp import (PFCP, IE_ApplyAction, IE_CreateFAR, IE_CreatePDR, IE_CreateQER, IE_CreateURR,
                                IE_DestinationInterface, IE_FAR_Id, IE_ForwardingParameters, IE_FSEID, IE_FTEID,
                                IE_GateStatus, IE_MBR, IE_MeasurementMethod, IE_NetworkInstance, IE_NodeId,
                                IE_OuterHeaderCreation, IE_OuterHeaderRemoval, IE_PDI, IE_PDR_Id, IE_Precedence,
                                IE_QER_Id, IE_QFI, IE_RecoveryTimeStamp, IE_ReportingTriggers, IE_SDF_Filter,
                                IE_SourceInterface, IE_UE_IP_Address, IE_UpdateFAR, IE_UpdateForwardingParameters,
                                IE_UpdatePDR, IE_UpdateQER, IE_URR_Id, IE_VolumeThreshold)

import pfcp_random
from lab import DN, GNB, N3, N4
from pfcp_random import CAUSE, ESTABLISHMENT, MODIFICATION, NOT_FOUND, OFFENDING_IE, Generator, expectation



class PFCPSessionSetModificationResponse(pfcp.PFCPSessionSetDeletionResponse):
    """Of release 17: scapy does not know it."""


bind_layers(PFCP, PFCPSessionSetModificationResponse, message_type=17)

ADDRESS = "127.0.0.9"
BATCHES, BATCH = 50, 50
UE = "10.45.200.1"
PATIENCE = 3


def rules():
    """A session as good as any, and a change of it."""
    instance = lambda name: IE_NetworkInstance(instance=name)
    uplink = IE_PDI(IE_list=[IE_SourceInterface(interface=0), IE_FTEID(CH=1, V4=1), instance("access"),
                             IE_SDF_Filter(FD=1, flow_description=b"permit out ip from any to assigned")])
    downlink = IE_PDI(IE_list=[IE_SourceInterface(interface=1), instance("internet"),
                               IE_UE_IP_Address(SD=1, V4=1, ipv4=UE)])
    tunnel = IE_OuterHeaderCreation(GTPUUDPIPV4=1, TEID=0x77, ipv4=GNB)
    create = [
        IE_NodeId(id_type=0, ipv4=ADDRESS), IE_FSEID(v4=1, seid=1, ipv4=ADDRESS),
        IE_CreatePDR(IE_list=[IE_PDR_Id(id=1), IE_Precedence(precedence=10), uplink, IE_OuterHeaderRemoval(header=0),
                              IE_FAR_Id(id=1), IE_URR_Id(id=1), IE_QER_Id(id=1)]),
        IE_CreatePDR(IE_list=[IE_PDR_Id(id=2), IE_Precedence(precedence=10), downlink, IE_FAR_Id(id=2),
                              IE_URR_Id(id=1), IE_QER_Id(id=1)]),
        IE_CreateFAR(IE_list=[IE_FAR_Id(id=1), IE_ApplyAction(FORW=1), IE_ForwardingParameters(IE_list=[
            IE_DestinationInterface(interface=1), instance("internet")])]),
        IE_CreateFAR(IE_list=[IE_FAR_Id(id=2), IE_ApplyAction(FORW=1), IE_ForwardingParameters(IE_list=[
            IE_DestinationInterface(interface=0), instance("access"), tunnel])]),
        IE_CreateURR(IE_list=[IE_URR_Id(id=1), IE_MeasurementMethod(VOLUM=1),
                              IE_ReportingTriggers(volume_threshold=1), IE_VolumeThreshold(TOVOL=1, total=1 << 30)]),
        IE_CreateQER(IE_list=[IE_QER_Id(id=1), IE_GateStatus(ul=0, dl=0), IE_MBR(ul=1000, dl=1000), IE_QFI(QFI=9)]),
    ]
    update = [
        IE_UpdatePDR(IE_list=[IE_PDR_Id(id=2), downlink, IE_FAR_Id(id=2), IE_QER_Id(id=1)]),
        IE_UpdateFAR(IE_list=[IE_FAR_Id(id=2), IE_ApplyAction(FORW=1), IE_UpdateForwardingParameters(IE_list=[
            IE_DestinationInterface(interface=0), tunnel])]),
        IE_UpdateQER(IE_list=[IE_QER_Id(id=1), IE_GateStatus(ul=0, dl=0)]),
    ]
    return {ESTABLISHMENT: create, MODIFICATION: update}


class Attacker:
    """The peer that sends all this. It has an association and a session of its own."""

    def __init__(self, lab, seed):
        self.lab, self.generator = lab, Generator(seed, rules())
        self.socket = lab.n4_socket(ADDRESS)
        self.recovery = None
        self.associate()
        self.seid = self.establish()

    def exchange(self, raw, answer):
        self.socket.sendto(raw, (N4, 8805))
        while True:
            got = self.socket.recv(65535)
            if got[1] == answer:
                return PFCP(got)

    def good(self, kind, ies, seid=0):
        raw = self.generator.message(kind, ies, seid)
        self.generator.sequence += 1
        at = 12 if raw[0] & 1 else 4
        raw[at:at + 3] = self.generator.sequence.to_bytes(3, "big")
        answer = self.exchange(bytes(raw), kind + 1)
        assert cause_of(answer) == 1, answer.show(dump=True)
        return answer

    def associate(self):
        self.good(pfcp_random.ASSOCIATION_SETUP,
                  [IE_NodeId(id_type=0, ipv4=ADDRESS), IE_RecoveryTimeStamp(timestamp=3_900_000_000)])

    def establish(self):
        answer = self.good(ESTABLISHMENT, rules()[ESTABLISHMENT])
        return next(ie.seid for ie in ies_of(answer) if isinstance(ie, IE_FSEID))

    def batch(self):
        """Sends a batch, gathers all answers, and holds each to what is expected."""
        sent = {}
        for _ in range(BATCH):
            raw, sequence = self.generator.next(self.seid)
            sent[sequence] = raw
            self.socket.sendto(raw, (N4, 8805))
        expected = {sequence: expectation(raw) for sequence, raw in sent.items()}
        awaited = {sequence for sequence, expects in expected.items() if expects.answer and not expects.is_open}
        answers = self._gather(awaited)
        assert not awaited - answers.keys(), \
            f"no answer to {[sent[sequence].hex() for sequence in sorted(awaited - answers.keys())]}"
        for sequence, got in answers.items():
            if sequence in sent:
                assert len(got) == 1, (sent[sequence].hex(), [answer.hex() for answer in got])
                check(sent[sequence], expected[sequence], got[0])

    def _gather(self, awaited):
        """Answers by sequence number, until those awaited are there and nothing more comes."""
        answers, deadline = {}, time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            self.socket.settimeout(PATIENCE if awaited - answers.keys() else 0.05)
            try:
                raw = self.socket.recv(65535)
            except TimeoutError:
                break
            for message in bundled(raw):
                if message[1] not in pfcp_random.MANDATORY and message[1] not in pfcp_random.SENT_BY_UP:
                    answers.setdefault(sequence_of(message), []).append(message)
        self.socket.settimeout(PATIENCE)
        return answers

    def has_its_session(self):
        """Whether the session lives, which a random message may have ended."""
        raw = self.generator.message(MODIFICATION, [], self.seid)
        self.generator.sequence += 1
        raw[12:15] = self.generator.sequence.to_bytes(3, "big")
        return cause_of(self.exchange(bytes(raw), MODIFICATION + 1)) == 1


def bundled(raw):
    while raw:
        length = 4 + int.from_bytes(raw[2:4], "big")
        yield raw[:length]
        raw = raw[length:]


def sequence_of(raw):
    at = 12 if raw[0] & 1 else 4
    return int.from_bytes(raw[at:at + 3], "big")


def ies_of(message):
    return message.payload.IE_list if message.payload else []


def cause_of(message):
    return next((ie.cause for ie in ies_of(message) if ie.ie_type == CAUSE), None)


def check(raw, expects, got):
    """One answer: its type, its causes, and what comes with them."""
    message = PFCP(got)
    said = f"to {raw.hex()}: {got.hex()}"
    assert got[0] >> 5 == 1 and len(got) == 4 + message.length, said
    assert expects.answer is not None, f"an answer where none is due {said}"
    if got[1] == 11 and expects.is_open:
        return
    assert got[1] == expects.answer, said
    if got[1] in (2, 11):
        return
    assert Raw not in message, said
    cause, types = cause_of(message), [ie.ie_type for ie in ies_of(message)]
    allowed = expects.causes or pfcp_random.CAUSES
    assert cause in allowed, f"cause {cause} {said}"
    if cause == 1:
        assert got[1] != ESTABLISHMENT + 1 or pfcp_random.UP_F_SEID in types, said
        return
    assert set(types) <= pfcp_random.IN_REJECTIONS, f"{types} {said}"
    if cause == NOT_FOUND:
        assert message.seid == 0, said
    if got[1] in pfcp_random.NAMES_OFFENDING_IE and cause in pfcp_random.OF_AN_IE:
        assert OFFENDING_IE in types, said
    offending = next((ie.type for ie in ies_of(message) if ie.ie_type == OFFENDING_IE), None)
    present = pfcp_random.tlvs(raw)
    if cause == pfcp_random.MISSING and present is not None and offending in pfcp_random.MANDATORY[raw[1]]:
        assert offending not in present, f"missing is {offending} {said}"


@pytest.fixture(scope="module")
def random_lab(packet_lab):
    packet_lab.associate()
    return packet_lab


class Witness:
    """A session of another SMF, with traffic, that must not notice."""

    def __init__(self, lab):
        self.lab, self.gnb = lab, lab.gnb_socket()
        self.server = lab.dn_udp_socket(DN, 62001)
        self.session = lab.smf.session(ue4="10.45.0.2")
        self.octets = 0

    def is_served(self, number):
        """Packets flow both ways, and another session comes and goes."""
        payload = b"batch %d" % number
        inner = IP(src=self.session["ue_ipv4"], dst=DN) / UDP(sport=61001, dport=62001) / Raw(payload)
        header = GTP_U_Header(teid=self.session["teid"], gtp_type=255, E=1, next_ex=0x85)
        self.gnb.sendto(bytes(header / GTPPDUSessionContainer(type=1, QFI=9) / inner), (N3, 2152))
        data, ue = self.server.recvfrom(65535)
        assert data == payload
        self.server.sendto(payload, ue)
        packet = GTP_U_Header(self.gnb.recv(65535))
        assert (packet.teid, bytes(packet[UDP].payload)) == (self.session["gnb_teid"], payload)
        self.octets += len(inner)
        other = self.lab.smf.session(ue4=f"10.45.1.{number + 1}")
        self.lab.smf("delete", up_seid=other["up_seid"])

    def is_charged(self):
        usage = self.lab.smf("delete", up_seid=self.session["up_seid"])["usage"]
        assert usage == [{"urr": 1, "total": 2 * self.octets, "uplink": self.octets, "downlink": self.octets}]


def test_random_messages_are_answered_by_the_rules_and_do_no_harm(random_lab):
    seed = int(os.environ.get("SLUICE_SEED", "20240917"))
    witness = Witness(random_lab)
    attacker = Attacker(random_lab, seed)
    for number in range(BATCHES):
        try:
            attacker.batch()
            witness.is_served(number)
            if not attacker.has_its_session():
                attacker.associate()
                attacker.seid = attacker.establish()
        except (AssertionError, OSError, RuntimeError) as error:
            alive = random_lab.process.poll() is None
            raise AssertionError(f"SLUICE_SEED={seed}, batch {number}, sluice {'lives' if alive else 'is dead'}") \
                from error
    witness.is_charged()
