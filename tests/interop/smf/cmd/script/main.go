// Command script is one of the four SMFs that it knows. It executes commands from standard input, one JSON object a
// line, and answers each with one line:
//
//	{"op":"associate"}                                  -> {}
//	{"op":"establish","seid":1,"ue":{"ipv4":"10.45.0.1"}} -> {"tunnels":{"1":{"address":"10.100.0.1","teid":7}}}
//	{"op":"activate","seid":1,"gnb":{...}}              -> {}, likewise handover
//	{"op":"idle","seid":1}                              -> {}
//	{"op":"report"}                                     -> {"seid":1,"downlink_data":[2],"usage":0}, when one comes
//	{"op":"reports"}                                    -> {"reports":[...]}, those that have come and were not asked for
//	{"op":"query","seid":1}                             -> {"charged":[{"urr":1,"total":..}]}, all usage reported so far
//	{"op":"delete","seid":1}                            -> the same
//	{"op":"told"}                                       -> {"numbers":3,"repeated":1,"contradictions":[]}, of usage reports
//	{"op":"heartbeat"}                                  -> {"recovery":1700000000}, the UPF's Recovery Time Stamp
//	{"op":"release"}                                    -> {}
//
// and, of those SMFs that have it, add_flow and change_flow with "description", remove_flow, forward with "gnb",
// stop_forwarding, gate with "on", page_in_vain with "on", grant, restore, add_application with "description"; of all,
// provision with "application" and "description", and await_setup. A failure is answered with {"error":"..."}. It ends with its
// input.
package main

import (
	"flag"
	"fmt"
	"math/rand"
	"os"
	"time"

	"sluice/interop/smf"
	"sluice/interop/smf/free5gc"
	"sluice/interop/smf/oai"
	"sluice/interop/smf/open5gs"
	"sluice/interop/smf/sdcore"
)

// patience bounds the wait for a report.
const patience = 3 * time.Second

// setupPatience bounds the wait for the UPF's own set-up, which it tries anew after pauses.
const setupPatience = 15 * time.Second

type command struct {
	Op          string     `json:"op"`
	SEID        uint64     `json:"seid"`
	UE          smf.UE     `json:"ue"`
	GNB         smf.Tunnel `json:"gnb"`
	Description string     `json:"description"`
	Application string     `json:"application"`
	Now         uint64     `json:"now"`
	On          bool       `json:"on"`
	smf.Granted
}

type none struct{}

type made struct {
	Tunnels map[uint16]smf.Tunnel `json:"tunnels"`
	Address string                `json:"address,omitempty"` // the UE's, if the UPF chose it
}

type charged struct {
	Charged []smf.Usage `json:"charged"`
}

type gathered struct {
	Reports []smf.Report `json:"reports"`
}

type beat struct {
	Recovery int64 `json:"recovery"`
}

type driver struct {
	client *smf.Client
	smf    smf.Procedures
}

func (d driver) run(c command) (any, error) {
	switch c.Op {
	case "associate":
		return none{}, d.smf.Associate()
	case "establish":
		tunnels, err := d.smf.Establish(c.SEID, c.UE)
		return made{tunnels, d.client.Address(c.SEID)}, err
	case "activate":
		return none{}, d.smf.Activate(c.SEID, c.GNB)
	case "handover":
		return none{}, d.smf.Handover(c.SEID, c.GNB)
	case "idle":
		return none{}, d.smf.Idle(c.SEID)
	case "report":
		return d.client.NextReport(patience)
	case "reports":
		return gathered{d.client.Reports()}, nil
	case "delete":
		err := d.smf.Delete(c.SEID)
		return charged{d.client.Charged(c.SEID)}, err
	case "told":
		return d.client.Told(), nil
	case "heartbeat":
		recovery, err := d.client.Heartbeat()
		return beat{recovery.Unix()}, err
	case "release":
		return none{}, d.client.Release()
	default:
		return d.runSpecial(c)
	}
}

// runSpecial does what only some SMFs have.
func (d driver) runSpecial(c command) (any, error) {
	switch c.Op {
	case "query":
		return as(d, c, func(s smf.Querier) (any, error) {
			err := s.Query(c.SEID)
			return charged{d.client.Charged(c.SEID)}, err
		})
	case "add_flow":
		return as(d, c, func(s smf.Flows) (any, error) {
			tunnels, err := s.AddFlow(c.SEID, c.Description)
			return made{Tunnels: tunnels}, err
		})
	case "change_flow":
		return as(d, c, func(s smf.Flows) (any, error) { return none{}, s.ChangeFlow(c.SEID, c.Description) })
	case "remove_flow":
		return as(d, c, func(s smf.Flows) (any, error) { return none{}, s.RemoveFlow(c.SEID) })
	case "forward":
		return as(d, c, func(s smf.IndirectForwarder) (any, error) {
			tunnels, err := s.Forward(c.SEID, c.GNB)
			return made{Tunnels: tunnels}, err
		})
	case "stop_forwarding":
		return as(d, c, func(s smf.IndirectForwarder) (any, error) { return none{}, s.StopForwarding(c.SEID) })
	case "grant":
		return as(d, c, func(s smf.Granter) (any, error) { return none{}, s.Grant(c.SEID, c.Granted) })
	case "restore":
		return as(d, c, func(s smf.Restorer) (any, error) {
			tunnels, err := s.Restore(c.SEID, c.Now)
			return made{Tunnels: tunnels}, err
		})
	case "add_application":
		return as(d, c, func(s smf.Applications) (any, error) {
			tunnels, err := s.AddApplication(c.SEID, c.Description)
			return made{Tunnels: tunnels}, err
		})
	case "tunnels":
		return as(d, c, func(s smf.Tunnelled) (any, error) { return made{Tunnels: s.Tunnels(c.SEID)}, nil })
	case "provision":
		return none{}, d.client.ProvisionPFDs(c.Application, smf.PFD{Flow: c.Description})
	case "await_setup":
		return none{}, d.client.AwaitSetup(setupPatience)
	case "gate":
		return as(d, c, func(s smf.Gater) (any, error) { return none{}, s.Gate(c.SEID, c.On) })
	case "page_in_vain":
		return as(d, c, func(s smf.Pager) (any, error) {
			s.PageInVain(c.On)
			return none{}, nil
		})
	}
	return nil, fmt.Errorf("unknown op %q", c.Op)
}

func as[T any](d driver, c command, do func(T) (any, error)) (any, error) {
	special, has := d.smf.(T)
	if !has {
		return nil, fmt.Errorf("%T has no op %q", d.smf, c.Op)
	}
	return do(special)
}

func main() {
	which := flag.String("smf", "", "open5gs, free5gc, sdcore or oai")
	local := flag.String("local", "127.0.0.2:8805", "the SMF's address")
	upf := flag.String("upf", "127.0.0.8:8805", "the UPF's address")
	n3 := flag.String("n3", "10.100.0.1", "the UPF's address towards gNBs, where the SMF chooses TEIDs")
	gtpu := flag.String("gtpu", "10.100.0.4", "the SMF's address for GTP-U, where it has one")
	t1 := flag.Duration("t1", smf.Timeout, "how long a response is waited for")
	n1 := flag.Int("n1", 1, "how often a request is sent")
	lost := flag.Float64("lost", 0, "the share of responses to Session Report Requests that are lost")
	seed := flag.Int64("seed", 1, "of which ones are")
	flag.Parse()

	client, err := smf.Dial(*local, *upf)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	defer client.Close()
	client.T1, client.N1 = *t1, *n1
	dice := rand.New(rand.NewSource(*seed))
	client.IsLost = func() bool { return dice.Float64() < *lost }
	build := map[string]func() smf.Procedures{
		"open5gs": func() smf.Procedures { return open5gs.New(client, smf.Tunnel{Address: *gtpu, TEID: 1}) },
		"free5gc": func() smf.Procedures { return free5gc.New(client, *n3) },
		"sdcore":  func() smf.Procedures { return sdcore.New(client) },
		"oai":     func() smf.Procedures { return oai.New(client) },
	}[*which]
	if build == nil {
		fmt.Fprintf(os.Stderr, "-smf %q: not one of those known\n", *which)
		os.Exit(2)
	}
	d := driver{client, build()}
	if err := smf.Serve(os.Stdin, os.Stdout, d.run); err != nil {
		os.Exit(1)
	}
}
