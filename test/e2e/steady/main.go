// Command steady holds TCP connections open and says how they fared, so that a test can kill what
// lies under them.
//
//	steady serve ADDR               answers every line of every connection
//	steady dial NAME=ADDR ...       sends a line a tenth of a second on one connection to each,
//	                                until its standard input ends, then prints a report a line
//
// A connection is never opened again: one that breaks stays broken, and the report says so.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"time"
)

const interval = 100 * time.Millisecond

// Report is what became of one connection.
type Report struct {
	Name string `json:"name"`
	// Answers is the number of lines that came back.
	Answers int `json:"answers"`
	// LongestGap between two answers, in milliseconds.
	LongestGap int64 `json:"longestGapMs"`
	// Error ended the connection; empty when it was still good at the end.
	Error string `json:"error,omitempty"`
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "steady:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	switch {
	case len(args) == 2 && args[0] == "serve":
		return serve(args[1])
	case len(args) > 1 && args[0] == "dial":
		return dial(args[1:])
	}
	return fmt.Errorf("usage: steady serve ADDR | steady dial NAME=ADDR")
}

func serve(addr string) error {
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	for {
		conn, err := listener.Accept()
		if err != nil {
			return err
		}
		go func() {
			defer conn.Close()
			io.Copy(conn, conn)
		}()
	}
}

func dial(targets []string) error {
	end := make(chan struct{})
	go func() {
		io.Copy(io.Discard, os.Stdin)
		close(end)
	}()
	reports := make([]Report, len(targets))
	var connected, done sync.WaitGroup
	for i, target := range targets {
		name, addr, _ := strings.Cut(target, "=")
		reports[i].Name = name
		connected.Add(1)
		done.Go(func() { hold(addr, &reports[i], connected.Done, end) })
	}
	connected.Wait()
	fmt.Println("connected")
	done.Wait()
	for _, report := range reports {
		if err := json.NewEncoder(os.Stdout).Encode(report); err != nil {
			return err
		}
	}
	return nil
}

func hold(addr string, report *Report, connected func(), end <-chan struct{}) {
	conn, err := net.DialTimeout("tcp", addr, 10*time.Second)
	connected()
	if err != nil {
		report.Error = err.Error()
		return
	}
	defer conn.Close()
	answers, failed := make(chan struct{}), make(chan error, 1)
	go func() {
		for lines := bufio.NewScanner(conn); ; answers <- struct{}{} {
			if !lines.Scan() {
				failed <- fmt.Errorf("connection ended: %w", firstOf(lines.Err(), io.EOF))
				return
			}
		}
	}()
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	last := time.Now()
	for {
		select {
		case <-ticker.C:
			if _, err := fmt.Fprintln(conn, report.Answers); err != nil {
				report.Error = err.Error()
				return
			}
		case <-answers:
			report.Answers++
			report.LongestGap = max(report.LongestGap, time.Since(last).Milliseconds())
			last = time.Now()
		case err := <-failed:
			report.Error = err.Error()
			return
		case <-end:
			report.LongestGap = max(report.LongestGap, time.Since(last).Milliseconds())
			return
		}
	}
}

func firstOf(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
