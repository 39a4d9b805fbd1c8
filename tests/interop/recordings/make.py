"""Writes sxa-sxb.pcap and n4.pcap: PFCP between a 4G core's control and user planes, and between an SMF and a UPF, in
the words of Open5GS where it chooses TEIDs itself. Made by scapy, seen on no network.

    .venv/bin/python tests/interop/recordings/make.py
"""
import pathlib

from scapy.all import IP, UDP, wrpcap
from scapy.contrib.pfcp import (PFCP, IE_ApplyAction, IE_Cause, IE_CPFunctionFeatures, IE_Create_BAR, IE_CreatedPDR,
                                IE_CreateFAR, IE_CreatePDR, IE_CreateQER, IE_DestinationInterface, IE_FAR_Id,
                                IE_ForwardingParameters, IE_FSEID, IE_FTEID, IE_GateStatus, IE_MBR, IE_NetworkInstance,
                                IE_NodeId, IE_OuterHeaderCreation, IE_OuterHeaderRemoval, IE_PDI, IE_PDNType,
                                IE_PDR_Id, IE_Precedence, IE_QER_Id, IE_QFI, IE_RecoveryTimeStamp, IE_SourceInterface,
                                IE_UE_IP_Address, IE_UpdateFAR, IE_UpdateForwardingParameters,
                                PFCPAssociationReleaseRequest, PFCPAssociationReleaseResponse,
                                PFCPAssociationSetupRequest, PFCPAssociationSetupResponse, PFCPHeartbeatRequest,
                                PFCPHeartbeatResponse, PFCPSessionDeletionRequest, PFCPSessionDeletionResponse,
                                PFCPSessionEstablishmentRequest, PFCPSessionEstablishmentResponse,
                                PFCPSessionModificationRequest, PFCPSessionModificationResponse, IE_BAR_Id)

FOLDER = pathlib.Path(__file__).parent
ACCESS, CORE = 0, 1
ANY_IP, LOWEST = 6, 0xFFFFFFFF
STARTED = 3_900_000_000


class Recording:
    """The datagrams between a control plane and a user plane; `user` is also where the user plane has its tunnels."""

    def __init__(self, control, user):
        self.control, self.user, self.tunnels = f"127.0.0.{control}", f"127.0.0.{user}", f"10.127.0.{user}"
        self.sequence, self.datagrams = 0, []

    def exchange(self, request, response, asked=None, answered=None):
        """A request and its response; `asked` and `answered` are their SEIDs, where they have one."""
        self.sequence += 1
        for source, to, body, seid in ((self.control, self.user, request, asked),
                                       (self.user, self.control, response, answered)):
            header = PFCP(S=int(seid is not None), seid=seid, seq=self.sequence)
            datagram = IP(src=source, dst=to, id=0) / UDP(sport=8805, dport=8805) / header / body
            datagram.time = len(self.datagrams) / 1000
            self.datagrams.append(datagram)

    def node(self):
        return IE_NodeId(id_type=0, ipv4=self.control)

    def accepted(self, *more):
        return [IE_NodeId(id_type=0, ipv4=self.user), IE_Cause(cause=1), *more]

    def associate(self):
        started = IE_RecoveryTimeStamp(timestamp=STARTED)
        self.exchange(PFCPAssociationSetupRequest(IE_list=[self.node(), started, IE_CPFunctionFeatures()]),
                      PFCPAssociationSetupResponse(IE_list=self.accepted(started)))
        self.exchange(PFCPHeartbeatRequest(IE_list=[started]), PFCPHeartbeatResponse(IE_list=[started]))

    def release(self):
        self.exchange(PFCPAssociationReleaseRequest(IE_list=[self.node()]),
                      PFCPAssociationReleaseResponse(IE_list=self.accepted()))

    def establish(self, seid, *ies):
        ours = IE_FSEID(v4=1, seid=seid, ipv4=self.control)
        theirs = IE_FSEID(v4=1, seid=0x100 + seid, ipv4=self.user)
        created = [IE_CreatedPDR(IE_list=[IE_PDR_Id(id=number)]) for number in (1, 2)]
        self.exchange(PFCPSessionEstablishmentRequest(IE_list=[self.node(), ours, *ies]),
                      PFCPSessionEstablishmentResponse(IE_list=self.accepted(theirs, *created)), 0, seid)

    def modify(self, seid, *ies):
        self.exchange(PFCPSessionModificationRequest(IE_list=list(ies)),
                      PFCPSessionModificationResponse(IE_list=[IE_Cause(cause=1)]), 0x100 + seid, seid)

    def delete(self, seid):
        self.exchange(PFCPSessionDeletionRequest(IE_list=[]),
                      PFCPSessionDeletionResponse(IE_list=[IE_Cause(cause=1)]), 0x100 + seid, seid)

    def f_teid(self, teid):
        return IE_FTEID(V4=1, TEID=teid, ipv4=self.tunnels)


def dnn():
    return IE_NetworkInstance(instance="internet")


def pdr(number, *ies):
    return IE_CreatePDR(IE_list=[IE_PDR_Id(id=number), *ies])


def far(number, destination, *parameters, **action):
    return IE_CreateFAR(IE_list=[IE_FAR_Id(id=number), IE_ApplyAction(**(action or {"FORW": 1})),
                                 IE_ForwardingParameters(IE_list=[IE_DestinationInterface(interface=destination),
                                                                  *parameters])])


def tunnel(teid, host):
    return IE_OuterHeaderCreation(GTPUUDPIPV4=1, TEID=teid, ipv4=f"10.127.0.{host}")


def tunnel_of_both(teid, host):
    return IE_OuterHeaderCreation(GTPUUDPIPV4=1, GTPUUDPIPV6=1, TEID=teid, ipv4=f"10.127.0.{host}",
                                  ipv6=f"2001:db8:127::{host}")


def towards(number, header, **action):
    actions = [IE_ApplyAction(**action)] if action else []
    return IE_UpdateFAR(IE_list=[IE_FAR_Id(id=number), *actions, IE_UpdateForwardingParameters(IE_list=[header])])


def idle(number):
    return IE_UpdateFAR(IE_list=[IE_FAR_Id(id=number), IE_ApplyAction(BUFF=1, NOCP=1)])


def ue_address(number):
    return IE_UE_IP_Address(SD=1, V4=1, V6=1, ipv4=f"10.45.0.{number}", ipv6=f"2001:db8:45:{number}::")


def qer(*more):
    return IE_CreateQER(IE_list=[IE_QER_Id(id=1), IE_GateStatus(), IE_MBR(ul=1_024_000, dl=1_024_000), *more])


def sgw(sgw_u):
    """Sxa: two tunnels, no Precedence, no tunnel to lead into until modifications name the eNB and the PGW-U."""
    sgw_u.associate()
    for seid in (1, 2):
        sides = [pdr(number, IE_PDI(IE_list=[IE_SourceInterface(interface=side), sgw_u.f_teid(2 * seid + number), dnn()]),
                     IE_OuterHeaderRemoval(header=ANY_IP), IE_FAR_Id(id=number))
                 for number, side in ((1, CORE), (2, ACCESS))]
        sgw_u.establish(seid, *sides, far(1, ACCESS), far(2, CORE), IE_PDNType(pdn_type=3))
        sgw_u.modify(seid, towards(2, tunnel_of_both(seid, 7)))
        sgw_u.modify(seid, towards(1, tunnel(0x100 + seid, 2)))
    sgw_u.modify(1, idle(1))
    sgw_u.modify(1, towards(1, tunnel(0x200, 2), FORW=1))
    for seid in (1, 2):
        sgw_u.delete(seid)
    sgw_u.release()


def pgw(pgw_u):
    """Sxb: between a tunnel and the data network, with one QER."""
    pgw_u.associate()
    for seid in (1, 2):
        pgw_u.establish(
            seid,
            pdr(1, IE_Precedence(precedence=LOWEST),
                IE_PDI(IE_list=[IE_SourceInterface(interface=CORE), dnn(), ue_address(seid)]),
                IE_FAR_Id(id=1), IE_QER_Id(id=1)),
            pdr(2, IE_Precedence(precedence=LOWEST),
                IE_PDI(IE_list=[IE_SourceInterface(interface=ACCESS), pgw_u.f_teid(seid), dnn()]),
                IE_OuterHeaderRemoval(header=ANY_IP), IE_FAR_Id(id=2), IE_QER_Id(id=1)),
            far(1, ACCESS, tunnel(2 * seid + 1, 6)), far(2, CORE), qer(), IE_PDNType(pdn_type=3))
    for seid in (1, 2):
        pgw_u.delete(seid)
    pgw_u.release()


def smf(upf):
    """N4: the downlink gets its tunnel, goes idle, and gets another."""
    upf.associate()
    for seid in (1, 2):
        upf.establish(
            seid,
            pdr(1, IE_Precedence(precedence=LOWEST),
                IE_PDI(IE_list=[IE_SourceInterface(interface=CORE), dnn(), ue_address(seid)]),
                IE_FAR_Id(id=1), IE_QER_Id(id=1)),
            pdr(2, IE_Precedence(precedence=LOWEST),
                IE_PDI(IE_list=[IE_SourceInterface(interface=ACCESS), upf.f_teid(seid), dnn(), IE_QFI(QFI=1)]),
                IE_OuterHeaderRemoval(header=ANY_IP), IE_FAR_Id(id=2), IE_QER_Id(id=1)),
            far(1, ACCESS), far(2, CORE), qer(IE_QFI(QFI=1)), IE_Create_BAR(IE_list=[IE_BAR_Id(id=1)]),
            IE_PDNType(pdn_type=3))
        upf.modify(seid, towards(1, tunnel(0x100 + seid, 2)))
    upf.modify(2, idle(1))
    upf.modify(2, towards(1, tunnel(0x200, 2), FORW=1))
    for seid in (1, 2):
        upf.delete(seid)
    upf.release()


def recordings():
    """What the files hold, by name."""
    sgw_u, pgw_u, upf = Recording(3, 6), Recording(4, 7), Recording(4, 7)
    for make, recording in ((sgw, sgw_u), (pgw, pgw_u), (smf, upf)):
        make(recording)
    return {"sxa-sxb.pcap": sgw_u.datagrams + pgw_u.datagrams, "n4.pcap": upf.datagrams}


if __name__ == "__main__":
    for name, datagrams in recordings().items():
        wrpcap(str(FOLDER / name), datagrams)
