// Package free5gc speaks PFCP as the SMF of free5GC does: TEIDs of its own, identifiers from pools of the whole UPF,
// two URRs and two QERs for each PDR, a downlink that forwards to nowhere until the gNB is known.
package free5gc

import (
	"net"
	"time"

	"github.com/wmnsk/go-pfcp/ie"

	"sluice/interop/smf"
)

const (
	precedence      = 128
	pathPrecedence  = 30
	pathQFI         = 2
	pathThreshold   = 1 << 40
	ambrKbps        = 1_000_000
	threshold       = 100_000
	quota           = 1 << 40
	reportingPeriod = 10 * time.Second
	// Seconds from 1900 to 1970: the quota validity "time" is a date.
	ntpEpoch = 2_208_988_800

	mbqe, mnop = 0x01, 0x10 // Measurement Information
	sessionQFI = 1
)

// SMF is an SMF of free5GC.
type SMF struct {
	client *smf.Client
	n3     string
	pdrs   uint16
	rules  uint32
	live   map[uint64]*session
}

// session has what the pools gave it.
type session struct {
	ue                  smf.UE
	teid                uint32
	uplinkPDR           uint16
	downlinkPDR         uint16
	uplinkFAR           uint32
	downlinkFAR         uint32
	flowQER, ambrQER    uint32
	beforeQoS, afterQoS uint32
	gnb                 smf.Tunnel
	path                *path // of a PCC rule, where there is one
}

// New gives an SMF that chooses TEIDs at the UPF's address n3.
func New(client *smf.Client, n3 string) *SMF {
	return &SMF{client: client, n3: n3, pdrs: 4711, rules: 70_000, live: map[uint64]*session{}}
}

func (s *SMF) pdr() uint16 { s.pdrs += 2; return s.pdrs }

func (s *SMF) rule() uint32 { s.rules += 13; return s.rules }

// The network instance is the DNN, in plain text, on both sides.
func dnn() *ie.IE { return ie.NewNetworkInstance("internet") }

// Associate sets the association up.
func (s *SMF) Associate() error {
	_, err := s.client.Associate()
	return err
}

// Establish forwards the downlink to the access side without a tunnel. The UPF chooses nothing.
func (s *SMF) Establish(seid uint64, ue smf.UE) (map[uint16]smf.Tunnel, error) {
	n := &session{
		ue: ue, teid: uint32(seid), uplinkPDR: s.pdr(), downlinkPDR: s.pdr(), uplinkFAR: s.rule(), downlinkFAR: s.rule(),
		flowQER: s.rule(), ambrQER: s.rule(), beforeQoS: s.rule(), afterQoS: s.rule(),
	}
	s.live[seid] = n
	_, err := s.client.Begin(seid,
		s.client.Node(), s.client.FSEID(seid),
		ie.NewCreatePDR(append(s.uplink(n), ie.NewOuterHeaderRemoval(0, 0))...),
		ie.NewCreatePDR(n.downlink()...),
		ie.NewCreateFAR(ie.NewFARID(n.uplinkFAR), ie.NewApplyAction(smf.Forward), ie.NewForwardingParameters(
			ie.NewDestinationInterface(ie.DstInterfaceCore), dnn())),
		ie.NewCreateFAR(ie.NewFARID(n.downlinkFAR), ie.NewApplyAction(smf.Forward), ie.NewForwardingParameters(
			ie.NewDestinationInterface(ie.DstInterfaceAccess))),
		ie.NewCreateQER(ie.NewQERID(n.flowQER), open(), ie.NewQFI(sessionQFI)),
		ie.NewCreateQER(ie.NewQERID(n.ambrQER), open(), ie.NewMBR(ambrKbps, ambrKbps), ie.NewQFI(sessionQFI)),
		createURR(n.beforeQoS, mbqe|mnop), createURR(n.afterQoS, mnop),
		ie.NewCreateBAR(ie.NewBARID(1), ie.NewDownlinkDataNotificationDelay(0)),
		ie.NewPDNType(ie.PDNTypeIPv4))
	return map[uint16]smf.Tunnel{n.uplinkPDR: {Address: s.n3, TEID: n.teid}}, err
}

func open() *ie.IE { return ie.NewGateStatus(ie.GateStatusOpen, ie.GateStatusOpen) }

func (s *SMF) uplink(n *session) []*ie.IE {
	return append([]*ie.IE{
		ie.NewPDRID(n.uplinkPDR), ie.NewPrecedence(precedence), s.uplinkPDI(n), ie.NewFARID(n.uplinkFAR),
	}, n.enforcement()...)
}

// uplinkPDI has the one TEID that all data paths of the session have.
func (s *SMF) uplinkPDI(n *session, more ...*ie.IE) *ie.IE {
	return ie.NewPDI(append([]*ie.IE{ie.NewSourceInterface(ie.SrcInterfaceAccess),
		ie.NewFTEID(smf.FTEIDIPv4, n.teid, net.ParseIP(s.n3).To4(), nil, 0), dnn(),
		ie.NewUEIPAddress(0x02, n.ue.IPv4, "", 0, 0)}, more...)...)
}

func (n *session) downlink() []*ie.IE {
	return append([]*ie.IE{
		ie.NewPDRID(n.downlinkPDR), ie.NewPrecedence(precedence), n.downlinkPDI(), ie.NewFARID(n.downlinkFAR),
	}, n.enforcement()...)
}

func (n *session) downlinkPDI(more ...*ie.IE) *ie.IE {
	return ie.NewPDI(append([]*ie.IE{ie.NewSourceInterface(ie.SrcInterfaceCore), dnn(),
		ie.NewUEIPAddress(0x06, n.ue.IPv4, "", 0, 0)}, more...)...)
}

// path is the data path of a PCC rule: rules of its own on the session's TEID.
type path struct {
	uplinkPDR, downlinkPDR uint16
	uplinkFAR, downlinkFAR uint32
	qer, urr               uint32
}

// sdf is on both PDRs of a path, with the downlink's description.
func sdf(description string) *ie.IE { return ie.NewSDFFilter(description, "", "", "", 0) }

// AddFlow adds the path of a PCC rule with a flow description.
func (s *SMF) AddFlow(seid uint64, description string) (map[uint16]smf.Tunnel, error) {
	return s.addPath(seid, sdf(description))
}

// AddApplication adds the path of a PCC rule with an Application ID. The SMF's messages have a place for it, but what
// fills it in writes the first flow description of the application's PFD instead: AddFlow has it. It sends no PFDs.
func (s *SMF) AddApplication(seid uint64, application string) (map[uint16]smf.Tunnel, error) {
	return s.addPath(seid, ie.NewApplicationID(application))
}

func (s *SMF) addPath(seid uint64, detected *ie.IE) (map[uint16]smf.Tunnel, error) {
	n := s.live[seid]
	p := &path{uplinkPDR: s.pdr(), downlinkPDR: s.pdr(), uplinkFAR: s.rule(), downlinkFAR: s.rule(), qer: s.rule(),
		urr: s.rule()}
	n.path = p
	enforcement := []*ie.IE{ie.NewQERID(p.qer), ie.NewQERID(n.ambrQER), ie.NewURRID(p.urr)}
	err := s.change(seid,
		ie.NewCreatePDR(append([]*ie.IE{ie.NewPDRID(p.uplinkPDR), ie.NewPrecedence(pathPrecedence),
			s.uplinkPDI(n, detected), ie.NewOuterHeaderRemoval(0, 0), ie.NewFARID(p.uplinkFAR)}, enforcement...)...),
		ie.NewCreatePDR(append([]*ie.IE{ie.NewPDRID(p.downlinkPDR), ie.NewPrecedence(pathPrecedence),
			n.downlinkPDI(detected), ie.NewFARID(p.downlinkFAR)}, enforcement...)...),
		ie.NewCreateFAR(ie.NewFARID(p.uplinkFAR), ie.NewApplyAction(smf.Forward), ie.NewForwardingParameters(
			ie.NewDestinationInterface(ie.DstInterfaceCore), dnn())),
		ie.NewCreateFAR(ie.NewFARID(p.downlinkFAR), ie.NewApplyAction(smf.Forward), ie.NewForwardingParameters(
			ie.NewDestinationInterface(ie.DstInterfaceAccess), dnn(), n.gnb.OuterHeaderCreation())),
		ie.NewCreateQER(ie.NewQERID(p.qer), open(), ie.NewMBR(ambrKbps, ambrKbps), ie.NewQFI(pathQFI)),
		ie.NewCreateURR(ie.NewURRID(p.urr), ie.NewMeasurementMethod(0, 1, 0), ie.NewReportingTriggers(0x02, 0, 0),
			ie.NewVolumeThreshold(0x06, 0, pathThreshold, pathThreshold), ie.NewMeasurementInformation(0)))
	return map[uint16]smf.Tunnel{p.uplinkPDR: {Address: s.n3, TEID: n.teid}}, err
}

// ChangeFlow updates both PDRs with all that they have, but for what they lead to.
func (s *SMF) ChangeFlow(seid uint64, description string) error {
	n := s.live[seid]
	return s.change(seid,
		ie.NewUpdatePDR(ie.NewPDRID(n.path.uplinkPDR), ie.NewPrecedence(pathPrecedence),
			s.uplinkPDI(n, sdf(description)), ie.NewOuterHeaderRemoval(0, 0), ie.NewFARID(n.path.uplinkFAR)),
		ie.NewUpdatePDR(ie.NewPDRID(n.path.downlinkPDR), ie.NewPrecedence(pathPrecedence),
			n.downlinkPDI(sdf(description)), ie.NewFARID(n.path.downlinkFAR)))
}

// RemoveFlow takes the path away.
func (s *SMF) RemoveFlow(seid uint64) error {
	p := s.live[seid].path
	return s.change(seid, ie.NewRemovePDR(ie.NewPDRID(p.uplinkPDR)), ie.NewRemovePDR(ie.NewPDRID(p.downlinkPDR)),
		ie.NewRemoveFAR(ie.NewFARID(p.uplinkFAR)), ie.NewRemoveFAR(ie.NewFARID(p.downlinkFAR)),
		ie.NewRemoveURR(ie.NewURRID(p.urr)))
}

// enforcement is in each PDR, also when it is updated.
func (n *session) enforcement() []*ie.IE {
	return []*ie.IE{
		ie.NewURRID(n.beforeQoS), ie.NewURRID(n.afterQoS), ie.NewQERID(n.flowQER), ie.NewQERID(n.ambrQER),
	}
}

// createURR: the thresholds have no total yet, the validity time of the quota is a date.
func createURR(id uint32, information uint8) *ie.IE {
	validUntil := uint64(time.Now().Unix()) + ntpEpoch
	return ie.NewCreateURR(ie.NewURRID(id), ie.NewMeasurementMethod(0, 1, 0), triggers(),
		ie.NewMeasurementPeriod(reportingPeriod),
		ie.NewVolumeThreshold(0x06, 0, threshold, threshold),
		ie.NewVolumeQuota(0x07, quota, quota, quota),
		ie.NewMeasurementInformation(information),
		ie.NewQuotaValidityTime(time.Duration(validUntil)*time.Second))
}

// triggers: PERIO, VOLTH and START; VOLQU; nothing in the third octet.
func triggers() *ie.IE { return ie.NewReportingTriggers(0x13, 0x01, 0x00) }

// change sends a modification, which always has the F-SEID again.
func (s *SMF) change(seid uint64, ies ...*ie.IE) error {
	_, err := s.client.Change(seid, append([]*ie.IE{s.client.FSEID(seid)}, ies...)...)
	return err
}

// towards points the downlink at the gNB; its flags are there even when they say nothing.
func (n *session) towards(gnb smf.Tunnel, flags uint8) *ie.IE {
	return ie.NewUpdateFAR(ie.NewFARID(n.downlinkFAR), ie.NewApplyAction(smf.Forward),
		ie.NewUpdateForwardingParameters(ie.NewDestinationInterface(ie.DstInterfaceAccess), dnn(),
			gnb.OuterHeaderCreation(), ie.NewPFCPSMReqFlags(flags)))
}

// Activate updates the PDRs too, with all that they had.
func (s *SMF) Activate(seid uint64, gnb smf.Tunnel) error {
	n := s.live[seid]
	n.gnb = gnb
	return s.change(seid, ie.NewUpdatePDR(append(s.uplink(n), ie.NewOuterHeaderRemoval(0, 0))...),
		ie.NewUpdatePDR(n.downlink()...), n.towards(gnb, 0))
}

// Handover has the old tunnel ended.
func (s *SMF) Handover(seid uint64, gnb smf.Tunnel) error {
	n := s.live[seid]
	return s.change(seid, ie.NewUpdatePDR(n.downlink()...), n.towards(gnb, smf.SendEndMarker))
}

// Idle leaves the tunnel in the FAR.
func (s *SMF) Idle(seid uint64) error {
	return s.change(seid, ie.NewUpdateFAR(ie.NewFARID(s.live[seid].downlinkFAR),
		ie.NewApplyAction(smf.Buffer|smf.NotifyCP), ie.NewBARID(1)))
}

// Query asks for both URRs, and grants new quotas whose validity time is zero.
func (s *SMF) Query(seid uint64) error {
	n := s.live[seid]
	var ies []*ie.IE
	for _, urr := range []uint32{n.beforeQoS, n.afterQoS} {
		ies = append(ies, ie.NewQueryURR(ie.NewURRID(urr)),
			ie.NewUpdateURR(ie.NewURRID(urr), ie.NewMeasurementMethod(0, 1, 0), triggers(),
				ie.NewMeasurementPeriod(reportingPeriod),
				ie.NewVolumeThreshold(0x07, 2*threshold, threshold, threshold),
				ie.NewVolumeQuota(0x07, quota, quota, quota), ie.NewQuotaValidityTime(0)))
	}
	return s.change(seid, ies...)
}

// Delete sends nothing but the header.
func (s *SMF) Delete(seid uint64) error {
	delete(s.live, seid)
	return s.client.End(seid, 0, 0)
}
