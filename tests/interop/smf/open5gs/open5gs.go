// Package open5gs speaks PFCP as the SMF of Open5GS does: everything by CHOOSE, a session that starts idle, the SMF's
// own tunnel for router solicitations, network instances as DNS labels.
package open5gs

import (
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/wmnsk/go-pfcp/ie"

	"sluice/interop/smf"
)

// Addressed is the variant of an SMF that is configured for UPG-VPP: the UE's address is in the uplink's PDI, too.
const Addressed = "addressed"

const (
	downlinkPDR, uplinkPDR, fromSMFPDR, toSMFPDR = 1, 2, 3, 4
	flowDownlinkPDR, flowUplinkPDR, forwardPDR   = 5, 6, 7
	downlinkFAR, uplinkFAR, toSMFFAR             = 1, 2, 3
	flowDownlinkFAR, flowUplinkFAR, forwardFAR   = 5, 6, 7
	sessionQER, flowQER                          = 1, 2
	sessionURR, sessionBAR                       = 1, 1
	sessionQFI, flowQFI                          = 1, 2

	lowest, high = 65535, 255 // precedence

	toN3, toN6, toDownlinkForwarding = 11, 17, 23 // 3GPP interface types

	anyFTEID   = smf.FTEIDChoose | smf.FTEIDIPv4 | smf.FTEIDIPv6
	sharedID   = 5  // CHOOSE ID of the tunnel from the gNB
	indirectID = 10 // and of that for indirect forwarding

	restoration = 0x01 // RESTI of PFCPSEReq-Flags
	// Reporting Triggers (TS 29.244 §8.2.19): two of octet 5, three of octet 6.
	volumeThreshold, timeThreshold       = 0x02, 0x04
	volumeQuota, timeQuota, validityTime = 0x01, 0x02, 0x80

	gtpuUDPIP   = 6 // Outer Header Removal, whatever the IP version
	ambrKbps    = 1_000_000
	reportAfter = 100 << 20
)

// SMF is an SMF of Open5GS.
type SMF struct {
	client *smf.Client
	// GTPU is where the SMF takes router solicitations.
	gtpu smf.Tunnel
	ues  map[uint64]smf.UE
	gnbs map[uint64]smf.Tunnel
	// The UPF's tunnels of each session, by PDR.
	tunnels map[uint64]map[uint16]smf.Tunnel
}

// New gives an SMF that takes router solicitations at gtpu.
func New(client *smf.Client, gtpu smf.Tunnel) *SMF {
	client.NodeID = "smf.open5gs.org"
	return &SMF{client: client, gtpu: gtpu, ues: map[uint64]smf.UE{}, gnbs: map[uint64]smf.Tunnel{},
		tunnels: map[uint64]map[uint16]smf.Tunnel{}}
}

func dnn() *ie.IE { return ie.NewNetworkInstanceFQDN("internet") }

// Apply Action has two octets.
func action(flags uint8) *ie.IE { return ie.NewApplyAction(flags, 0) }

// Outer Header Removal has one.
func removal() *ie.IE { return ie.New(ie.OuterHeaderRemoval, []byte{gtpuUDPIP}) }

func shared() *ie.IE { return ie.NewFTEID(anyFTEID|smf.FTEIDChooseID, 0, nil, nil, sharedID) }

// Associate sets the association up, as CP function with Load and Overload Control unsupported.
func (s *SMF) Associate() error {
	_, err := s.client.Associate(ie.NewCPFunctionFeatures(0))
	return err
}

// Establish: four PDRs, three FARs, one URR, one QER and one BAR. The downlink waits.
func (s *SMF) Establish(seid uint64, ue smf.UE) (map[uint16]smf.Tunnel, error) {
	s.ues[seid] = ue
	waits := ie.NewCreateFAR(ie.NewFARID(downlinkFAR), action(smf.Buffer|smf.NotifyCP), ie.NewBARID(sessionBAR))
	tunnels, err := s.client.Begin(seid, s.establishment(seid, s.createPDRs(ue, nil), waits)...)
	if err != nil {
		return nil, err
	}
	s.tunnels[seid] = tunnels
	return tunnels, check(tunnels)
}

// Restore sends the establishment again after the UPF has restarted: the F-TEIDs are those that the UPF gave, the
// downlink has its gNB, and PFCPSEReq-Flags with RESTI come last. The session may have another SEID of the SMF now.
func (s *SMF) Restore(seid, now uint64) (map[uint16]smf.Tunnel, error) {
	forwards := ie.NewCreateFAR(ie.NewFARID(downlinkFAR), action(smf.Forward), ie.NewForwardingParameters(
		ie.NewDestinationInterface(ie.DstInterfaceAccess), dnn(), s.gnbs[seid].OuterHeaderCreation()))
	s.ues[now] = s.ues[seid]
	ies := s.establishment(now, s.createPDRs(s.ues[now], s.tunnels[seid]), forwards)
	_, err := s.client.Begin(now, append(ies, ie.NewPFCPSEReqFlags(restoration))...)
	return s.tunnels[seid], err
}

func (s *SMF) establishment(seid uint64, pdrs []*ie.IE, downlink *ie.IE) []*ie.IE {
	ies := append([]*ie.IE{s.client.Node(), s.client.FSEID(seid)}, pdrs...)
	return append(ies, downlink,
		ie.NewCreateFAR(ie.NewFARID(uplinkFAR), action(smf.Forward), ie.NewForwardingParameters(
			ie.NewDestinationInterface(ie.DstInterfaceCore), dnn(), ie.NewTGPPInterfaceType(toN6))),
		ie.NewCreateFAR(ie.NewFARID(toSMFFAR), action(smf.Forward), ie.NewForwardingParameters(
			ie.NewDestinationInterface(ie.DstInterfaceCPFunction), s.gtpu.OuterHeaderCreation())),
		ie.NewCreateURR(ie.NewURRID(sessionURR), ie.NewMeasurementMethod(0, 1, 0), ie.NewReportingTriggers(0x02, 0, 0),
			ie.NewVolumeThreshold(0x01, reportAfter, 0, 0)),
		qer(sessionQER, sessionQFI),
		ie.NewCreateBAR(ie.NewBARID(sessionBAR)),
		ie.NewPDNType(pdnType(s.ues[seid])),
		ie.NewUserID(0x07, "999700000000001", "4370816125816151", "0000000001", ""),
		ie.NewAPNDNN("internet"),
		ie.NewSNSSAI(1, 0xffffff))
}

// fteid is one that the UPF gave, or else what asks for one.
func fteid(given map[uint16]smf.Tunnel, pdr uint16, choose *ie.IE) *ie.IE {
	tunnel, has := given[pdr]
	if !has {
		return choose
	}
	return ie.NewFTEID(smf.FTEIDIPv4, tunnel.TEID, net.ParseIP(tunnel.Address).To4(), nil, 0)
}

// routes are the framed routes, IPv4 before IPv6, in the words of the subscription.
func routes(ue smf.UE) []*ie.IE {
	var routes []*ie.IE
	for _, route := range ue.FramedRoutes {
		routes = append(routes, ie.NewFramedRoute(route))
	}
	for _, route := range ue.FramedIPv6Routes {
		routes = append(routes, ie.NewFramedIPv6Route(route))
	}
	return routes
}

func (s *SMF) createPDRs(ue smf.UE, given map[uint16]smf.Tunnel) []*ie.IE {
	downlink := append([]*ie.IE{ie.NewSourceInterface(ie.SrcInterfaceCore), dnn(), address(ue)}, routes(ue)...)
	uplink := []*ie.IE{ie.NewSourceInterface(ie.SrcInterfaceAccess), fteid(given, uplinkPDR, shared()), dnn()}
	if ue.Variant == Addressed {
		uplink = append(uplink, address(ue))
	}
	uplink = append(uplink, routes(ue)...)
	return []*ie.IE{
		ie.NewCreatePDR(ie.NewPDRID(downlinkPDR), ie.NewPrecedence(lowest),
			ie.NewPDI(append(downlink, ie.NewTGPPInterfaceType(toN6))...),
			ie.NewFARID(downlinkFAR), ie.NewURRID(sessionURR), ie.NewQERID(sessionQER)),
		ie.NewCreatePDR(ie.NewPDRID(uplinkPDR), ie.NewPrecedence(lowest),
			ie.NewPDI(append(uplink, ie.NewQFI(sessionQFI), ie.NewTGPPInterfaceType(toN3))...),
			removal(), ie.NewFARID(uplinkFAR), ie.NewQERID(sessionQER)),
		ie.NewCreatePDR(ie.NewPDRID(fromSMFPDR), ie.NewPrecedence(high),
			ie.NewPDI(ie.NewSourceInterface(ie.SrcInterfaceCPFunction),
				fteid(given, fromSMFPDR, ie.NewFTEID(anyFTEID, 0, nil, nil, 0))),
			removal(), ie.NewFARID(downlinkFAR)),
		ie.NewCreatePDR(ie.NewPDRID(toSMFPDR), ie.NewPrecedence(high),
			ie.NewPDI(ie.NewSourceInterface(ie.SrcInterfaceAccess), fteid(given, toSMFPDR, shared()), dnn(),
				ie.NewSDFFilter("permit out 58 from ff02::2/128 to assigned", "", "", "", 0)),
			removal(), ie.NewFARID(toSMFFAR)),
	}
}

// check: without the tunnels it asked for, the SMF gives up.
func check(tunnels map[uint16]smf.Tunnel) error {
	uplink, found := tunnels[uplinkPDR]
	if !found {
		return errors.New("no UP F-TEID")
	}
	if tunnels[toSMFPDR] != uplink {
		return fmt.Errorf("equal CHOOSE IDs, but %v and %v", uplink, tunnels[toSMFPDR])
	}
	if fromSMF := tunnels[fromSMFPDR]; fromSMF.TEID == 0 || fromSMF == uplink {
		return fmt.Errorf("the SMF's tunnel is %v", fromSMF)
	}
	return nil
}

func address(ue smf.UE) *ie.IE {
	flags := uint8(0x04)
	if ue.IPv4 != "" {
		flags |= 0x02
	}
	if ue.IPv6 != "" {
		flags |= 0x01
	}
	return ie.NewUEIPAddress(flags, ue.IPv4, ue.IPv6, 0, 0)
}

func pdnType(ue smf.UE) uint8 {
	switch {
	case ue.IPv6 == "":
		return ie.PDNTypeIPv4
	case ue.IPv4 == "":
		return ie.PDNTypeIPv6
	default:
		return ie.PDNTypeIPv4v6
	}
}

func qer(id uint32, qfi uint8) *ie.IE {
	return ie.NewCreateQER(ie.NewQERID(id), ie.NewGateStatus(ie.GateStatusOpen, ie.GateStatusOpen),
		ie.NewMBR(ambrKbps, ambrKbps), ie.NewGBR(ambrKbps, ambrKbps), ie.NewQFI(qfi))
}

// towards points a downlink FAR at a gNB; the flags come within the forwarding parameters.
func towards(far uint32, gnb smf.Tunnel, flags uint8) *ie.IE {
	parameters := []*ie.IE{ie.NewDestinationInterface(ie.DstInterfaceAccess), dnn(), gnb.OuterHeaderCreation()}
	if flags != 0 {
		parameters = append(parameters, ie.NewPFCPSMReqFlags(flags))
	}
	return ie.NewUpdateFAR(ie.NewFARID(far), action(smf.Forward), ie.NewUpdateForwardingParameters(parameters...))
}

// Activate points the downlink at the gNB.
func (s *SMF) Activate(seid uint64, gnb smf.Tunnel) error {
	s.gnbs[seid] = gnb
	_, err := s.client.Change(seid, towards(downlinkFAR, gnb, 0))
	return err
}

// Handover does too, and has the old tunnel ended.
func (s *SMF) Handover(seid uint64, gnb smf.Tunnel) error {
	s.gnbs[seid] = gnb
	_, err := s.client.Change(seid, towards(downlinkFAR, gnb, smf.SendEndMarker))
	return err
}

// Idle has downlink packets wait by the BAR.
func (s *SMF) Idle(seid uint64) error {
	_, err := s.client.Change(seid, ie.NewUpdateFAR(ie.NewFARID(downlinkFAR), action(smf.Buffer|smf.NotifyCP),
		ie.NewBARID(sessionBAR)))
	return err
}

// Grant is what the SMF makes of an answer on Gy. Of volume the OCS asks for a report when as much is left as was
// granted: the Volume Threshold is the difference, which is nothing. Of time the Time Threshold is the difference, too.
func (s *SMF) Grant(seid uint64, granted smf.Granted) error {
	var octet5, octet6 uint8
	var bounds []*ie.IE
	volume, duration := 0, 0
	if granted.Octets != 0 {
		volume, octet5, octet6 = 1, octet5|volumeThreshold, octet6|volumeQuota
		bounds = append(bounds, ie.NewVolumeThreshold(0x01, 0, 0, 0), ie.NewVolumeQuota(0x01, granted.Octets, 0, 0))
	}
	if granted.SecondsThreshold != 0 {
		octet5 |= timeThreshold
		bounds = append(bounds, ie.NewTimeThreshold(seconds(granted.Seconds-granted.SecondsThreshold)))
	}
	if granted.Seconds != 0 {
		octet6 |= timeQuota
		bounds = append(bounds, ie.NewTimeQuota(seconds(granted.Seconds)))
	}
	if granted.Validity != 0 {
		octet6 |= validityTime
		bounds = append(bounds, ie.NewQuotaValidityTime(seconds(granted.Validity)))
	}
	if granted.Seconds != 0 || granted.Validity != 0 {
		duration = 1
	}
	ies := []*ie.IE{ie.NewURRID(sessionURR), ie.NewMeasurementMethod(0, volume, duration),
		ie.NewReportingTriggers(octet5, octet6, 0)}
	_, err := s.client.Change(seid, ie.NewUpdateURR(append(ies, bounds...)...))
	return err
}

func seconds(count uint32) time.Duration { return time.Duration(count) * time.Second }

// AddFlow is a dedicated QoS flow: its uplink shares the tunnel by its CHOOSE ID.
func (s *SMF) AddFlow(seid uint64, description string) (map[uint16]smf.Tunnel, error) {
	return s.client.Change(seid,
		ie.NewCreatePDR(ie.NewPDRID(flowDownlinkPDR), ie.NewPrecedence(high),
			ie.NewPDI(ie.NewSourceInterface(ie.SrcInterfaceCore), dnn(), address(s.ues[seid]), sdf(description)),
			ie.NewFARID(flowDownlinkFAR), ie.NewQERID(flowQER)),
		ie.NewCreatePDR(ie.NewPDRID(flowUplinkPDR), ie.NewPrecedence(high),
			ie.NewPDI(ie.NewSourceInterface(ie.SrcInterfaceAccess), shared(), dnn(), sdf(description),
				ie.NewQFI(flowQFI)),
			removal(), ie.NewFARID(flowUplinkFAR), ie.NewQERID(flowQER)),
		ie.NewCreateFAR(ie.NewFARID(flowDownlinkFAR), action(smf.Forward), ie.NewForwardingParameters(
			ie.NewDestinationInterface(ie.DstInterfaceAccess), dnn(), s.gnbs[seid].OuterHeaderCreation())),
		ie.NewCreateFAR(ie.NewFARID(flowUplinkFAR), action(smf.Forward), ie.NewForwardingParameters(
			ie.NewDestinationInterface(ie.DstInterfaceCore), dnn())),
		qer(flowQER, flowQFI))
}

// ChangeFlow updates the PDRs by a part of their PDI: the source interface and the filter.
func (s *SMF) ChangeFlow(seid uint64, description string) error {
	_, err := s.client.Change(seid,
		ie.NewUpdatePDR(ie.NewPDRID(flowDownlinkPDR),
			ie.NewPDI(ie.NewSourceInterface(ie.SrcInterfaceCore), sdf(description))),
		ie.NewUpdatePDR(ie.NewPDRID(flowUplinkPDR),
			ie.NewPDI(ie.NewSourceInterface(ie.SrcInterfaceAccess), sdf(description))),
		ie.NewUpdateQER(ie.NewQERID(flowQER), ie.NewMBR(ambrKbps/2, ambrKbps/2), ie.NewGBR(ambrKbps/2, ambrKbps/2)))
	return err
}

// RemoveFlow takes the QoS flow away.
func (s *SMF) RemoveFlow(seid uint64) error {
	_, err := s.client.Change(seid,
		ie.NewRemovePDR(ie.NewPDRID(flowDownlinkPDR)), ie.NewRemovePDR(ie.NewPDRID(flowUplinkPDR)),
		ie.NewRemoveFAR(ie.NewFARID(flowDownlinkFAR)), ie.NewRemoveFAR(ie.NewFARID(flowUplinkFAR)),
		ie.NewRemoveQER(ie.NewQERID(flowQER)))
	return err
}

func sdf(description string) *ie.IE { return ie.NewSDFFilter(description, "", "", "", 0) }

// Forward makes a tunnel for what the old gNB sends back, towards the new gNB.
func (s *SMF) Forward(seid uint64, gnb smf.Tunnel) (map[uint16]smf.Tunnel, error) {
	return s.client.Change(seid,
		ie.NewCreatePDR(ie.NewPDRID(forwardPDR), ie.NewPrecedence(high),
			ie.NewPDI(ie.NewSourceInterface(ie.SrcInterfaceAccess),
				ie.NewFTEID(anyFTEID|smf.FTEIDChooseID, 0, nil, nil, indirectID),
				ie.NewTGPPInterfaceType(toDownlinkForwarding)),
			removal(), ie.NewFARID(forwardFAR)),
		ie.NewCreateFAR(ie.NewFARID(forwardFAR), action(smf.Forward), ie.NewForwardingParameters(
			ie.NewDestinationInterface(ie.DstInterfaceAccess), gnb.OuterHeaderCreation(),
			ie.NewTGPPInterfaceType(toDownlinkForwarding))))
}

// StopForwarding takes it away.
func (s *SMF) StopForwarding(seid uint64) error {
	_, err := s.client.Change(seid, ie.NewRemovePDR(ie.NewPDRID(forwardPDR)), ie.NewRemoveFAR(ie.NewFARID(forwardFAR)))
	return err
}

// Delete deletes the session.
func (s *SMF) Delete(seid uint64) error { return s.client.End(seid, 0, 0) }
