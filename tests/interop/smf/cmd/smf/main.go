// Command smf drives a UPF by commands from standard input, one JSON object a line, and answers each with one line:
//
//	{"op":"associate"}                              -> {"features":"..."}
//	{"op":"establish","session":{...}}              -> {"up_seid":1,"teid":2,"n3":"10.0.0.1"}
//	{"op":"gnb","up_seid":1,"session":{...}}        -> {}
//	{"op":"gate","up_seid":1,"uplink":1,"downlink":0} -> {}
//	{"op":"qfi","up_seid":1,"qfi":7}                -> {}
//	{"op":"redirect","up_seid":1,"url":"http://..."} -> {}; "" ends it
//	{"op":"nat","up_seid":1,"nat":{"pool":"cgn"}}  -> {"binding":{"pool":"cgn","address":"192.0.2.1","first":1,"last":2}}, or null
//	{"op":"delete","up_seid":1}                     -> {"usage":[{"urr":1,"total":..}]}
//	{"op":"charged","seid":1}                       -> {"charged":[{"urr":1,"total":..}]}, by reports that came by themselves
//	{"op":"reports"}                                -> {"reports":[{"seid":1,"usage":1,"triggers":[2]}]}, those since the last time
//	{"op":"release"}                                -> {}
//
// A failure is answered with {"error":"..."}. It ends with its input.
package main

import (
	"encoding/hex"
	"flag"
	"fmt"
	"os"

	"sluice/interop/smf"
)

type command struct {
	Op       string      `json:"op"`
	Session  smf.Session `json:"session"`
	SEID     uint64      `json:"seid"`
	UPSEID   uint64      `json:"up_seid"`
	Uplink   uint8       `json:"uplink"`
	Downlink uint8       `json:"downlink"`
	QFI      uint8       `json:"qfi"`
	URL      string      `json:"url"`
	NAT      smf.NAT     `json:"nat"`
	// An application, and what it is known by.
	Application string    `json:"application"`
	PFDs        []smf.PFD `json:"pfds"`
	// Several applications.
	Applications map[string][]smf.PFD `json:"applications"`
}

func run(client *smf.Client, c command) (any, error) {
	switch c.Op {
	case "associate":
		features, err := client.Associate()
		return map[string]string{"features": hex.EncodeToString(features)}, err
	case "establish":
		return client.Establish(c.Session)
	case "gnb":
		return struct{}{}, client.SetGNB(c.UPSEID, c.Session)
	case "gate":
		return struct{}{}, client.SetGate(c.UPSEID, c.Uplink, c.Downlink)
	case "qfi":
		return struct{}{}, client.SetQFI(c.UPSEID, c.QFI)
	case "redirect":
		return struct{}{}, client.SetRedirect(c.UPSEID, c.URL)
	case "nat":
		binding, err := client.SetNAT(c.UPSEID, c.NAT)
		return map[string]*smf.Binding{"binding": binding}, err
	case "pfds":
		return struct{}{}, client.ProvisionPFDs(c.Application, c.PFDs...)
	case "partial_pfds":
		features, err := client.TakePartialPFDs()
		return map[string]string{"features": hex.EncodeToString(features)}, err
	case "several":
		cause, failed, err := client.ProvisionSeveral(c.Applications)
		return map[string]any{"cause": cause, "failed": failed}, err
	case "delete":
		usage, err := client.Delete(c.UPSEID)
		return map[string][]smf.Usage{"usage": usage}, err
	case "charged":
		return map[string][]smf.Usage{"charged": client.Charged(c.SEID)}, nil
	case "reports":
		return map[string][]smf.Report{"reports": client.Reports()}, nil
	case "release":
		return struct{}{}, client.Release()
	default:
		return nil, fmt.Errorf("unknown op %q", c.Op)
	}
}

func main() {
	local := flag.String("local", "127.0.0.2:8805", "the SMF's address")
	upf := flag.String("upf", "127.0.0.8:8805", "the UPF's address")
	flag.Parse()

	client, err := smf.Dial(*local, *upf)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	defer client.Close()

	answer := func(c command) (any, error) { return run(client, c) }
	if err := smf.Serve(os.Stdin, os.Stdout, answer); err != nil {
		os.Exit(1)
	}
}
