// Command web is hosts of the Internet, and one who visits them, for tests of inspection:
//
//	web serve ADDRESS    HTTP/1.1 on port 80, TLS on port 443, and HTTP/3 on UDP port 443; every host is served
//	web get URL...       asks for each URL, over a connection of its own; h3:// is HTTP/3
//	web follow URL...    asks for all of them one after the other over one connection of HTTP/1.1
//
// Hosts are not looked up: WEB_SERVER is the address of all of them. The server writes a line for each request: the
// transport, its client's address and port, and host and path. A path with a number in it gets as many octets.
package main

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
)

// patience is how long anything may take.
const patience = 20 * time.Second

// certificate is for whatever name is asked for: clients do not verify it.
func certificate() (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	template := x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	made, err := x509.CreateCertificate(rand.Reader, &template, &template, &key.PublicKey, key)
	return tls.Certificate{Certificate: [][]byte{made}, PrivateKey: key}, err
}

var log sync.Mutex

func handler(transport string, port int) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		log.Lock()
		fmt.Println(transport, r.RemoteAddr, port, r.Host+r.URL.Path)
		log.Unlock()
		octets := 100
		for _, part := range strings.Split(r.URL.Path, "/") {
			if number, err := strconv.Atoi(part); err == nil {
				octets = number
			}
		}
		w.Header().Set("Content-Length", strconv.Itoa(octets))
		io.Copy(w, strings.NewReader(strings.Repeat("s", octets)))
	})
}

func serve(address string) error {
	cert, err := certificate()
	if err != nil {
		return err
	}
	plain, err := net.Listen("tcp", net.JoinHostPort(address, "80"))
	if err != nil {
		return err
	}
	secure, err := net.Listen("tcp", net.JoinHostPort(address, "443"))
	if err != nil {
		return err
	}
	datagrams, err := net.ListenPacket("udp", net.JoinHostPort(address, "443"))
	if err != nil {
		return err
	}
	failed := make(chan error, 3)
	config := &tls.Config{Certificates: []tls.Certificate{cert}}
	go func() { failed <- http.Serve(plain, handler("tcp", 80)) }()
	go func() {
		server := http.Server{Handler: handler("tcp", 443), TLSConfig: config}
		failed <- server.ServeTLS(secure, "", "")
	}()
	go func() {
		server := http3.Server{Handler: handler("udp", 443), TLSConfig: http3.ConfigureTLSConfig(config)}
		failed <- server.Serve(datagrams)
	}()
	fmt.Println("serving")
	return <-failed
}

// server is the address of the host of addr, with its port.
func server(addr string) string {
	_, port, _ := net.SplitHostPort(addr)
	return net.JoinHostPort(os.Getenv("WEB_SERVER"), port)
}

func dial(ctx context.Context, network, addr string) (net.Conn, error) {
	return (&net.Dialer{}).DialContext(ctx, network, server(addr))
}

func dialQUIC(ctx context.Context, addr string, config *tls.Config, more *quic.Config) (*quic.Conn, error) {
	return quic.DialAddr(ctx, server(addr), config, more)
}

func ask(client *http.Client, url string) error {
	response, err := client.Get(url)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	_, err = io.Copy(io.Discard, response.Body)
	return err
}

func get(url string) error {
	config := &tls.Config{InsecureSkipVerify: true}
	client := http.Client{Timeout: patience}
	if rest, isQUIC := strings.CutPrefix(url, "h3://"); isQUIC {
		transport := &http3.Transport{TLSClientConfig: config, Dial: dialQUIC}
		defer transport.Close()
		client.Transport = transport
		return ask(&client, "https://"+rest)
	}
	client.Transport = &http.Transport{TLSClientConfig: config, DialContext: dial, DisableKeepAlives: true}
	return ask(&client, url)
}

func follow(urls []string) error {
	conn, err := net.DialTimeout("tcp", server(":80"), patience)
	if err != nil {
		return err
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(patience))
	answers := bufio.NewReader(conn)
	for _, url := range urls {
		request, err := http.NewRequest("GET", url, nil)
		if err != nil {
			return err
		}
		if err := request.Write(conn); err != nil {
			return err
		}
		response, err := http.ReadResponse(answers, request)
		if err != nil {
			return err
		}
		if _, err := io.Copy(io.Discard, response.Body); err != nil {
			return err
		}
		response.Body.Close()
	}
	return nil
}

func main() {
	err := fmt.Errorf("unknown command")
	switch command, rest := os.Args[1], os.Args[2:]; command {
	case "serve":
		err = serve(rest[0])
	case "get":
		err = nil
		for _, url := range rest {
			if err = get(url); err != nil {
				break
			}
		}
	case "follow":
		err = follow(rest)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
