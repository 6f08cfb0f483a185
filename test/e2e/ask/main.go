//go:build linux

// Command ask is many clients at once: it asks servers and tells what they answered, how often, and
// how long the slowest answer took.
//
//	ask [flags] URL...
//
// http://HOST:PORT/PATH is a request on a connection of its own, which ask ends: a server that does keeps the
// connection in TIME_WAIT for a minute, while conntrack in userspace forgets it after half of one and may then
// give another client its address and port, whose SYN the server takes for an old one. The answer is the body,
// after the status where that is not 200. udp://HOST:PORT/WORD is a datagram that is sent again each second until
// it is answered. Hosts are addresses. One JSON object a client and URL is printed.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Report is what one client has heard from one URL.
type Report struct {
	URL string `json:"url"`
	// From is the client's own address or port, where it was told to have one.
	From string `json:"from,omitempty"`
	// Answers and Errors count each text. "refused" and "silent" are errors.
	Answers map[string]int `json:"answers,omitempty"`
	Errors  map[string]int `json:"errors,omitempty"`
	// Unanswered are the own addresses of questions that were met by silence or refused, for whoever looks for what has
	// become of them.
	Unanswered []string `json:"unanswered,omitempty"`
	// Repeats are when datagrams that had no answer within a second were sent again.
	Repeats []time.Time `json:"repeats,omitempty"`
	// Slowest answer, in milliseconds.
	Slowest int64 `json:"slowestMs"`
	// Slow are the questions whose answers took more than one repetition.
	Slow []Span `json:"slow,omitempty"`
	// Stalls are when this program had no processor for half a second or more: the machine that it is on had none to
	// give. With -until-eof.
	Stalls []Span `json:"stalls,omitempty"`
}

// Span is a time.
type Span struct {
	Since        time.Time `json:"since"`
	Milliseconds int64     `json:"ms"`
}

// again is when a datagram is taken for lost.
const again = time.Second

type settings struct {
	times   int
	timeout time.Duration
	every   time.Duration
	forever bool
	pad     int
	clients []client
	ports   *ports
	slots   chan struct{} // who asks now
}

// client is where requests come from; its zero value leaves the address to the system.
type client struct {
	addr netip.Addr
	port uint16
}

func main() {
	s := settings{ports: &ports{}}
	flag.IntVar(&s.times, "n", 1, "how often each client asks each URL")
	flag.DurationVar(&s.timeout, "timeout", 5*time.Second, "patience with one answer")
	flag.DurationVar(&s.every, "every", 0, "rest after an answer")
	flag.BoolVar(&s.forever, "until-eof", false,
		`ask until standard input ends; "asking" is printed after the first round`)
	flag.IntVar(&s.pad, "pad", 0, "bytes to add to a datagram, or to a request's query")
	from := flag.String("from", "", "clients, separated by commas: ADDRESS, ADDRESS:PORT or :PORT")
	flag.Var(s.ports, "ports", "FIRST:COUNT: the ports that clients who are given none take, one after the other; "+
		"without it the system chooses")
	atOnce := flag.Int("at-once", 8, "how many ask at the same time")
	flag.Parse()
	s.slots = make(chan struct{}, *atOnce)
	if err := run(s, *from, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "ask:", err)
		os.Exit(1)
	}
}

func run(s settings, from string, urls []string) error {
	for field := range strings.SplitSeq(from, ",") {
		c, err := parseClient(field)
		if err != nil {
			return err
		}
		s.clients = append(s.clients, c)
	}
	end := make(chan struct{})
	var reports []*Report
	var first, done sync.WaitGroup
	var stalls []Span
	if s.forever {
		go func() {
			io.Copy(io.Discard, os.Stdin)
			close(end)
		}()
		done.Go(func() { stalls = stallsUntil(end) })
	}
	for _, c := range s.clients {
		for _, text := range urls {
			target, err := url.Parse(text)
			if err != nil {
				return err
			}
			r := &Report{URL: text, From: c.String(), Answers: map[string]int{}, Errors: map[string]int{}}
			reports = append(reports, r)
			first.Add(1)
			done.Go(func() { s.ask(c, target, r, sync.OnceFunc(first.Done), end) })
		}
	}
	if s.forever {
		first.Wait()
		fmt.Println("asking")
	}
	done.Wait()
	for _, r := range reports {
		r.Stalls = stalls
		if err := json.NewEncoder(os.Stdout).Encode(r); err != nil {
			return err
		}
	}
	return nil
}

// stallsUntil watches whether this program gets a processor.
func stallsUntil(end <-chan struct{}) (stalls []Span) {
	const beat, late = 100 * time.Millisecond, 500 * time.Millisecond
	for {
		begin := time.Now()
		select {
		case <-end:
			return stalls
		case <-time.After(beat):
		}
		if took := time.Since(begin) - beat; took >= late {
			stalls = append(stalls, Span{begin, took.Milliseconds()})
		}
	}
}

func parseClient(text string) (client, error) {
	if text == "" {
		return client{}, nil
	}
	if addr, err := netip.ParseAddr(text); err == nil {
		return client{addr: addr}, nil
	}
	if strings.HasPrefix(text, ":") {
		var c client
		if _, err := fmt.Sscanf(text, ":%d", &c.port); err != nil {
			return c, fmt.Errorf("client %q: %w", text, err)
		}
		return c, nil
	}
	both, err := netip.ParseAddrPort(text)
	return client{both.Addr(), both.Port()}, err
}

func (c client) String() string {
	switch {
	case !c.addr.IsValid() && c.port == 0:
		return ""
	case !c.addr.IsValid():
		return fmt.Sprintf(":%d", c.port)
	case c.port == 0:
		return c.addr.String()
	}
	return netip.AddrPortFrom(c.addr, c.port).String()
}

// ask is one client's talk with one URL.
func (s settings) ask(c client, target *url.URL, r *Report, first func(), end <-chan struct{}) {
	defer first()
	for i := 0; s.forever || i < s.times; i++ {
		s.slots <- struct{}{}
		begin := time.Now()
		answer, err := s.once(c, target, &r.Repeats)
		took := time.Since(begin).Milliseconds()
		<-s.slots
		if err != nil {
			why := explain(err)
			r.Errors[why]++
			if lost := (*lostError)(nil); (why == silent || why == refused) && errors.As(err, &lost) {
				r.Unanswered = append(r.Unanswered, lost.from.String())
			}
		} else {
			r.Answers[answer]++
			r.Slowest = max(r.Slowest, took)
			if took >= 2*again.Milliseconds() {
				r.Slow = append(r.Slow, Span{begin, took})
			}
		}
		first()
		if s.forever || s.every > 0 {
			select {
			case <-end:
				return
			case <-time.After(s.every):
			}
		}
	}
}

// once asks, and adds to repeats when it had to ask again.
func (s settings) once(c client, target *url.URL, repeats *[]time.Time) (string, error) {
	switch target.Scheme {
	case "http":
		return s.overHTTP(c, target)
	case "udp":
		return s.overUDP(c, target, repeats)
	}
	return "", fmt.Errorf("%s: ask speaks http and udp", target)
}

// from connects from the client's port, or from the next one.
func (s settings) from(c client, connect func(port int) error) error {
	if c.port != 0 {
		return connect(int(c.port))
	}
	return s.ports.with(connect)
}

func (s settings) overHTTP(c client, target *url.URL) (string, error) {
	var own *net.TCPAddr
	transport := &http.Transport{DialContext: func(ctx context.Context, network, addr string) (conn net.Conn, err error) {
		connect := func(port int) error {
			own = &net.TCPAddr{IP: c.addr.AsSlice(), Port: port}
			dialer := net.Dialer{Timeout: s.timeout, LocalAddr: own}
			conn, err = dialer.DialContext(ctx, network, addr)
			return err
		}
		return conn, s.from(c, connect)
	}}
	defer transport.CloseIdleConnections()
	padded := *target
	padded.RawQuery += strings.Repeat("x", s.pad)
	response, err := (&http.Client{Transport: transport, Timeout: s.timeout}).Get(padded.String())
	if err != nil {
		return "", &lostError{err, own}
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return "", err
	}
	answer := shorten(strings.TrimSpace(string(body)))
	if response.StatusCode != http.StatusOK {
		answer = fmt.Sprintf("%d %s", response.StatusCode, answer)
	}
	return answer, nil
}

func (s settings) overUDP(c client, target *url.URL, repeats *[]time.Time) (string, error) {
	server, err := netip.ParseAddrPort(target.Host)
	if err != nil {
		return "", err
	}
	var conn *net.UDPConn
	connect := func(port int) error {
		conn, err = net.DialUDP("udp", &net.UDPAddr{IP: c.addr.AsSlice(), Port: port}, net.UDPAddrFromAddrPort(server))
		return err
	}
	if err := s.from(c, connect); err != nil {
		return "", err
	}
	defer conn.Close()
	question := slices.Concat([]byte(strings.TrimPrefix(target.Path, "/")), []byte(strings.Repeat("x", s.pad)))
	end := time.Now().Add(s.timeout)
	for buffer := make([]byte, 1<<16); ; {
		if _, err := conn.Write(question); err != nil && !tooLong(err) {
			return "", err
		}
		if err := conn.SetReadDeadline(earlier(end, time.Now().Add(again))); err != nil {
			return "", err
		}
		n, err := conn.Read(buffer)
		if err == nil {
			return shorten(strings.TrimSpace(string(buffer[:n]))), nil
		}
		if !errors.Is(err, os.ErrDeadlineExceeded) && !tooLong(err) || !time.Now().Before(end) {
			return "", &lostError{err, conn.LocalAddr()}
		}
		*repeats = append(*repeats, time.Now())
	}
}

// lostError is about a question that had no answer.
type lostError struct {
	error
	from net.Addr
}

func (e *lostError) Unwrap() error { return e.error }

// tooLong says that a datagram was larger than the path. The next one will be sent in fragments.
func tooLong(err error) bool { return errors.Is(err, syscall.EMSGSIZE) }

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// shorten what is too long to be read.
func shorten(text string) string {
	if len(text) > 200 {
		return fmt.Sprintf("%d bytes", len(text))
	}
	return text
}

// What is said of questions that have no answer.
const (
	silent  = "silent"
	refused = "refused"
)

// explain makes the same of errors that are the same to a client.
func explain(err error) string {
	var timeout interface{ Timeout() bool }
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return refused
	case errors.As(err, &timeout) && timeout.Timeout():
		return silent
	}
	return err.Error()
}
