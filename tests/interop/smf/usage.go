package smf

import (
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/wmnsk/go-pfcp/ie"
	"github.com/wmnsk/go-pfcp/message"
)

// Usage is the volume that one URR measured, in octets: what passed QoS enforcement, and the total before it where the
// URR measures that (MBQE), in reports of their own (TS 29.244 §5.2.2.3.1).
type Usage struct {
	URR       uint32  `json:"urr"`
	Total     uint64  `json:"total"`
	Uplink    uint64  `json:"uplink"`
	Downlink  uint64  `json:"downlink"`
	BeforeQoS *uint64 `json:"before_qos,omitempty"`
	Seconds   uint64  `json:"seconds,omitempty"` // measured, where the URR measures time
}

// Report is what a Session Report Request of the UPF says, as far as SMFs look at it here.
type Report struct {
	SEID         uint64   `json:"seid"`          // ours
	DownlinkData []uint16 `json:"downlink_data"` // the PDRs of a Downlink Data Report
	Usage        int      `json:"usage"`         // how many usage reports
	Triggers     []uint32 `json:"triggers"`      // why each of them was made: octet 5 in the low byte
}

// number is what a usage report is known by: the session by our SEID, the URR, UR-SEQN (TS 29.244 §8.2.71), and whether
// it is of usage before QoS enforcement.
type number struct {
	seid          uint64
	urr, sequence uint32
	beforeQoS     bool
}

// ledger sums what was reported, however it came: by our SEID, then by URR. What comes a second time under its number
// is not added again, and is to be the same.
type ledger struct {
	sums     map[uint64]map[uint32]Usage
	told     map[number]string
	repeated int
	// Numbers that came with two contents.
	contradictions []string
}

func newLedger() ledger {
	return ledger{sums: map[uint64]map[uint32]Usage{}, told: map[number]string{}}
}

// begin forgets the numbers of a session that had this SEID before.
func (l *ledger) begin(seid uint64) {
	for one := range l.told {
		if one.seid == seid {
			delete(l.told, one)
		}
	}
}

func (l *ledger) add(seid uint64, reports []*ie.IE) error {
	for _, report := range reports {
		usage, err := readUsage(report)
		if err != nil {
			return err
		}
		isNew, err := l.note(seid, usage.URR, report)
		if err != nil {
			return err
		}
		if isNew {
			l.sum(seid, usage, isBeforeQoS(report))
		}
	}
	return nil
}

// note remembers a report by its number, and returns whether it is the first one with it.
func (l *ledger) note(seid uint64, urr uint32, report *ie.IE) (bool, error) {
	sequence, err := report.FindByType(ie.URSEQN)
	if err != nil {
		return false, err
	}
	value, err := sequence.URSEQN()
	if err != nil {
		return false, err
	}
	content, err := contentOf(report)
	if err != nil {
		return false, err
	}
	of := number{seid, urr, value, isBeforeQoS(report)}
	before, isKnown := l.told[of]
	if isKnown {
		l.repeated++
		if before != content {
			l.contradictions = append(l.contradictions, fmt.Sprintf("%+v: %s, then %s", of, before, content))
		}
	}
	l.told[of] = content
	return !isKnown, nil
}

// contentOf is all that a report says, in hexadecimal digits, whichever message it is in.
func contentOf(report *ie.IE) (string, error) {
	var content []byte
	for _, member := range report.ChildIEs {
		octets, err := member.Marshal()
		if err != nil {
			return "", err
		}
		content = append(content, octets...)
	}
	return hex.EncodeToString(content), nil
}

func (l *ledger) sum(seid uint64, usage Usage, beforeQoS bool) {
	if l.sums[seid] == nil {
		l.sums[seid] = map[uint32]Usage{}
	}
	sum := l.sums[seid][usage.URR]
	sum.URR = usage.URR
	if beforeQoS {
		before := usage.Total
		if sum.BeforeQoS != nil {
			before += *sum.BeforeQoS
		}
		sum.BeforeQoS = &before
	} else {
		sum.Total += usage.Total
		sum.Uplink += usage.Uplink
		sum.Downlink += usage.Downlink
		sum.Seconds += usage.Seconds
	}
	l.sums[seid][usage.URR] = sum
}

// Told is how usage reports came.
type Told struct {
	Numbers        int      `json:"numbers"`        // that there were
	Repeated       int      `json:"repeated"`       // reports that had come before
	Contradictions []string `json:"contradictions"` // numbers that came with two contents
}

// Told is how usage reports have come so far.
func (c *Client) Told() Told {
	c.mu.Lock()
	defer c.mu.Unlock()
	contradictions := append([]string{}, c.ledger.contradictions...)
	return Told{Numbers: len(c.ledger.told), Repeated: c.ledger.repeated, Contradictions: contradictions}
}

// isBeforeQoS reports whether a report is of usage before QoS enforcement (UBE of TS 29.244 §8.2.91).
func isBeforeQoS(report *ie.IE) bool {
	information, err := report.FindByType(ie.UsageInformation)
	return err == nil && len(information.Payload) > 0 && information.Payload[0]&0x08 != 0
}

// Charged is the sum of all usage reports of a session so far, by URR.
func (c *Client) Charged(seid uint64) []Usage {
	c.mu.Lock()
	defer c.mu.Unlock()
	charged := []Usage{}
	for _, usage := range c.ledger.sums[seid] {
		charged = append(charged, usage)
	}
	slices.SortFunc(charged, func(a, b Usage) int { return int(a.URR) - int(b.URR) })
	return charged
}

func (c *Client) charge(seid uint64, reports []*ie.IE) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ledger.add(seid, reports)
}

// canRead reports whether the Usage Reports of a message have nothing in them that the codec does not know.
func (c *Client) canRead(m message.Message) bool {
	var reports []*ie.IE
	switch m := m.(type) {
	case *message.SessionReportRequest:
		reports = m.UsageReport
	case *message.SessionModificationResponse:
		reports = m.UsageReport
	case *message.SessionDeletionResponse:
		reports = m.UsageReport
	}
	for _, report := range reports {
		for _, unknown := range c.CannotRead {
			if _, err := report.FindByType(unknown); err == nil {
				return false
			}
		}
	}
	return true
}

// takeReport adds the usage of a Session Report Request and makes the response.
func (c *Client) takeReport(m *message.SessionReportRequest) *message.SessionReportResponse {
	report := Report{SEID: m.SEID(), DownlinkData: []uint16{}, Usage: len(m.UsageReport), Triggers: []uint32{}}
	for _, usage := range m.UsageReport {
		report.Triggers = append(report.Triggers, readTriggers(usage))
	}
	cause := ie.NewCause(ie.CauseRequestAccepted)
	if err := c.charge(m.SEID(), m.UsageReport); err != nil {
		cause = ie.NewCause(ie.CauseRequestRejected)
	}
	if m.DownlinkDataReport != nil {
		for _, member := range m.DownlinkDataReport.ChildIEs {
			if pdr, err := member.PDRID(); member.Type == ie.PDRID && err == nil {
				report.DownlinkData = append(report.DownlinkData, pdr)
			}
		}
	}
	ies := []*ie.IE{cause}
	if c.AnswerReport != nil {
		ies = append(ies, c.AnswerReport(report)...)
	}
	select {
	case c.reports <- report:
	default:
	}
	c.mu.Lock()
	upSEID := c.upSEIDs[m.SEID()]
	c.mu.Unlock()
	return message.NewSessionReportResponse(0, 0, upSEID, m.Sequence(), 0, ies...)
}

// NextReport waits for the next Session Report Request.
func (c *Client) NextReport(patience time.Duration) (Report, error) {
	select {
	case report := <-c.reports:
		return report, nil
	case <-time.After(patience):
		return Report{}, errors.New("no Session Report Request")
	}
}

// Reports are the Session Report Requests that have come and no test waited for.
func (c *Client) Reports() []Report {
	reports := []Report{}
	for {
		select {
		case report := <-c.reports:
			reports = append(reports, report)
		default:
			return reports
		}
	}
}

func readTriggers(report *ie.IE) uint32 {
	trigger, err := report.FindByType(ie.UsageReportTrigger)
	if err != nil {
		return 0
	}
	var triggers uint32
	for place, octet := range trigger.Payload {
		triggers |= uint32(octet) << (8 * place)
	}
	return triggers
}

func readUsage(report *ie.IE) (Usage, error) {
	id, err := report.FindByType(ie.URRID)
	if err != nil {
		return Usage{}, err
	}
	urr, err := id.URRID()
	if err != nil {
		return Usage{}, err
	}
	usage := Usage{URR: urr}
	if duration, err := report.FindByType(ie.DurationMeasurement); err == nil {
		measured, err := duration.DurationMeasurement()
		if err != nil {
			return Usage{}, err
		}
		usage.Seconds = uint64(measured / time.Second)
	}
	measurement, err := report.FindByType(ie.VolumeMeasurement)
	if err != nil {
		return usage, nil // it reports a time, or an event
	}
	volume, err := measurement.VolumeMeasurement()
	if err != nil {
		return Usage{}, err
	}
	usage.Total, usage.Uplink, usage.Downlink = volume.TotalVolume, volume.UplinkVolume, volume.DownlinkVolume
	return usage, nil
}
