// Package smf is an SMF made of go-pfcp: a codec that shares nothing with Sluice's. It drives one UPF over N4 and
// keeps the raw bytes of what it got, so that a test can compare them.
package smf

import (
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/wmnsk/go-pfcp/ie"
	"github.com/wmnsk/go-pfcp/message"
)

// Timeout bounds the wait for each response.
const Timeout = 3 * time.Second

// ErrTimeout says that the UPF did not answer.
var ErrTimeout = errors.New("no response from the UPF")

// Client is one PFCP entity: an association and its sessions.
type Client struct {
	// NodeID is an address or a domain name; the local address unless changed before the association.
	NodeID string
	// AnswerReport adds to the answer to a Session Report Request, which has Cause alone where this is nil.
	AnswerReport func(Report) []*ie.IE
	// CannotRead are types of IEs in Usage Reports that the codec does not know: a message with one is dropped whole.
	CannotRead []uint16
	// T1 is the wait for each response, and N1 how often a request is sent (TS 29.244 §6.4). A kill of the UPF between
	// request and response takes more than one.
	T1 time.Duration
	N1 int
	// IsLost says whether the response to a Session Report Request is lost on its way; nil: none is.
	IsLost func() bool
	// AnswerSetup makes the answer to an Association Setup Request of the UPF; where it is nil there is none.
	AnswerSetup func() *message.AssociationSetupResponse

	conn     *net.UDPConn
	upf      *net.UDPAddr
	address  net.IP
	recovery time.Time
	reports  chan Report
	setups   chan struct{}

	mu        sync.Mutex
	sequence  uint32
	waiting   map[uint32]chan []byte
	upSEIDs   map[uint64]uint64 // the UPF's SEIDs by ours
	addresses map[uint64]string // of UEs, that the UPF chose, by our SEIDs
	ledger    ledger
}

// Dial opens the SMF's socket on local (address:port) towards the UPF.
func Dial(local, upf string) (*Client, error) {
	localAddr, err := net.ResolveUDPAddr("udp", local)
	if err != nil {
		return nil, err
	}
	upfAddr, err := net.ResolveUDPAddr("udp", upf)
	if err != nil {
		return nil, err
	}
	conn, err := net.ListenUDP("udp", localAddr)
	if err != nil {
		return nil, err
	}
	c := &Client{
		NodeID: localAddr.IP.String(), conn: conn, upf: upfAddr, address: localAddr.IP, recovery: time.Now(),
		reports: make(chan Report, 1024), waiting: map[uint32]chan []byte{}, upSEIDs: map[uint64]uint64{},
		setups: make(chan struct{}, 1), addresses: map[uint64]string{},
		ledger: newLedger(), T1: Timeout, N1: 1,
	}
	go c.receive()
	return c, nil
}

// Close ends the client; the association stays as it is.
func (c *Client) Close() { c.conn.Close() }

func (c *Client) receive() {
	buffer := make([]byte, 65535)
	for {
		n, from, err := c.conn.ReadFromUDP(buffer)
		if err != nil {
			return
		}
		raw := append([]byte(nil), buffer[:n]...)
		m, err := message.Parse(raw)
		if err != nil || !c.canRead(m) {
			continue
		}
		switch m := m.(type) {
		case *message.HeartbeatRequest:
			c.answer(from, message.NewHeartbeatResponse(m.Sequence(), ie.NewRecoveryTimeStamp(c.recovery)))
		case *message.SessionReportRequest:
			response := c.takeReport(m)
			if c.IsLost == nil || !c.IsLost() {
				c.answer(from, response)
			}
		case *message.AssociationSetupRequest:
			c.answerSetup()
		default:
			c.mu.Lock()
			waiter := c.waiting[m.Sequence()]
			c.mu.Unlock()
			if waiter != nil {
				select {
				case waiter <- raw:
				default:
				}
			}
		}
	}
}

// answerSetup answers the UPF at the port of its own that is configured, wherever it asked from.
func (c *Client) answerSetup() {
	if c.AnswerSetup == nil {
		return
	}
	c.answer(c.upf, c.AnswerSetup())
	select {
	case c.setups <- struct{}{}:
	default:
	}
}

// AwaitSetup waits until an Association Setup Request of the UPF has been answered.
func (c *Client) AwaitSetup(patience time.Duration) error {
	select {
	case <-c.setups:
		return nil
	case <-time.After(patience):
		return errors.New("no Association Setup Request")
	}
}

// Recovery is when the SMF started.
func (c *Client) Recovery() *ie.IE { return ie.NewRecoveryTimeStamp(c.recovery) }

func (c *Client) answer(to *net.UDPAddr, m marshaller) {
	if raw, err := marshal(m); err == nil {
		_, _ = c.conn.WriteToUDP(raw, to)
	}
}

// NextSequence gives the sequence number of the next request.
func (c *Client) NextSequence() uint32 {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sequence = c.sequence%0xffffff + 1
	return c.sequence
}

// Exchange sends raw bytes, again while nothing comes, and waits for the message with this sequence number.
func (c *Client) Exchange(raw []byte, sequence uint32) ([]byte, error) {
	waiter := make(chan []byte, 4)
	c.mu.Lock()
	c.waiting[sequence] = waiter
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		delete(c.waiting, sequence)
		c.mu.Unlock()
	}()
	for range c.N1 {
		if err := c.Send(raw); err != nil {
			return nil, err
		}
		select {
		case response := <-waiter:
			return response, nil
		case <-time.After(c.T1):
		}
	}
	return nil, ErrTimeout
}

// Send sends bytes and waits for nothing.
func (c *Client) Send(raw []byte) error {
	_, err := c.conn.WriteToUDP(raw, c.upf)
	return err
}

type marshaller interface {
	MarshalLen() int
	MarshalTo([]byte) error
}

func marshal(m marshaller) ([]byte, error) {
	raw := make([]byte, m.MarshalLen())
	return raw, m.MarshalTo(raw)
}

// request marshals m, sends it and parses the response.
func request[R message.Message](c *Client, m message.Message) (R, error) {
	var none R
	raw, err := marshal(m)
	if err != nil {
		return none, err
	}
	answer, err := c.Exchange(raw, m.Sequence())
	if err != nil {
		return none, fmt.Errorf("%s: %w", m.MessageTypeName(), err)
	}
	parsed, err := message.Parse(answer)
	if err != nil {
		return none, fmt.Errorf("response to %s: %w", m.MessageTypeName(), err)
	}
	response, ok := parsed.(R)
	if !ok {
		return none, fmt.Errorf("response to %s is a %s", m.MessageTypeName(), parsed.MessageTypeName())
	}
	return response, nil
}

// Heartbeat asks for the UPF's recovery time stamp.
func (c *Client) Heartbeat() (time.Time, error) {
	m := message.NewHeartbeatRequest(c.NextSequence(), ie.NewRecoveryTimeStamp(c.recovery), nil)
	response, err := request[*message.HeartbeatResponse](c, m)
	if err != nil {
		return time.Time{}, err
	}
	return response.RecoveryTimeStamp.RecoveryTimeStamp()
}

// Associate sets the association up, with more IEs if any, and returns the UP function features.
func (c *Client) Associate(more ...*ie.IE) ([]byte, error) {
	ies := append([]*ie.IE{ie.NewNodeIDHeuristic(c.NodeID), ie.NewRecoveryTimeStamp(c.recovery)}, more...)
	m := message.NewAssociationSetupRequest(c.NextSequence(), ies...)
	response, err := request[*message.AssociationSetupResponse](c, m)
	if err != nil {
		return nil, err
	}
	if err := accepted(response.Cause); err != nil {
		return nil, err
	}
	if response.UPFunctionFeatures == nil {
		return nil, errors.New("no UP Function Features")
	}
	return response.UPFunctionFeatures.UPFunctionFeatures()
}

// Release releases the association.
func (c *Client) Release() error {
	m := message.NewAssociationReleaseRequest(c.NextSequence(), ie.NewNodeIDHeuristic(c.NodeID))
	response, err := request[*message.AssociationReleaseResponse](c, m)
	if err != nil {
		return err
	}
	return accepted(response.Cause)
}

// Refused is a response whose cause is not "Request accepted".
type Refused struct{ Cause uint8 }

func (r Refused) Error() string { return fmt.Sprintf("refused with cause %d", r.Cause) }

func accepted(cause *ie.IE) error {
	if cause == nil {
		return errors.New("no Cause in the response")
	}
	value, err := cause.Cause()
	if err != nil {
		return err
	}
	if value != ie.CauseRequestAccepted {
		return Refused{value}
	}
	return nil
}
