// Package upf runs `sluice run` for a test: on loopback, with ports that nothing outside reaches.
package upf

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const configuration = `
node:
  id: 127.0.0.8
n4:
  addresses: [127.0.0.8]
  port: %d
  heartbeat_s: %d
  release_wait_s: 0
  unknown_source_s: 0
  unverified_percent: 100
  accept_cp_f_teids: %t
%slimits: {sessions: %d}
ports:
  - {name: ran, driver: {memory: {}}}
  - {name: dn, driver: {memory: {}}}
instances:
  - {name: access, roles: [n3], port: ran, addresses: [10.100.0.1/24]}
  - name: internet
    roles: [n6]
    port: dn
    addresses: [10.200.0.1/24]
    routes: [{to: 0.0.0.0/0, via: 10.200.0.254, mac: "02:00:00:00:00:fe"}]
`

// Options are what tests want different.
type Options struct {
	AcceptFTEIDs       bool // of the SMF's choice
	HeartbeatSeconds   int
	Sessions           int  // that there is room for
	NoUsageInformation bool // in usage reports
}

// peers is the configuration's line about where SMFs speak from, if there is to be one.
func (o Options) peers() string {
	if o.NoUsageInformation {
		return "  peers: [{prefix: 127.0.0.0/8, usage_information: false}]\n"
	}
	return ""
}

// Start runs the binary that SLUICE names until the test ends, and returns its N4 address.
func Start(t *testing.T, options Options) string {
	t.Helper()
	binary := os.Getenv("SLUICE")
	if binary == "" {
		t.Fatal("SLUICE names no binary: run tests/interop/run")
	}
	port := freePort(t)
	file := filepath.Join(t.TempDir(), "sluice.yaml")
	text := fmt.Sprintf(configuration, port, options.HeartbeatSeconds, options.AcceptFTEIDs, options.peers(),
		options.Sessions)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	upf := exec.Command(binary, "run", "-c", file)
	stderr, err := upf.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := upf.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = upf.Process.Signal(os.Interrupt)
		if err := upf.Wait(); err != nil {
			t.Errorf("sluice run ended with %v", err)
		}
	})
	ready := make(chan struct{})
	go func() {
		lines := bufio.NewScanner(stderr)
		for lines.Scan() {
			t.Log(lines.Text())
			if strings.Contains(lines.Text(), "ready") {
				close(ready)
				break
			}
		}
		for lines.Scan() {
		}
	}()
	select {
	case <-ready:
	case <-time.After(20 * time.Second):
		t.Fatal("sluice run is not ready after 20 s")
	}
	return fmt.Sprintf("127.0.0.8:%d", port)
}

func freePort(t *testing.T) int {
	t.Helper()
	conn, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 8)})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	return conn.LocalAddr().(*net.UDPAddr).Port
}
