package smf

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/wmnsk/go-pfcp/ie"
	"github.com/wmnsk/go-pfcp/message"

	"sluice/interop/smf/upf"
)

func startUPF(t *testing.T, acceptFTEIDs bool) string {
	t.Helper()
	return upf.Start(t, upf.Options{AcceptFTEIDs: acceptFTEIDs, HeartbeatSeconds: 1, Sessions: 100})
}

func dial(t *testing.T, upf string) *Client {
	t.Helper()
	client, err := Dial("127.0.0.2:0", upf)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

func associated(t *testing.T, upf string) *Client {
	t.Helper()
	client := dial(t, upf)
	features, err := client.Associate()
	if err != nil {
		t.Fatal(err)
	}
	if len(features) == 0 || features[0]&0x10 == 0 {
		t.Fatalf("FTUP is not among the features %x", features)
	}
	return client
}

func ueSession(seid uint64) Session {
	return Session{
		SEID: seid, UEIPv4: fmt.Sprintf("10.45.0.%d", seid), QFI: 9,
		AccessInstance: "access", CoreInstance: "internet",
	}
}

func wantCause(t *testing.T, err error, cause uint8) {
	t.Helper()
	var refused Refused
	if !errors.As(err, &refused) || refused.Cause != cause {
		t.Fatalf("got %v, expected cause %d", err, cause)
	}
}

func TestHeartbeatIsAnsweredBeforeAnyAssociation(t *testing.T) {
	client := dial(t, startUPF(t, false))
	first, err := client.Heartbeat()
	if err != nil {
		t.Fatal(err)
	}
	if age := time.Since(first); age < -2*time.Second || age > time.Minute {
		t.Fatalf("recovery time stamp %v is %v old", first, age)
	}
	second, err := client.Heartbeat()
	if err != nil || !second.Equal(first) {
		t.Fatalf("the recovery time stamp changed from %v to %v (%v)", first, second, err)
	}
}

func TestSessionOfARealSMF(t *testing.T) {
	client := associated(t, startUPF(t, false))
	session := ueSession(2)
	up, err := client.Establish(session)
	if err != nil {
		t.Fatal(err)
	}
	if up.SEID == 0 || up.TEID == 0 || up.N3 != "10.100.0.1" {
		t.Fatalf("got %+v", up)
	}
	session.GNB, session.GNBTEID = "10.100.0.2", 0x1234
	if err := client.SetGNB(up.SEID, session); err != nil {
		t.Fatal(err)
	}
	if err := client.SetQFI(up.SEID, 5); err != nil {
		t.Fatal(err)
	}
	usage, err := client.Delete(up.SEID)
	if err != nil {
		t.Fatal(err)
	}
	if len(usage) != 1 || usage[0] != (Usage{URR: 1}) {
		t.Fatalf("usage %+v of a session without traffic", usage)
	}
	if _, err := client.Delete(up.SEID); err == nil {
		t.Fatal("a deleted session was deleted again")
	} else {
		wantCause(t, err, ie.CauseSessionContextNotFound)
	}
	if err := client.Release(); err != nil {
		t.Fatal(err)
	}
}

func TestEveryChooseSpellingGetsAnAddress(t *testing.T) {
	client := associated(t, startUPF(t, false))
	spellings := []uint8{
		FTEIDChoose, FTEIDChoose | FTEIDIPv4, FTEIDChoose | FTEIDChooseID | FTEIDIPv4,
		FTEIDChoose | FTEIDChooseID | FTEIDIPv4 | FTEIDIPv6,
	}
	teids := map[uint32]bool{}
	for n, flags := range spellings {
		session := ueSession(uint64(n + 10))
		session.ChooseFlags = flags
		up, err := client.Establish(session)
		if err != nil {
			t.Fatalf("flags %#x: %v", flags, err)
		}
		if up.N3 != "10.100.0.1" || up.TEID == 0 || teids[up.TEID] {
			t.Fatalf("flags %#x: got %+v", flags, up)
		}
		teids[up.TEID] = true
	}
}

func TestARetransmittedRequestMakesOneSessionAndTheSameResponse(t *testing.T) {
	client := associated(t, startUPF(t, false))
	request := client.EstablishmentRequest(ueSession(3))
	raw, err := marshal(request)
	if err != nil {
		t.Fatal(err)
	}
	var first []byte
	for attempt := 0; attempt < 3; attempt++ {
		response, err := client.Exchange(raw, request.Sequence())
		if err != nil {
			t.Fatalf("attempt %d: %v", attempt, err)
		}
		if first == nil {
			first = response
		} else if !bytes.Equal(first, response) {
			t.Fatalf("attempt %d: another response:\n%x\n%x", attempt, first, response)
		}
	}
	parsed, err := message.Parse(first)
	if err != nil {
		t.Fatal(err)
	}
	up, err := ReadEstablished(parsed.(*message.SessionEstablishmentResponse), 3)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.Delete(up.SEID); err != nil {
		t.Fatal(err)
	}
}

func TestWithoutAnAssociationNothingIsEstablished(t *testing.T) {
	client := dial(t, startUPF(t, false))
	_, err := client.Establish(ueSession(4))
	wantCause(t, err, ie.CauseNoEstablishedPFCPAssociation)
}

func TestAnFTEIDOfTheSMFsChoice(t *testing.T) {
	session := ueSession(5)
	session.ChosenTEID, session.ChosenAddress = 0xbeef, "10.100.0.1"

	t.Run("is refused by default", func(t *testing.T) {
		_, err := associated(t, startUPF(t, false)).Establish(session)
		wantCause(t, err, ie.CauseInvalidFTEIDAllocationOption)
	})
	t.Run("is taken where it is configured", func(t *testing.T) {
		client := associated(t, startUPF(t, true))
		up, err := client.Establish(session)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := client.Delete(up.SEID); err != nil {
			t.Fatal(err)
		}
	})
}

func TestARefusedModificationChangesNothing(t *testing.T) {
	client := associated(t, startUPF(t, false))
	up, err := client.Establish(ueSession(6))
	if err != nil {
		t.Fatal(err)
	}
	// The FAR exists, the QER does not: neither may change.
	err = client.Modify(up.SEID,
		ie.NewUpdateFAR(ie.NewFARID(downlinkFAR), ie.NewApplyAction(Forward)),
		ie.NewUpdateQER(ie.NewQERID(99), ie.NewQFI(3)))
	wantCause(t, err, ie.CauseRuleCreationModificationFailure)
	if _, err := client.Delete(up.SEID); err != nil {
		t.Fatal(err)
	}
}

func TestTheUPFSendsHeartbeatsToItsPeer(t *testing.T) {
	upf := startUPF(t, false)
	// Requests go to the peer's port 8805 (TS 29.244 §4.2.2), wherever its own requests come from.
	conn, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 3), Port: 8805})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	to, _ := net.ResolveUDPAddr("udp", upf)
	setup := message.NewAssociationSetupRequest(1, ie.NewNodeIDHeuristic("127.0.0.3"), ie.NewRecoveryTimeStamp(time.Now()))
	raw, err := marshal(setup)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.WriteToUDP(raw, to); err != nil {
		t.Fatal(err)
	}
	var heartbeats [][]byte
	buffer := make([]byte, 2048)
	_ = conn.SetReadDeadline(time.Now().Add(15 * time.Second))
	for len(heartbeats) < 2 {
		n, _, err := conn.ReadFromUDP(buffer)
		if err != nil {
			t.Fatalf("after %d heartbeats: %v", len(heartbeats), err)
		}
		if buffer[1] == message.MsgTypeHeartbeatRequest {
			heartbeats = append(heartbeats, append([]byte(nil), buffer[:n]...))
		}
	}
	// Nothing answered the first, so the second is its retransmission, to the byte.
	if !bytes.Equal(heartbeats[0], heartbeats[1]) {
		t.Fatalf("not the same bytes:\n%x\n%x", heartbeats[0], heartbeats[1])
	}
}
