package smf

import (
	"fmt"
	"strings"

	"github.com/wmnsk/go-pfcp/ie"
	"github.com/wmnsk/go-pfcp/message"
)

// Apply Action (TS 29.244 §8.2.26), F-TEID flags (§8.2.3), PFCPSMReq-Flags (§8.2.63).
const (
	Drop, Forward, Buffer, NotifyCP                  = 0x01, 0x02, 0x04, 0x08
	FTEIDIPv4, FTEIDIPv6, FTEIDChoose, FTEIDChooseID = 0x01, 0x02, 0x04, 0x08
	SendEndMarker                                    = 0x02
)

// UE is a user's equipment and what it asks for; without an address of a family it has none.
type UE struct {
	IPv4 string `json:"ipv4"`
	IPv6 string `json:"ipv6"` // the first address of its /64
	// Variant names one of the ways that the SMF can be configured to serve it; "" is the usual one.
	Variant string `json:"variant"`
	// Framed routes as RADIUS writes them (RFC 2865 §5.22, RFC 3162 §2.5).
	FramedRoutes     []string `json:"framed_routes"`
	FramedIPv6Routes []string `json:"framed_ipv6_routes"`
	// Next is the tunnel of the other UPF on N9; without an address there is none.
	Next Tunnel `json:"next"`
	// Redirect is the URL to which HTTP is redirected; "" is none.
	Redirect string `json:"redirect"`
}

// Tunnel is one end of a GTP-U tunnel.
type Tunnel struct {
	Address string `json:"address"`
	TEID    uint32 `json:"teid"`
}

// OuterHeaderCreation leads into the tunnel.
func (t Tunnel) OuterHeaderCreation() *ie.IE {
	if strings.Contains(t.Address, ":") {
		return ie.NewOuterHeaderCreation(0x0200, t.TEID, "", t.Address, 0, 0, 0)
	}
	return ie.NewOuterHeaderCreation(0x0100, t.TEID, t.Address, "", 0, 0, 0)
}

// Procedures is the life of PDU sessions in the words of one SMF. Sessions are named by the SMF's SEID, and sessions
// of several UEs may live at once; procedures come one after the other.
type Procedures interface {
	Associate() error
	// Establish sets a session up before the gNB is known, and returns the UPF's tunnels by PDR.
	Establish(seid uint64, ue UE) (map[uint16]Tunnel, error)
	// Activate is the N2 answer, with the gNB's tunnel: the first one, or one after Idle.
	Activate(seid uint64, gnb Tunnel) error
	// Handover moves the downlink to another gNB.
	Handover(seid uint64, gnb Tunnel) error
	// Idle is the release of the access network: downlink packets wait, and wake the UE.
	Idle(seid uint64) error
	Delete(seid uint64) error
}

// Querier is an SMF that asks for usage while the session lives.
type Querier interface {
	Query(seid uint64) error
}

// Flows is an SMF that adds a QoS flow to a session.
type Flows interface {
	// AddFlow sends what the flow description matches with a QFI of its own, and returns the UPF's tunnels by PDR.
	AddFlow(seid uint64, description string) (map[uint16]Tunnel, error)
	ChangeFlow(seid uint64, description string) error
	RemoveFlow(seid uint64) error
}

// IndirectForwarder is an SMF that forwards downlink packets of the old gNB to the new one during a handover.
type IndirectForwarder interface {
	Forward(seid uint64, gnb Tunnel) (map[uint16]Tunnel, error)
	StopForwarding(seid uint64) error
}

// Gater is an SMF that closes and opens gates.
type Gater interface {
	Gate(seid uint64, closed bool) error
}

// Granted is an answer of online charging; what is 0 is not granted.
type Granted struct {
	Octets  uint64 `json:"octets"`
	Seconds uint32 `json:"seconds"`
	// SecondsThreshold is how much of Seconds is left when the OCS asks for a report.
	SecondsThreshold uint32 `json:"seconds_threshold"`
	Validity         uint32 `json:"validity"` // seconds
}

// Granter is an SMF that hands on what is granted online, counted from the last usage report.
type Granter interface {
	Grant(seid uint64, granted Granted) error
}

// Restorer is an SMF that sets sessions up again under the F-TEIDs that they had.
type Restorer interface {
	// Restore sets the session up under the SEID now, which may be the one that it had.
	Restore(seid, now uint64) (map[uint16]Tunnel, error)
}

// Tunnelled is an SMF to which the UPF gives tunnels after the establishment, too.
type Tunnelled interface {
	Tunnels(seid uint64) map[uint16]Tunnel
}

// Applications is an SMF that sends what an application is known by with a QFI of its own.
type Applications interface {
	AddApplication(seid uint64, application string) (map[uint16]Tunnel, error)
}

// Pager is an SMF that notifies the UPF when it has paged in vain.
type Pager interface {
	// PageInVain says whether the next reports of downlink data are answered so.
	PageInVain(vain bool)
}

// Node is the SMF's Node ID.
func (c *Client) Node() *ie.IE { return ie.NewNodeIDHeuristic(c.NodeID) }

// FSEID is the SMF's F-SEID, with its address.
func (c *Client) FSEID(seid uint64) *ie.IE {
	if v4 := c.address.To4(); v4 != nil {
		return ie.NewFSEID(seid, v4, nil)
	}
	return ie.NewFSEID(seid, nil, c.address)
}

// Begin establishes a session, and returns the UPF's tunnels by PDR.
func (c *Client) Begin(seid uint64, ies ...*ie.IE) (map[uint16]Tunnel, error) {
	c.mu.Lock()
	c.ledger.begin(seid)
	c.mu.Unlock()
	m := message.NewSessionEstablishmentRequest(0, 0, 0, c.NextSequence(), 0, ies...)
	response, err := request[*message.SessionEstablishmentResponse](c, m)
	if err != nil {
		return nil, err
	}
	established, err := ReadEstablished(response, seid)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	c.upSEIDs[seid] = established.SEID
	c.addresses[seid] = addressOf(response.CreatedPDR)
	c.mu.Unlock()
	return tunnels(response.CreatedPDR)
}

// Change modifies a session, adds the usage that is reported, and returns the UPF's new tunnels by PDR.
func (c *Client) Change(seid uint64, ies ...*ie.IE) (map[uint16]Tunnel, error) {
	m := message.NewSessionModificationRequest(0, 0, c.UPSEID(seid), c.NextSequence(), 0, ies...)
	response, err := request[*message.SessionModificationResponse](c, m)
	if err != nil {
		return nil, err
	}
	if err := accepted(response.Cause); err != nil {
		return nil, err
	}
	if response.SEID() != seid {
		return nil, fmt.Errorf("response for SEID %#x, expected %#x", response.SEID(), seid)
	}
	if err := c.charge(seid, response.UsageReport); err != nil {
		return nil, err
	}
	return tunnels(response.CreatedPDR)
}

// End deletes a session and adds the usage that is reported. With mp 1 the request has a message priority.
func (c *Client) End(seid uint64, mp, priority uint8, ies ...*ie.IE) error {
	m := message.NewSessionDeletionRequest(mp, 0, c.UPSEID(seid), c.NextSequence(), priority, ies...)
	response, err := request[*message.SessionDeletionResponse](c, m)
	if err != nil {
		return err
	}
	if err := accepted(response.Cause); err != nil {
		return err
	}
	return c.charge(seid, response.UsageReport)
}

// UPSEID is the UPF's SEID of a session; 0 where there is none.
func (c *Client) UPSEID(seid uint64) uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.upSEIDs[seid]
}

// Address is the UE's IPv4 address that the UPF chose for a session; "" if it chose none.
func (c *Client) Address(seid uint64) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.addresses[seid]
}

func addressOf(created []*ie.IE) string {
	for _, group := range created {
		if fields, err := group.UEIPAddress(); err == nil && fields.IPv4Address != nil {
			return fields.IPv4Address.String()
		}
	}
	return ""
}

// PFD is one that an application is known by; what is empty is left out. More domain names come with a protocol each, which
// may be empty.
type PFD struct {
	Flow        string   `json:"flow"`
	URL         string   `json:"url"`
	Domain      string   `json:"domain"`
	Protocol    string   `json:"protocol"`
	MoreFlows   []string `json:"more_flows"`
	MoreURLs    []string `json:"more_urls"`
	MoreDomains []string `json:"more_domains"`
}

func (p PFD) context() *ie.IE {
	return ie.NewPFDContext(ie.NewPFDContents(p.Flow, p.URL, p.Domain, "", p.Protocol, p.MoreFlows, p.MoreURLs, p.MoreDomains))
}

// ProvisionPFDs sends the UPF what an application is known by.
func (c *Client) ProvisionPFDs(application string, pfds ...PFD) error {
	ies := []*ie.IE{ie.NewApplicationID(application)}
	for _, pfd := range pfds {
		ies = append(ies, pfd.context())
	}
	m := message.NewPFDManagementRequest(c.NextSequence(), ie.NewApplicationIDsPFDs(ies...))
	response, err := request[*message.PFDManagementResponse](c, m)
	if err != nil {
		return err
	}
	return accepted(response.Cause)
}

// TakePartialPFDs tells the UPF that part of a request about PFDs may be accepted (PAPFD), and returns its features then.
func (c *Client) TakePartialPFDs() ([]byte, error) {
	m := message.NewAssociationUpdateRequest(c.NextSequence(), ie.NewNodeIDHeuristic(c.NodeID),
		ie.New(ie.CPFunctionFeatures, []byte{0, 0x04}))
	response, err := request[*message.AssociationUpdateResponse](c, m)
	if err != nil {
		return nil, err
	}
	if err := accepted(response.Cause); err != nil {
		return nil, err
	}
	return response.UPFunctionFeatures.UPFunctionFeatures()
}

// pfdPartialFailureInformation is the type of an IE of R19, which go-pfcp has not.
const pfdPartialFailureInformation = 397

// ProvisionSeveral sends what several applications are known by, and returns the cause of the response, and that of each
// application that has failed.
func (c *Client) ProvisionSeveral(applications map[string][]PFD) (uint8, map[string]uint8, error) {
	var all []*ie.IE
	for application, pfds := range applications {
		ies := []*ie.IE{ie.NewApplicationID(application)}
		for _, pfd := range pfds {
			ies = append(ies, pfd.context())
		}
		all = append(all, ie.NewApplicationIDsPFDs(ies...))
	}
	response, err := request[*message.PFDManagementResponse](c, message.NewPFDManagementRequest(c.NextSequence(), all...))
	if err != nil {
		return 0, nil, err
	}
	cause, err := response.Cause.Cause()
	if err != nil {
		return 0, nil, err
	}
	failed := map[string]uint8{}
	for _, one := range response.IEs {
		if one.Type != pfdPartialFailureInformation {
			continue
		}
		members, err := ie.ParseMultiIEs(one.Payload)
		if err != nil {
			return 0, nil, err
		}
		if len(members) != 2 {
			return 0, nil, fmt.Errorf("%d members of PFD Partial Failure Information", len(members))
		}
		application, err := members[0].ApplicationID()
		if err != nil {
			return 0, nil, err
		}
		if failed[application], err = members[1].Cause(); err != nil {
			return 0, nil, err
		}
	}
	return cause, failed, nil
}

// tunnels reads the F-TEIDs over IPv4 of Created PDRs.
func tunnels(created []*ie.IE) (map[uint16]Tunnel, error) {
	found := map[uint16]Tunnel{}
	for _, group := range created {
		id, err := group.PDRID()
		if err != nil {
			return nil, err
		}
		member, err := group.FindByType(ie.FTEID)
		if err != nil {
			continue
		}
		fields, err := member.FTEID()
		if err != nil {
			return nil, err
		}
		found[id] = Tunnel{fields.IPv4Address.String(), fields.TEID}
	}
	return found, nil
}
