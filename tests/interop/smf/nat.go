package smf

import (
	"encoding/binary"
	"fmt"
	"net"

	"github.com/wmnsk/go-pfcp/ie"
	"github.com/wmnsk/go-pfcp/message"
)

// The Broadband Forum's IEs for CG-NAT (TR-459.2), and the group of Travelping's in which they come back.
const (
	broadbandForum, travelping = 3561, 18681
	vendor                     = 0x8000
	bbfUPFunctionFeatures      = vendor | 0
	bbfNATOutsideAddress       = vendor | 14
	bbfApplyAction             = vendor | 15
	bbfNATExternalPortRange    = vendor | 16
	bbfNATPortBlock            = vendor | 18
	tpCreatedNATBinding        = vendor | 10
	applyNAT                   = 0x01
)

// NAT is what the uplink FAR says of public addresses; what is empty is left out.
type NAT struct {
	Pool   string `json:"pool"`   // in BBF NAT Port Block
	Policy string `json:"policy"` // in Forwarding Policy
	Off    bool   `json:"off"`    // BBF Apply Action without NAT
}

func (n NAT) ies() []*ie.IE {
	var all []*ie.IE
	if n.Policy != "" {
		all = append(all, ie.NewForwardingPolicy(n.Policy))
	}
	if n.Pool != "" || n.Off {
		action := []byte{applyNAT}
		if n.Off {
			action[0] = 0
		}
		all = append(all, ie.NewVendorSpecificIE(bbfApplyAction, broadbandForum, action))
	}
	if n.Pool != "" {
		all = append(all, ie.NewVendorSpecificIE(bbfNATPortBlock, broadbandForum, []byte(n.Pool)))
	}
	return all
}

// Binding is the public address and the ports that a session got.
type Binding struct {
	Pool    string `json:"pool"`
	Address string `json:"address"`
	First   uint16 `json:"first"`
	Last    uint16 `json:"last"`
}

// readBinding reads the one among the IEs of a response; there may be none.
func readBinding(ies []*ie.IE) (*Binding, error) {
	for _, group := range ies {
		if group.Type != tpCreatedNATBinding || group.EnterpriseID != travelping {
			continue
		}
		members, err := ie.ParseMultiIEs(group.Payload)
		if err != nil {
			return nil, err
		}
		binding := &Binding{}
		for _, member := range members {
			if member.EnterpriseID != broadbandForum {
				return nil, fmt.Errorf("an IE of vendor %d", member.EnterpriseID)
			}
			value := member.Payload
			switch {
			case member.Type == bbfNATPortBlock:
				binding.Pool = string(value)
			case member.Type == bbfNATOutsideAddress && len(value) == net.IPv4len:
				binding.Address = net.IP(value).String()
			case member.Type == bbfNATExternalPortRange && len(value) == 4:
				binding.First, binding.Last = binary.BigEndian.Uint16(value), binary.BigEndian.Uint16(value[2:])
			default:
				return nil, fmt.Errorf("type %d with %d octets", member.Type, len(value))
			}
		}
		return binding, nil
	}
	return nil, nil
}

// SetNAT changes what the uplink FAR says, and returns the binding that the session got.
func (c *Client) SetNAT(upSEID uint64, nat NAT) (*Binding, error) {
	update := ie.NewUpdateFAR(ie.NewFARID(uplinkFAR), ie.NewUpdateForwardingParameters(nat.ies()...))
	m := message.NewSessionModificationRequest(0, 0, upSEID, c.NextSequence(), 0, update)
	response, err := request[*message.SessionModificationResponse](c, m)
	if err != nil {
		return nil, err
	}
	if err := accepted(response.Cause); err != nil {
		return nil, err
	}
	return readBinding(response.IEs)
}
