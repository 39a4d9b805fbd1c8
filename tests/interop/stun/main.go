// Command stun says what a NAT does, by RFC 5780 and with the codec of pion/stun:
//
//	stun behaviour SERVER            its mapping (§4.3) and its filtering (§4.4)
//	stun lifetime SERVER SECONDS...  whether a binding is there after so long (§4.6); one binding for each
//
// SERVER is an IPv4 address and a port. What it found is one line of JSON. It exits with 1 where it found nothing.
package main

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"time"

	"github.com/pion/stun/v3"
)

// Dependence is on what of a destination a mapping or a filter depends (RFC 4787 §4.1, §5).
type Dependence string

const (
	independent    Dependence = "endpoint_independent"
	address        Dependence = "address_dependent"
	addressAndPort Dependence = "address_and_port_dependent"
)

const (
	// patience is how long an answer may take that has to come.
	patience = 10 * time.Second
	// again is when a request is sent again.
	again = 200 * time.Millisecond
	// rounds is how often something is asked that may never be answered. Each round ends with an answer that has to come,
	// so that a slow machine is not taken for a filter.
	rounds = 4
	// silence is how long nothing comes then.
	silence = 400 * time.Millisecond
)

// CHANGE-REQUEST (RFC 5780 §7.2).
const changePort, changeBoth = 0x02, 0x06

// responsePort is RESPONSE-PORT (RFC 5780 §7.5), which the library has no name for.
const responsePort stun.AttrType = 0x0027

var errSilent = errors.New("no answer")

// Answer is a Binding success response: where it came from, and what is in it.
type Answer struct {
	from, public, other *net.UDPAddr
}

// Prober is a socket that asks a STUN server.
type Prober struct {
	conn *net.UDPConn
}

func newProber() (*Prober, error) {
	conn, err := net.ListenUDP("udp4", nil)
	return &Prober{conn}, err
}

func binding(attributes ...stun.RawAttribute) *stun.Message {
	request := stun.MustBuild(stun.TransactionID, stun.BindingRequest)
	for _, attribute := range attributes {
		request.Add(attribute.Type, attribute.Value)
	}
	return request
}

func change(flags byte) stun.RawAttribute {
	return stun.RawAttribute{Type: stun.AttrChangeRequest, Value: []byte{0, 0, 0, flags}}
}

func (p *Prober) send(request *stun.Message, to *net.UDPAddr) error {
	_, err := p.conn.WriteToUDP(request.Raw, to)
	return err
}

// await waits for the response to one of some requests, until a time: the number of the request, and the answer.
func (p *Prober) await(until time.Time, requests ...*stun.Message) (int, Answer, error) {
	octets := make([]byte, 1500)
	for {
		if err := p.conn.SetReadDeadline(until); err != nil {
			return 0, Answer{}, err
		}
		size, from, err := p.conn.ReadFromUDP(octets)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return 0, Answer{}, errSilent
		}
		if err != nil {
			return 0, Answer{}, err
		}
		response := &stun.Message{Raw: append([]byte(nil), octets[:size]...)}
		if response.Decode() != nil || response.Type != stun.BindingSuccess {
			continue
		}
		for number, request := range requests {
			if response.TransactionID == request.TransactionID {
				answer, err := answerOf(response, from)
				return number, answer, err
			}
		}
	}
}

func answerOf(response *stun.Message, from *net.UDPAddr) (Answer, error) {
	var public stun.XORMappedAddress
	var other stun.OtherAddress
	if err := public.GetFrom(response); err != nil {
		return Answer{}, fmt.Errorf("XOR-MAPPED-ADDRESS: %w", err)
	}
	if err := other.GetFrom(response); err != nil {
		return Answer{}, fmt.Errorf("OTHER-ADDRESS: %w", err)
	}
	return Answer{from, &net.UDPAddr{IP: public.IP, Port: public.Port}, &net.UDPAddr{IP: other.IP, Port: other.Port}}, nil
}

// ask sends a request until it is answered, which it has to be.
func (p *Prober) ask(to *net.UDPAddr) (Answer, error) {
	request := binding()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		if err := p.send(request, to); err != nil {
			return Answer{}, err
		}
		_, answer, err := p.await(time.Now().Add(again), request)
		if err == nil && !isSame(answer.from, to) {
			return Answer{}, fmt.Errorf("%v was asked, %v answers", to, answer.from)
		}
		if !errors.Is(err, errSilent) {
			return answer, err
		}
	}
	return Answer{}, fmt.Errorf("%v: %w", to, errSilent)
}

// receives says whether a response to a request with CHANGE-REQUEST comes back from where it should then.
func (p *Prober) receives(server, from *net.UDPAddr, flags byte) (bool, error) {
	changed := binding(change(flags))
	for range rounds {
		if err := p.send(changed, server); err != nil {
			return false, err
		}
		plain := binding()
		for deadline := time.Now().Add(patience); ; {
			if err := p.send(plain, server); err != nil {
				return false, err
			}
			number, answer, err := p.await(time.Now().Add(again), changed, plain)
			if err == nil && number == 0 {
				return isFrom(answer, from)
			}
			if err == nil {
				break
			}
			if !errors.Is(err, errSilent) || time.Now().After(deadline) {
				return false, err
			}
		}
	}
	_, answer, err := p.await(time.Now().Add(silence), changed)
	if errors.Is(err, errSilent) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return isFrom(answer, from)
}

func isFrom(answer Answer, from *net.UDPAddr) (bool, error) {
	if !isSame(answer.from, from) {
		return false, fmt.Errorf("%v ought to answer, %v does", from, answer.from)
	}
	return true, nil
}

func isSame(one, other *net.UDPAddr) bool {
	return one.IP.Equal(other.IP) && one.Port == other.Port
}

// Behaviour is what a NAT does.
type Behaviour struct {
	Mapping   Dependence `json:"mapping"`
	Filtering Dependence `json:"filtering"`
	Public    []string   `json:"public"` // what the server saw of the requests for the mapping
}

func behaviour(server *net.UDPAddr) (Behaviour, error) {
	mapping, public, err := mapping(server)
	if err != nil {
		return Behaviour{}, fmt.Errorf("mapping: %w", err)
	}
	filtering, err := filtering(server)
	if err != nil {
		return Behaviour{}, fmt.Errorf("filtering: %w", err)
	}
	return Behaviour{mapping, filtering, public}, nil
}

// mapping asks the server at its address, at its other address, and at the other port of that one (RFC 5780 §4.3).
func mapping(server *net.UDPAddr) (Dependence, []string, error) {
	prober, err := newProber()
	if err != nil {
		return "", nil, err
	}
	defer prober.conn.Close()
	first, err := prober.ask(server)
	if err != nil {
		return "", nil, err
	}
	answers := []Answer{first}
	for _, to := range []*net.UDPAddr{{IP: first.other.IP, Port: server.Port}, first.other} {
		answer, err := prober.ask(to)
		if err != nil {
			return "", nil, err
		}
		answers = append(answers, answer)
	}
	public := make([]string, len(answers))
	for place, answer := range answers {
		public[place] = answer.public.String()
	}
	switch {
	case public[0] == public[1] && public[1] == public[2]:
		return independent, public, nil
	case public[1] == public[2]:
		return address, public, nil
	}
	return addressAndPort, public, nil
}

// filtering lets the server answer from its other address and port, then from its other port (RFC 5780 §4.4). Nothing
// was sent there by this socket.
func filtering(server *net.UDPAddr) (Dependence, error) {
	prober, err := newProber()
	if err != nil {
		return "", err
	}
	defer prober.conn.Close()
	first, err := prober.ask(server)
	if err != nil {
		return "", err
	}
	for _, test := range []struct {
		flags byte
		from  *net.UDPAddr
		means Dependence
	}{
		{changeBoth, first.other, independent},
		{changePort, &net.UDPAddr{IP: server.IP, Port: first.other.Port}, address},
	} {
		is, err := prober.receives(server, test.from, test.flags)
		if is || err != nil {
			return test.means, err
		}
	}
	return addressAndPort, nil
}

// Binding is one that was left alone for a while: no less than LeastS, no more than MostS seconds.
type Binding struct {
	Lives  bool    `json:"lives"`
	LeastS float64 `json:"least_s"`
	MostS  float64 `json:"most_s"`
}

// lifetime makes a binding for each of some whiles, and then has the server answer another socket's requests to them.
func lifetime(server *net.UDPAddr, whiles []time.Duration) ([]Binding, error) {
	other, err := newProber()
	if err != nil {
		return nil, err
	}
	defer other.conn.Close()
	found := make([]Binding, len(whiles))
	waiting := make([]*waitingProber, len(whiles))
	for place := range whiles {
		if waiting[place], err = newWaitingProber(server); err != nil {
			return nil, err
		}
		defer waiting[place].conn.Close()
	}
	for place, while := range whiles {
		time.Sleep(time.Until(waiting[place].answered.Add(while)))
		if found[place], err = waiting[place].look(server, other); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// waitingProber has a binding, which the NAT has seen used between two times.
type waitingProber struct {
	*Prober
	begun, answered time.Time
	public          *net.UDPAddr
}

func newWaitingProber(server *net.UDPAddr) (*waitingProber, error) {
	prober, err := newProber()
	if err != nil {
		return nil, err
	}
	begun := time.Now()
	answer, err := prober.ask(server)
	return &waitingProber{prober, begun, time.Now(), answer.public}, err
}

func (w *waitingProber) look(server *net.UDPAddr, other *Prober) (Binding, error) {
	port := binary.BigEndian.AppendUint16(nil, uint16(w.public.Port))
	request := binding(stun.RawAttribute{Type: responsePort, Value: port})
	least := time.Since(w.answered)
	for range rounds {
		if err := other.send(request, server); err != nil {
			return Binding{}, err
		}
		// The server answers this one, too, and so it had the other.
		if _, err := other.ask(server); err != nil {
			return Binding{}, err
		}
		_, _, err := w.await(time.Now().Add(silence/2), request)
		if err == nil {
			return Binding{true, least.Seconds(), time.Since(w.begun).Seconds()}, nil
		}
		if !errors.Is(err, errSilent) {
			return Binding{}, err
		}
	}
	return Binding{false, least.Seconds(), time.Since(w.begun).Seconds()}, nil
}

func run(words []string) (any, error) {
	if len(words) < 2 {
		return nil, errors.New("usage: stun behaviour SERVER | stun lifetime SERVER SECONDS...")
	}
	server, err := net.ResolveUDPAddr("udp4", words[1])
	if err != nil {
		return nil, err
	}
	switch words[0] {
	case "behaviour":
		return behaviour(server)
	case "lifetime":
		whiles := make([]time.Duration, len(words)-2)
		for place, word := range words[2:] {
			seconds, err := strconv.ParseFloat(word, 64)
			if err != nil {
				return nil, err
			}
			whiles[place] = time.Duration(seconds * float64(time.Second))
		}
		return lifetime(server, whiles)
	}
	return nil, fmt.Errorf("%s: no such question", words[0])
}

func main() {
	found, err := run(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	json.NewEncoder(os.Stdout).Encode(found)
}
