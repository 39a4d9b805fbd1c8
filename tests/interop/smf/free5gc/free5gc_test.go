package free5gc

import (
	"errors"
	"testing"

	"github.com/wmnsk/go-pfcp/ie"

	"sluice/interop/smf"
	"sluice/interop/smf/upf"
)

const n3 = "10.100.0.1"

// start gives an SMF with the codec of free5GC, which does not know Usage Information, and its association.
func start(t *testing.T, options upf.Options) *SMF {
	t.Helper()
	options.AcceptFTEIDs, options.HeartbeatSeconds, options.Sessions = true, 60, 100
	client, err := smf.Dial("127.0.0.3:0", upf.Start(t, options))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	client.CannotRead = []uint16{ie.UsageInformation}
	f := New(client, n3)
	if err := f.Associate(); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Establish(1, smf.UE{IPv4: "10.45.0.1"}); err != nil {
		t.Fatal(err)
	}
	return f
}

func TestASessionEndsWhereUsageInformationIsNotSent(t *testing.T) {
	f := start(t, upf.Options{NoUsageInformation: true})
	if err := f.Activate(1, smf.Tunnel{Address: "10.100.0.2", TEID: 7}); err != nil {
		t.Fatal(err)
	}
	if err := f.Query(1); err != nil {
		t.Fatal(err)
	}
	if err := f.Idle(1); err != nil {
		t.Fatal(err)
	}
	if err := f.Delete(1); err != nil {
		t.Fatal(err)
	}
	charged := f.client.Charged(1)
	if len(charged) != 2 {
		t.Fatalf("not one report for each URR, but %+v", charged)
	}
	for _, usage := range charged {
		if usage.BeforeQoS != nil {
			t.Fatalf("usage before QoS enforcement in %+v", usage)
		}
	}
}

// What the setting is for: by default the answer is as TS 29.244 §5.2.2.3.1 has it, and this codec drops it.
func TestTheAnswerWithUsageInformationIsNotRead(t *testing.T) {
	if err := start(t, upf.Options{}).Delete(1); !errors.Is(err, smf.ErrTimeout) {
		t.Fatalf("got %v, expected no answer that can be read", err)
	}
}
