// Command flood makes as many connections, or takes in as many bytes, as it can for some time.
//
//	flood serve ADDR...
//	flood connections|bytes ADDR DURATION
//
// A connection is opened, asks one byte, is answered one byte and closed by the server. Bytes come from
// the server, on one connection. The client prints a JSON object.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// clients open connections at the same time.
	clients  = 8
	patience = 5 * time.Second

	askOne   = '1'
	askBytes = '*'
)

// Report is what a client had.
type Report struct {
	Count   int64   `json:"count"` // connections, or bytes
	Seconds float64 `json:"seconds"`
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "flood:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) > 1 && args[0] == "serve" {
		return serve(args[1:])
	}
	if len(args) != 3 {
		return errors.New("usage: flood serve ADDR... | flood connections|bytes ADDR DURATION")
	}
	d, err := time.ParseDuration(args[2])
	if err != nil {
		return err
	}
	var r Report
	switch args[0] {
	case "connections":
		r, err = connections(args[1], d)
	case "bytes":
		r, err = bytes(args[1], d)
	default:
		err = fmt.Errorf("flood counts connections and bytes, not %s", args[0])
	}
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(r)
}

// serve returns when it cannot serve one of the addresses any more.
func serve(addrs []string) error {
	ended := make(chan error, len(addrs))
	for _, addr := range addrs {
		listener, err := net.Listen("tcp", addr)
		if err != nil {
			return err
		}
		go func() { ended <- accept(listener) }()
	}
	return <-ended
}

func accept(listener net.Listener) error {
	for {
		conn, err := listener.Accept()
		if err != nil {
			return err
		}
		go func() {
			defer conn.Close()
			answer(conn)
		}()
	}
}

// answer ends when the client does.
func answer(conn net.Conn) {
	var question [1]byte
	if _, err := io.ReadFull(conn, question[:]); err != nil {
		return
	}
	if question[0] == askOne {
		_, _ = conn.Write(question[:]) // the client tells if it has no answer
		return
	}
	for buffer := make([]byte, 1<<17); ; {
		if _, err := conn.Write(buffer); err != nil {
			return
		}
	}
}

// connections counts those that were begun within some time.
func connections(addr string, d time.Duration) (Report, error) {
	begin := time.Now()
	var n atomic.Int64
	errs := make([]error, clients)
	var all sync.WaitGroup
	for i := range clients {
		all.Go(func() {
			for errs[i] == nil && time.Since(begin) < d {
				if errs[i] = connect(addr); errs[i] == nil {
					n.Add(1)
				}
			}
		})
	}
	all.Wait()
	return Report{n.Load(), time.Since(begin).Seconds()}, errors.Join(errs...)
}

func connect(addr string) error {
	conn, err := dial(addr, askOne)
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.SetReadDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	answer, err := io.ReadAll(conn)
	if err == nil && len(answer) != 1 {
		err = fmt.Errorf("%s has answered %q", addr, answer)
	}
	return err
}

func dial(addr string, question byte) (net.Conn, error) {
	conn, err := net.DialTimeout("tcp", addr, patience)
	if err != nil {
		return nil, err
	}
	if _, err := conn.Write([]byte{question}); err != nil {
		conn.Close()
		return nil, err
	}
	return conn, nil
}

// bytes counts those that came within some time, once the connection was there.
func bytes(addr string, d time.Duration) (Report, error) {
	conn, err := dial(addr, askBytes)
	if err != nil {
		return Report{}, err
	}
	defer conn.Close()
	begin := time.Now()
	if err := conn.SetReadDeadline(begin.Add(d)); err != nil {
		return Report{}, err
	}
	n, err := io.Copy(io.Discard, conn)
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		return Report{}, fmt.Errorf("%s ended after %d bytes: %w", addr, n, err)
	}
	return Report{n, time.Since(begin).Seconds()}, nil
}
