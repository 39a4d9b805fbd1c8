package smf

import (
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/wmnsk/go-pfcp/ie"
	"github.com/wmnsk/go-pfcp/message"
)

// Session is what the tests want of a PDU session; empty fields are left out of the messages.
type Session struct {
	SEID           uint64 `json:"seid"` // the SMF's
	UEIPv4         string `json:"ue_ipv4"`
	UEIPv6         string `json:"ue_ipv6"`
	AccessInstance string `json:"access_instance"`
	CoreInstance   string `json:"core_instance"`
	QFI            uint8  `json:"qfi"`
	MBR            uint64 `json:"mbr"`        // of both directions, kbit/s; 0: 1 Gbit/s
	PacketsUp      uint16 `json:"packets_up"` // a minute, beside the bit rate; 0: no limit
	GNB            string `json:"gnb"`        // empty until the gNB is known: the downlink drops
	GNBTEID        uint32 `json:"gnb_teid"`
	SDF            string `json:"sdf"`            // a Flow Description on both PDRs
	ChooseFlags    uint8  `json:"choose_flags"`   // F-TEID flags of the uplink PDR; 0: CHOOSE, IPv4
	ChosenTEID     uint32 `json:"chosen_teid"`    // an F-TEID of the SMF's own choice,
	ChosenAddress  string `json:"chosen_address"` // with its address
	IMSI           string `json:"imsi"`           // of whom it is for, 15 digits
	DNN            string `json:"dnn"`            // and its DNN
	SST            uint8  `json:"sst"`            // and its slice: 0 is none,
	SD             uint32 `json:"sd"`             // with its differentiator
	// What the uplink FAR says of public addresses.
	NAT NAT `json:"nat"`
	// Rulebases that both PDRs activate.
	Activate []string `json:"activate"`
	// Applications, each with PDRs before the two and a URR of its own, whose IDs count from 11.
	Applications []string `json:"applications"`
	// What calls for reports and stops the traffic; without, a threshold that no test reaches.
	Charging *Charging `json:"charging"`
}

// Charging is what a URR says; what is 0 is left out.
type Charging struct {
	Threshold uint64 `json:"threshold"` // octets of both directions
	Quota     uint64 `json:"quota"`     // likewise
	Seconds   uint32 `json:"seconds"`   // a Measurement Period
}

// Triggers (TS 29.244 §8.2.19): PERIO and VOLTH of octet 5, VOLQU of octet 6.
const periodic, volumeThreshold, volumeQuota = 0x01, 0x02, 0x01

func (s Session) createURR() *ie.IE {
	wanted := Charging{Threshold: 1 << 40}
	if s.Charging != nil {
		wanted = *s.Charging
	}
	var triggers [2]uint8
	ies := []*ie.IE{ie.NewURRID(sessionURR), ie.NewMeasurementMethod(0, 1, 0)}
	if wanted.Threshold != 0 {
		triggers[0] |= volumeThreshold
		ies = append(ies, ie.NewVolumeThreshold(0x01, wanted.Threshold, 0, 0))
	}
	if wanted.Quota != 0 {
		triggers[1] |= volumeQuota
		ies = append(ies, ie.NewVolumeQuota(0x01, wanted.Quota, 0, 0))
	}
	if wanted.Seconds != 0 {
		triggers[0] |= periodic
		ies = append(ies, ie.NewMeasurementPeriod(time.Duration(wanted.Seconds)*time.Second))
	}
	return ie.NewCreateURR(append(ies, ie.NewReportingTriggers(triggers[:]...))...)
}

// Established is what the UPF answered.
type Established struct {
	SEID uint64 `json:"up_seid"`
	TEID uint32 `json:"teid"`
	N3   string `json:"n3"`
	// The public address and ports, if the UPF says them.
	Binding *Binding `json:"binding"`
}

const (
	uplinkPDR, downlinkPDR = 1, 2
	uplinkFAR, downlinkFAR = 1, 2
	sessionQER, sessionURR = 1, 1
)

func (s Session) uplinkFTEID() *ie.IE {
	if s.ChosenTEID != 0 {
		return ie.NewFTEID(FTEIDIPv4, s.ChosenTEID, net.ParseIP(s.ChosenAddress).To4(), nil, 0)
	}
	flags := s.ChooseFlags
	if flags == 0 {
		flags = FTEIDChoose | FTEIDIPv4
	}
	return ie.NewFTEID(flags, 0, nil, nil, 5)
}

// outerHeaderRemoval takes GTP-U, UDP and what the chosen F-TEID's addresses are of (TS 29.244 §8.2.64): 0 for IPv4, 1 for
// IPv6, 6 for either.
func (s Session) outerHeaderRemoval() *ie.IE {
	switch s.ChooseFlags & (FTEIDIPv4 | FTEIDIPv6) {
	case FTEIDIPv6:
		return ie.NewOuterHeaderRemoval(1, 0)
	case FTEIDIPv4 | FTEIDIPv6:
		return ie.NewOuterHeaderRemoval(6, 0)
	}
	return ie.NewOuterHeaderRemoval(0, 0)
}

func (s Session) ueAddress(isDestination uint8) *ie.IE {
	flags := isDestination << 2
	if s.UEIPv4 != "" {
		flags |= 0x02
	}
	if s.UEIPv6 != "" {
		flags |= 0x01
	}
	return ie.NewUEIPAddress(flags, s.UEIPv4, s.UEIPv6, 0, 0)
}

func (s Session) pdi(source uint8, instance string, match ...*ie.IE) *ie.IE {
	ies := []*ie.IE{ie.NewSourceInterface(source)}
	if instance != "" {
		ies = append(ies, ie.NewNetworkInstance(instance))
	}
	ies = append(ies, match...)
	if s.SDF != "" {
		ies = append(ies, ie.NewSDFFilter(s.SDF, "", "", "", 0))
	}
	return ie.NewPDI(ies...)
}

func (s Session) createPDRs() []*ie.IE {
	uplink := []*ie.IE{
		ie.NewPDRID(uplinkPDR), ie.NewPrecedence(255),
		s.pdi(ie.SrcInterfaceAccess, s.AccessInstance, s.uplinkFTEID(), s.ueAddress(0)),
		s.outerHeaderRemoval(), ie.NewFARID(uplinkFAR), ie.NewURRID(sessionURR), ie.NewQERID(sessionQER)}
	downlink := []*ie.IE{
		ie.NewPDRID(downlinkPDR), ie.NewPrecedence(255),
		s.pdi(ie.SrcInterfaceCore, s.CoreInstance, s.ueAddress(1)),
		ie.NewFARID(downlinkFAR), ie.NewURRID(sessionURR), ie.NewQERID(sessionQER)}
	for _, rulebase := range s.Activate {
		uplink = append(uplink, ie.NewActivatePredefinedRules(rulebase))
		downlink = append(downlink, ie.NewActivatePredefinedRules(rulebase))
	}
	all := []*ie.IE{ie.NewCreatePDR(uplink...), ie.NewCreatePDR(downlink...)}
	for place, application := range s.Applications {
		all = append(all, s.createApplicationPDRs(place, application)...)
	}
	return all
}

// applicationURR is the URR of the application at this place.
func applicationURR(place int) uint32 { return uint32(11 + place) }

func (s Session) createApplicationPDRs(place int, application string) []*ie.IE {
	precedence, urr := ie.NewPrecedence(uint32(100+place)), ie.NewURRID(applicationURR(place))
	id := ie.NewApplicationID(application)
	return []*ie.IE{
		ie.NewCreatePDR(ie.NewPDRID(uint16(11+2*place)), precedence,
			s.pdi(ie.SrcInterfaceAccess, s.AccessInstance, s.uplinkFTEID(), s.ueAddress(0), id),
			s.outerHeaderRemoval(), ie.NewFARID(uplinkFAR), urr, ie.NewQERID(sessionQER)),
		ie.NewCreatePDR(ie.NewPDRID(uint16(12+2*place)), precedence,
			s.pdi(ie.SrcInterfaceCore, s.CoreInstance, s.ueAddress(1), id),
			ie.NewFARID(downlinkFAR), urr, ie.NewQERID(sessionQER)),
	}
}

// createApplicationURRs are URRs with thresholds that no test reaches.
func (s Session) createApplicationURRs() []*ie.IE {
	var all []*ie.IE
	for place := range s.Applications {
		all = append(all, ie.NewCreateURR(ie.NewURRID(applicationURR(place)), ie.NewMeasurementMethod(0, 1, 0),
			ie.NewVolumeThreshold(0x01, 1<<40, 0, 0), ie.NewReportingTriggers(volumeThreshold, 0)))
	}
	return all
}

func (s Session) forwarding(destination uint8, instance string, more ...*ie.IE) []*ie.IE {
	ies := []*ie.IE{ie.NewDestinationInterface(destination)}
	if instance != "" {
		ies = append(ies, ie.NewNetworkInstance(instance))
	}
	return append(ies, more...)
}

func (s Session) toGNB() []*ie.IE {
	return s.forwarding(ie.DstInterfaceAccess, s.AccessInstance,
		Tunnel{s.GNB, s.GNBTEID}.OuterHeaderCreation())
}

func (s Session) createFARs() []*ie.IE {
	uplink := ie.NewCreateFAR(ie.NewFARID(uplinkFAR), ie.NewApplyAction(Forward),
		ie.NewForwardingParameters(s.forwarding(ie.DstInterfaceCore, s.CoreInstance, s.NAT.ies()...)...))
	downlink := ie.NewCreateFAR(ie.NewFARID(downlinkFAR), ie.NewApplyAction(Drop))
	if s.GNB != "" {
		downlink = ie.NewCreateFAR(ie.NewFARID(downlinkFAR), ie.NewApplyAction(Forward),
			ie.NewForwardingParameters(s.toGNB()...))
	}
	return []*ie.IE{uplink, downlink}
}

func (s Session) maximum() *ie.IE {
	if s.MBR == 0 {
		return ie.NewMBR(1_000_000, 1_000_000)
	}
	return ie.NewMBR(s.MBR, s.MBR)
}

func (s Session) createQER() *ie.IE {
	ies := []*ie.IE{ie.NewQERID(sessionQER), ie.NewGateStatus(ie.GateStatusOpen, ie.GateStatusOpen), s.maximum(), ie.NewQFI(s.QFI)}
	if s.PacketsUp != 0 {
		const uplink, minutes = 0x01, 0
		ies = append(ies, ie.NewPacketRate(uplink, minutes, s.PacketsUp, 0, 0))
	}
	return ie.NewCreateQER(ies...)
}

// EstablishmentRequest builds the request of a session with one flow each way, one QER and one URR.
func (c *Client) EstablishmentRequest(s Session) *message.SessionEstablishmentRequest {
	ies := []*ie.IE{
		ie.NewNodeIDHeuristic(c.NodeID),
		c.FSEID(s.SEID),
	}
	ies = append(ies, s.createPDRs()...)
	ies = append(ies, s.createFARs()...)
	ies = append(ies, s.createApplicationURRs()...)
	ies = append(ies,
		s.createURR(),
		s.createQER(),
		ie.NewPDNType(ie.PDNTypeIPv4))
	if s.IMSI != "" {
		ies = append(ies, ie.NewUserID(0x01, s.IMSI, "", "", ""))
	}
	if s.DNN != "" {
		ies = append(ies, ie.NewAPNDNN(s.DNN))
	}
	if s.SST != 0 {
		ies = append(ies, ie.NewSNSSAI(s.SST, s.SD))
	}
	return message.NewSessionEstablishmentRequest(0, 0, 0, c.NextSequence(), 0, ies...)
}

// Establish sets the session up.
func (c *Client) Establish(s Session) (Established, error) {
	response, err := request[*message.SessionEstablishmentResponse](c, c.EstablishmentRequest(s))
	if err != nil {
		return Established{}, err
	}
	established, err := ReadEstablished(response, s.SEID)
	if err == nil {
		c.mu.Lock()
		c.upSEIDs[s.SEID] = established.SEID
		c.mu.Unlock()
	}
	return established, err
}

// ReadEstablished reads the UPF's SEID and the chosen F-TEID; seid is the SMF's own.
func ReadEstablished(response *message.SessionEstablishmentResponse, seid uint64) (Established, error) {
	if err := accepted(response.Cause); err != nil {
		return Established{}, err
	}
	if response.SEID() != seid {
		return Established{}, fmt.Errorf("response for SEID %#x, expected %#x", response.SEID(), seid)
	}
	if response.UPFSEID == nil {
		return Established{}, errors.New("no UP F-SEID")
	}
	fseid, err := response.UPFSEID.FSEID()
	if err != nil {
		return Established{}, err
	}
	answer := Established{SEID: fseid.SEID}
	if answer.Binding, err = readBinding(response.IEs); err != nil {
		return Established{}, err
	}
	for _, created := range response.CreatedPDR {
		fteid, err := created.FindByType(ie.FTEID)
		if err != nil {
			continue
		}
		fields, err := fteid.FTEID()
		if err != nil {
			return Established{}, err
		}
		answer.TEID, answer.N3 = fields.TEID, fields.IPv4Address.String()
		if fields.IPv4Address == nil {
			answer.N3 = fields.IPv6Address.String()
		}
	}
	return answer, nil
}

// SetGNB points the downlink at the gNB, as after the N2 answer.
func (c *Client) SetGNB(upSEID uint64, s Session) error {
	return c.Modify(upSEID, ie.NewUpdateFAR(ie.NewFARID(downlinkFAR), ie.NewApplyAction(Forward),
		ie.NewUpdateForwardingParameters(s.toGNB()...)))
}

// SetGate opens (0) or closes (1) the gates of the session's QER.
func (c *Client) SetGate(upSEID uint64, uplink, downlink uint8) error {
	return c.Modify(upSEID, ie.NewUpdateQER(ie.NewQERID(sessionQER), ie.NewGateStatus(uplink, downlink)))
}

// SetQFI changes the QFI of the session's QER.
func (c *Client) SetQFI(upSEID uint64, qfi uint8) error {
	return c.Modify(upSEID, ie.NewUpdateQER(ie.NewQERID(sessionQER), ie.NewQFI(qfi)))
}

// SetRedirect redirects the HTTP of the uplink FAR to a URL; to "" it does so no longer.
func (c *Client) SetRedirect(upSEID uint64, url string) error {
	const addressIsURL = 2
	information := ie.New(ie.RedirectInformation, nil)
	if url != "" {
		information = ie.NewRedirectInformation(addressIsURL, url)
	}
	parameters := ie.NewUpdateForwardingParameters(information)
	return c.Modify(upSEID, ie.NewUpdateFAR(ie.NewFARID(uplinkFAR), parameters))
}

// Modify sends a modification with these IEs.
func (c *Client) Modify(upSEID uint64, ies ...*ie.IE) error {
	m := message.NewSessionModificationRequest(0, 0, upSEID, c.NextSequence(), 0, ies...)
	response, err := request[*message.SessionModificationResponse](c, m)
	if err != nil {
		return err
	}
	return accepted(response.Cause)
}

// Delete deletes the session and returns its final usage reports.
func (c *Client) Delete(upSEID uint64) ([]Usage, error) {
	m := message.NewSessionDeletionRequest(0, 0, upSEID, c.NextSequence(), 0)
	response, err := request[*message.SessionDeletionResponse](c, m)
	if err != nil {
		return nil, err
	}
	if err := accepted(response.Cause); err != nil {
		return nil, err
	}
	var reports []Usage
	for _, report := range response.UsageReport {
		usage, err := readUsage(report)
		if err != nil {
			return nil, err
		}
		reports = append(reports, usage)
	}
	return reports, nil
}
