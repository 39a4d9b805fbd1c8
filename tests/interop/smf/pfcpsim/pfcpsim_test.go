// Package pfcpsim drives a UPF with omec-project's pfcpsim, the SMF with which SD-Core tests UPFs.
package pfcpsim

import (
	"fmt"
	"testing"
	"time"

	"github.com/omec-project/pfcpsim/logger"
	"github.com/omec-project/pfcpsim/pkg/pfcpsim"
	"github.com/omec-project/pfcpsim/pkg/pfcpsim/session"
	"github.com/wmnsk/go-pfcp/ie"
	"go.uber.org/zap/zapcore"

	"sluice/interop/smf/upf"
)

const (
	local, n3, gnb = "127.0.0.6", "10.100.0.1", "10.100.0.2"
	sessions       = 1000

	uplinkPDR, downlinkPDR             = 1, 2
	uplinkFAR, downlinkFAR             = 1, 2
	sessionQER, uplinkQER, downlinkQER = 4, 1, 2
	anything                           = "permit out ip from 0.0.0.0/0 to assigned"
)

// rules are what pfcpsim's own server makes of one application filter for the session of this number.
type rules struct{ pdrs, fars, qers, urrs []*ie.IE }

func create(number int) rules {
	ue := fmt.Sprintf("10.45.%d.%d", number/250, number%250+1)
	pdrs := []*ie.IE{
		session.NewPDRBuilder().WithID(uplinkPDR).WithMethod(session.Create).WithTEID(uint32(number + 1)).
			WithFARID(uplinkFAR).AddQERID(sessionQER).AddQERID(uplinkQER).WithN3Address(n3).
			WithSDFFilter(anything).WithPrecedence(100).MarkAsUplink().BuildPDR(),
		session.NewPDRBuilder().WithID(downlinkPDR).WithMethod(session.Create).WithUEAddress(ue).
			WithFARID(downlinkFAR).AddQERID(sessionQER).AddQERID(downlinkQER).WithSDFFilter(anything).
			WithPrecedence(100).MarkAsDownlink().BuildPDR(),
	}
	app := func(id uint32) *ie.IE {
		return session.NewQERBuilder().WithID(id).WithMethod(session.Create).WithQFI(9).
			WithUplinkMBR(50000).WithDownlinkMBR(30000).WithGateStatus(ie.GateStatusOpen).Build()
	}
	urr := func(id uint32) *ie.IE {
		return session.NewURRBuilder().WithID(id).WithMethod(session.Create).WithMeasurementMethod(0, 1, 0).
			WithMeasurementPeriod(time.Minute).
			WithReportingTrigger(session.ReportingTrigger{Flags: session.RPT_TRIG_PERIO}).Build()
	}
	return rules{
		pdrs: pdrs,
		fars: []*ie.IE{
			session.NewFARBuilder().WithID(uplinkFAR).WithAction(session.ActionForward).
				WithDstInterface(ie.DstInterfaceCore).WithMethod(session.Create).BuildFAR(),
			// It drops, and has a tunnel to 0.0.0.0 all the same.
			session.NewFARBuilder().WithID(downlinkFAR).WithAction(session.ActionDrop).WithMethod(session.Create).
				WithDstInterface(ie.DstInterfaceAccess).WithZeroBasedOuterHeaderCreation().BuildFAR(),
		},
		qers: []*ie.IE{
			session.NewQERBuilder().WithID(sessionQER).WithMethod(session.Create).WithUplinkMBR(60000).
				WithDownlinkMBR(60000).Build(),
			app(uplinkQER), app(downlinkQER),
		},
		urrs: []*ie.IE{urr(1), urr(2)},
	}
}

func activate(number int) []*ie.IE {
	return []*ie.IE{
		session.NewFARBuilder().WithID(downlinkFAR).WithMethod(session.Update).WithAction(session.ActionForward).
			WithDstInterface(ie.DstInterfaceAccess).WithTEID(uint32(number + 1)).WithDownlinkIP(gnb).BuildFAR(),
	}
}

// There is room for no more sessions than one round has, and each round has the same TEIDs and addresses: a second one
// shows that the first left nothing.
func TestAThousandSessionsComeAndGoTwice(t *testing.T) {
	logger.SetLogLevel(zapcore.WarnLevel)
	client := pfcpsim.NewPFCPClient(local)
	address := upf.Start(t, upf.Options{AcceptFTEIDs: true, HeartbeatSeconds: 600, Sessions: sessions})
	if err := client.ConnectN4(address); err != nil {
		t.Fatal(err)
	}
	defer client.DisconnectN4()
	if err := client.SetupAssociation(); err != nil {
		t.Fatal(err)
	}
	for round := 1; round <= 2; round++ {
		live := make([]*pfcpsim.PFCPSession, sessions)
		for number := range live {
			wanted := create(number)
			made, err := client.EstablishSession(wanted.pdrs, wanted.fars, wanted.qers, wanted.urrs)
			if err != nil {
				t.Fatalf("round %d, establishment of session %d: %v", round, number, err)
			}
			live[number] = made
		}
		for number, made := range live {
			if err := client.ModifySession(made, nil, activate(number), nil, nil); err != nil {
				t.Fatalf("round %d, modification of session %d: %v", round, number, err)
			}
		}
		for number, made := range live {
			if err := client.DeleteSession(made); err != nil {
				t.Fatalf("round %d, deletion of session %d: %v", round, number, err)
			}
		}
	}
}
