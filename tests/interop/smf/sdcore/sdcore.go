// Package sdcore speaks PFCP as the SMF of SD-Core does: CHOOSE and nothing else, network instances of length zero, the
// N6-LAN where others say core, S/D left 0, FARs that drop until the gNB is known, no URR and no BAR.
package sdcore

import (
	"fmt"

	"github.com/wmnsk/go-pfcp/ie"
	"github.com/wmnsk/go-pfcp/message"

	"sluice/interop/smf"
)

const (
	uplinkPDR, downlinkPDR = 1, 2
	uplinkFAR, downlinkFAR = 1, 2
	ruleQER, sessionQER    = 1, 2
	precedence             = 255
	sessionQFI             = 9
	rateKbps               = 1_000_000
	deletionPriority       = 12
	discardBuffered        = 0x01 // DROBU of PFCPSRRsp-Flags
)

// SMF is an SMF of SD-Core.
type SMF struct {
	client *smf.Client
	gnbs   map[uint64]smf.Tunnel
	inVain chan bool // holds whether paging fails
}

// New gives an SMF.
func New(client *smf.Client) *SMF {
	s := &SMF{client: client, gnbs: map[uint64]smf.Tunnel{}, inVain: make(chan bool, 1)}
	s.inVain <- false
	client.AnswerReport = s.answerReport
	client.AnswerSetup = s.answerSetup
	return s
}

// answerReport: the flags are there even when they say nothing.
func (s *SMF) answerReport(smf.Report) []*ie.IE {
	inVain := <-s.inVain
	s.inVain <- inVain
	if inVain {
		return []*ie.IE{ie.NewPFCPSRRspFlags(discardBuffered)}
	}
	return []*ie.IE{ie.NewPFCPSRRspFlags(0)}
}

// answerSetup has the sequence number 1, whatever that of the request.
func (s *SMF) answerSetup() *message.AssociationSetupResponse {
	return message.NewAssociationSetupResponse(1, s.client.Node(), ie.NewCause(ie.CauseRequestAccepted),
		s.client.Recovery(), ie.NewCPFunctionFeatures(0))
}

// PageInVain has downlink packets that wait discarded with the answer to the next reports.
func (s *SMF) PageInVain(vain bool) {
	<-s.inVain
	s.inVain <- vain
}

// Associate sets the association up.
func (s *SMF) Associate() error {
	_, err := s.client.Associate()
	return err
}

func dnn() *ie.IE { return ie.NewNetworkInstance("internet") }

// unset is a network instance that is not configured.
func unset() *ie.IE { return ie.New(ie.NetworkInstance, []byte{}) }

func rule() *ie.IE {
	return ie.NewSDFFilter("permit out ip from any to assigned", "", "", "", 0)
}

// Anchor and Intermediate are variants of an SMF with two UPFs on the path: this one is the last, or the first.
const (
	Anchor       = "anchor"
	Intermediate = "intermediate"
	// Pooled leaves the UE's address to the UPF, as the SMF does with each UPF that has UEIP.
	Pooled = "pooled"
)

// address of the UE is no destination even on the downlink; an address that the UPF chooses is CHV4 and nothing else.
func address(ue smf.UE) *ie.IE {
	if ue.Variant == Pooled {
		return ie.NewUEIPAddress(0x10, "", "", 0, 0)
	}
	return ie.NewUEIPAddress(0x02, ue.IPv4, "", 0, 0)
}

// uplinkTo is the N6-LAN, or the next UPF by N9: then Core, with the DNN as network instance there, too.
func uplinkTo(ue smf.UE) *ie.IE {
	if ue.Variant == Intermediate {
		return ie.NewForwardingParameters(ie.NewDestinationInterface(ie.DstInterfaceCore), dnn(),
			ue.Next.OuterHeaderCreation())
	}
	return ie.NewForwardingParameters(ie.NewDestinationInterface(ie.DstInterfaceSGiLANN6LAN), dnn())
}

// createDownlinkFAR drops, or waits with the tunnel to the UPF before on N9.
func createDownlinkFAR(ue smf.UE) *ie.IE {
	if ue.Variant == Anchor {
		return ie.NewCreateFAR(ie.NewFARID(downlinkFAR), ie.NewApplyAction(smf.Buffer|smf.NotifyCP),
			ie.NewForwardingParameters(ie.NewDestinationInterface(ie.DstInterfaceAccess), unset(),
				ue.Next.OuterHeaderCreation()))
	}
	return ie.NewCreateFAR(ie.NewFARID(downlinkFAR), ie.NewApplyAction(smf.Drop))
}

// downlink has no F-TEID even where it comes by N9: there its network instance is empty, and the outer header goes.
func downlink(ue smf.UE) []*ie.IE {
	if ue.Variant == Intermediate {
		return []*ie.IE{ie.NewPDI(ie.NewSourceInterface(ie.SrcInterfaceCore), unset(), address(ue), rule()),
			ie.NewOuterHeaderRemoval(0, 0)}
	}
	return []*ie.IE{ie.NewPDI(ie.NewSourceInterface(ie.SrcInterfaceCore), dnn(), address(ue), rule())}
}

// Establish gives up without an F-TEID of the UPF, and without a UE address where the UPF is to choose it.
func (s *SMF) Establish(seid uint64, ue smf.UE) (map[uint16]smf.Tunnel, error) {
	createDownlink := append([]*ie.IE{ie.NewPDRID(downlinkPDR), ie.NewPrecedence(precedence)}, downlink(ue)...)
	tunnels, err := s.client.Begin(seid,
		s.client.Node(), s.client.FSEID(seid),
		ie.NewCreatePDR(ie.NewPDRID(uplinkPDR), ie.NewPrecedence(precedence),
			ie.NewPDI(ie.NewSourceInterface(ie.SrcInterfaceAccess), ie.NewFTEID(smf.FTEIDChoose, 0, nil, nil, 0), dnn(),
				address(ue), rule()),
			ie.NewOuterHeaderRemoval(0, 0), ie.NewFARID(uplinkFAR), ie.NewQERID(ruleQER), ie.NewQERID(sessionQER)),
		ie.NewCreatePDR(append(createDownlink, ie.NewFARID(downlinkFAR), ie.NewQERID(ruleQER),
			ie.NewQERID(sessionQER))...),
		ie.NewCreateFAR(ie.NewFARID(uplinkFAR), ie.NewApplyAction(smf.Forward), uplinkTo(ue)),
		createDownlinkFAR(ue),
		ie.NewCreateQER(ie.NewQERID(ruleQER), gates(false), ie.NewMBR(rateKbps, rateKbps), ie.NewGBR(0, 0),
			ie.NewQFI(sessionQFI)),
		ie.NewCreateQER(ie.NewQERID(sessionQER), gates(false), ie.NewMBR(rateKbps, rateKbps), ie.NewQFI(sessionQFI)),
		ie.NewPDNType(ie.PDNTypeIPv4))
	if err == nil && tunnels[uplinkPDR].TEID == 0 {
		err = fmt.Errorf("no F-TEID in Created PDR: %v", tunnels)
	}
	if err == nil && ue.Variant == Pooled && s.client.Address(seid) == "" {
		err = fmt.Errorf("no UE IP Address in Created PDR: %v", tunnels)
	}
	return tunnels, err
}

func gates(closed bool) *ie.IE {
	if closed {
		return ie.NewGateStatus(ie.GateStatusClosed, ie.GateStatusClosed)
	}
	return ie.NewGateStatus(ie.GateStatusOpen, ie.GateStatusOpen)
}

func (s *SMF) update(seid uint64, action, flags uint8) error {
	parameters := []*ie.IE{
		ie.NewDestinationInterface(ie.DstInterfaceAccess), unset(), s.gnbs[seid].OuterHeaderCreation(),
	}
	if flags != 0 {
		parameters = append(parameters, ie.NewPFCPSMReqFlags(flags))
	}
	_, err := s.client.Change(seid, ie.NewUpdateFAR(ie.NewFARID(downlinkFAR), ie.NewApplyAction(action),
		ie.NewUpdateForwardingParameters(parameters...)))
	return err
}

// Activate points the downlink at the gNB.
func (s *SMF) Activate(seid uint64, gnb smf.Tunnel) error {
	s.gnbs[seid] = gnb
	return s.update(seid, smf.Forward, 0)
}

// Handover does too, and has the old tunnel ended by a flag within the forwarding parameters.
func (s *SMF) Handover(seid uint64, gnb smf.Tunnel) error {
	s.gnbs[seid] = gnb
	return s.update(seid, smf.Forward, smf.SendEndMarker)
}

// Idle has forwarding parameters although nothing is forwarded.
func (s *SMF) Idle(seid uint64) error { return s.update(seid, smf.Buffer|smf.NotifyCP, 0) }

// Gate closes or opens the gates of the PCC rule's QER.
func (s *SMF) Gate(seid uint64, closed bool) error {
	_, err := s.client.Change(seid, ie.NewUpdateQER(ie.NewQERID(ruleQER), gates(closed), ie.NewMBR(rateKbps, rateKbps),
		ie.NewQFI(sessionQFI)))
	return err
}

// Delete has a message priority, and the F-SEID again.
func (s *SMF) Delete(seid uint64) error {
	return s.client.End(seid, 1, deletionPriority, s.client.FSEID(seid))
}
