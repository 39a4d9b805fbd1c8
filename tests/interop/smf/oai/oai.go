// Package oai speaks PFCP as the SMF of OpenAirInterface does: the uplink first and the downlink by modification, a PDR
// that leads to a FAR made earlier, a QER for each direction, thresholds of 1,000 octets, a rule of its own for paging.
package oai

import (
	"fmt"
	"time"

	"github.com/wmnsk/go-pfcp/ie"

	"sluice/interop/smf"
)

// Named is the variant of an SMF whose configuration names a network instance for each interface, and that sets the
// downlink up with the session, to drop until the gNB is known.
const Named = "named"

const (
	uplinkPDR, downlinkPDR, pagingPDR = 1, 2, 3
	uplinkFAR, downlinkFAR, pagingFAR = 1, 2, 3
	uplinkQER, downlinkQER            = 1, 2
	sessionURR                        = 1
	first, second                     = 0, 10 // precedence
	sessionQFI                        = 9
	rateKbps                          = 1_000_000
	chooseID                          = 42
	fromN3, fromN9, fromN6            = 11, 16, 0 // 3GPP interface types; that of N6 is left 0
	toURL                             = 2         // Redirect Address Type; there is no other
)

// SMF is an SMF of OpenAirInterface.
type SMF struct {
	client *smf.Client
	live   map[uint64]*session
}

type session struct {
	ue     smf.UE
	gnb    smf.Tunnel
	hasFAR bool // the downlink's
	paging bool // the paging rule is there
	// The tunnels that the UPF gave with the downlink.
	tunnels map[uint16]smf.Tunnel
}

// New gives an SMF.
func New(client *smf.Client) *SMF {
	client.NodeID = "oai-smf.oai.org"
	return &SMF{client: client, live: map[uint64]*session{}}
}

// Associate sets the association up.
func (s *SMF) Associate() error {
	_, err := s.client.Associate()
	return err
}

// instance is absent unless it is configured.
func (n *session) instance(name string) []*ie.IE {
	if n.ue.Variant != Named {
		return nil
	}
	return []*ie.IE{ie.NewNetworkInstance(name)}
}

// Establish sets the uplink up, and in one variant the downlink too.
func (s *SMF) Establish(seid uint64, ue smf.UE) (map[uint16]smf.Tunnel, error) {
	n := &session{ue: ue, hasFAR: ue.Variant == Named}
	s.live[seid] = n
	pdi := append([]*ie.IE{ie.NewSourceInterface(ie.SrcInterfaceAccess)}, n.instance("access.oai.org")...)
	pdi = append(pdi,
		ie.NewFTEID(smf.FTEIDChoose|smf.FTEIDIPv4|smf.FTEIDChooseID, 0, nil, nil, chooseID),
		ie.NewUEIPAddress(0x02, ue.IPv4, "", 0, 0), ie.NewQFI(sessionQFI),
		ie.NewSDFFilter("permit out ip from any to assigned", "", "", "", 0), ie.NewTGPPInterfaceType(fromN3))
	parameters := append([]*ie.IE{ie.NewDestinationInterface(ie.DstInterfaceCore)}, n.instance("core.oai.org")...)
	if ue.Redirect != "" {
		parameters = append(parameters, ie.NewRedirectInformation(toURL, ue.Redirect))
	}
	if n.isIntermediate() {
		parameters = append(parameters, ue.Next.OuterHeaderCreation())
	}
	ies := []*ie.IE{
		s.client.Node(), s.client.FSEID(seid),
		ie.NewCreatePDR(ie.NewPDRID(uplinkPDR), ie.NewPrecedence(first), ie.NewPDI(pdi...),
			ie.NewOuterHeaderRemoval(0, 0), ie.NewFARID(uplinkFAR), ie.NewURRID(sessionURR), ie.NewQERID(uplinkQER)),
		ie.NewCreateFAR(ie.NewFARID(uplinkFAR), ie.NewApplyAction(smf.Forward),
			ie.NewForwardingParameters(parameters...)),
		createURR(),
		createQER(uplinkQER, rateKbps, 0),
	}
	if n.hasFAR {
		ies = append(ies, n.createDownlinkPDR(), createQER(downlinkQER, 0, rateKbps),
			ie.NewCreateFAR(ie.NewFARID(downlinkFAR), ie.NewApplyAction(smf.Drop)))
	}
	tunnels, err := s.client.Begin(seid, ies...)
	if err == nil && tunnels[uplinkPDR].TEID == 0 {
		err = fmt.Errorf("no F-TEID in Created PDR: %v", tunnels)
	}
	return tunnels, err
}

// isIntermediate says that another UPF comes behind this one, on N9.
func (n *session) isIntermediate() bool { return n.ue.Next.Address != "" }

// createURR: PERIO, VOLTH and TIMTH, on two octets; so little of each that reports would come in a storm.
func createURR() *ie.IE {
	return ie.NewCreateURR(ie.NewURRID(sessionURR), ie.NewMeasurementMethod(0, 1, 1),
		ie.NewReportingTriggers(0x07, 0x00), ie.NewMeasurementPeriod(10*time.Second),
		ie.NewVolumeThreshold(0x04, 0, 0, 1000), ie.NewTimeThreshold(5*time.Second))
}

// createQER is of one direction: the other one's rates are 0.
func createQER(id uint32, uplinkKbps, downlinkKbps uint64) *ie.IE {
	return ie.NewCreateQER(ie.NewQERID(id), ie.NewGateStatus(ie.GateStatusOpen, ie.GateStatusOpen),
		ie.NewMBR(uplinkKbps, downlinkKbps), ie.NewGBR(uplinkKbps, downlinkKbps), ie.NewQFI(sessionQFI))
}

func (n *session) downlinkPDI() *ie.IE {
	pdi := append([]*ie.IE{ie.NewSourceInterface(ie.SrcInterfaceCore)}, n.instance("core.oai.org")...)
	return ie.NewPDI(append(pdi, ie.NewUEIPAddress(0x06, n.ue.IPv4, "", 0, 0), ie.NewTGPPInterfaceType(fromN6))...)
}

// n9PDI is that of packets of the next UPF: a tunnel by CHOOSE without a CHOOSE ID, that no other rule is to share.
func (n *session) n9PDI() *ie.IE {
	pdi := append([]*ie.IE{ie.NewSourceInterface(ie.SrcInterfaceCore)}, n.instance("core.oai.org")...)
	return ie.NewPDI(append(pdi, ie.NewFTEID(smf.FTEIDChoose|smf.FTEIDIPv4, 0, nil, nil, 0),
		ie.NewUEIPAddress(0x06, n.ue.IPv4, "", 0, 0), ie.NewQFI(sessionQFI), ie.NewTGPPInterfaceType(fromN9))...)
}

func (n *session) createDownlinkPDR() *ie.IE {
	ies := []*ie.IE{ie.NewPDRID(downlinkPDR), ie.NewPrecedence(second)}
	if n.isIntermediate() {
		ies = append(ies, n.n9PDI(), ie.NewOuterHeaderRemoval(0, 0))
	} else {
		ies = append(ies, n.downlinkPDI())
	}
	return ie.NewCreatePDR(append(ies, ie.NewFARID(downlinkFAR), ie.NewURRID(sessionURR), ie.NewQERID(downlinkQER))...)
}

func (n *session) towards() []*ie.IE {
	parameters := append([]*ie.IE{ie.NewDestinationInterface(ie.DstInterfaceAccess)}, n.instance("access.oai.org")...)
	return append(parameters, n.gnb.OuterHeaderCreation())
}

func (n *session) updateFAR(far uint32) *ie.IE {
	return ie.NewUpdateFAR(ie.NewFARID(far), ie.NewApplyAction(smf.Forward),
		ie.NewUpdateForwardingParameters(n.towards()...))
}

func (s *SMF) change(seid uint64, ies ...*ie.IE) error {
	_, err := s.client.Change(seid, ies...)
	return err
}

// Activate makes the downlink's FAR, and with another modification the PDR that leads to it; or updates the FAR where
// it is there. After Idle what has waited goes by the paging rule's FAR, and then that rule is taken away.
func (s *SMF) Activate(seid uint64, gnb smf.Tunnel) error {
	n := s.live[seid]
	n.gnb = gnb
	switch {
	case !n.hasFAR:
		n.hasFAR = true
		err := s.change(seid, ie.NewCreateFAR(ie.NewFARID(downlinkFAR), ie.NewApplyAction(smf.Forward),
			ie.NewForwardingParameters(n.towards()...)))
		if err != nil {
			return err
		}
		n.tunnels, err = s.client.Change(seid, n.createDownlinkPDR(), createQER(downlinkQER, 0, rateKbps))
		return err
	case n.paging:
		n.paging = false
		if err := s.change(seid, n.updateFAR(downlinkFAR), n.updateFAR(pagingFAR)); err != nil {
			return err
		}
		return s.change(seid, ie.NewRemovePDR(ie.NewPDRID(pagingPDR)), ie.NewRemoveFAR(ie.NewFARID(pagingFAR)))
	default:
		return s.change(seid, n.updateFAR(downlinkFAR))
	}
}

// Handover sends no end marker.
func (s *SMF) Handover(seid uint64, gnb smf.Tunnel) error {
	n := s.live[seid]
	n.gnb = gnb
	return s.change(seid, n.updateFAR(downlinkFAR))
}

// Idle puts a rule for paging before the downlink's: it has neither QER nor URR, and its FAR comes in the same message.
func (s *SMF) Idle(seid uint64) error {
	n := s.live[seid]
	n.paging = true
	return s.change(seid,
		ie.NewCreatePDR(ie.NewPDRID(pagingPDR), ie.NewPrecedence(first), n.downlinkPDI(), ie.NewFARID(pagingFAR)),
		ie.NewCreateFAR(ie.NewFARID(pagingFAR), ie.NewApplyAction(smf.Buffer|smf.NotifyCP)))
}

// Tunnels are those that came with the downlink.
func (s *SMF) Tunnels(seid uint64) map[uint16]smf.Tunnel { return s.live[seid].tunnels }

// Delete deletes the session.
func (s *SMF) Delete(seid uint64) error {
	delete(s.live, seid)
	return s.client.End(seid, 0, 0)
}
