package capture

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gopacket/gopacket/pcapgo"

	api "github.com/weftnet/weft/models/api/observe/v1alpha1"
	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/models/pcapng"
)

// steady is a source that has a packet whenever it is asked, until it is gone. Only the goroutine of its capture uses
// it, and a test when that is blocked or over.
type steady struct {
	deadline time.Time
	gone     bool
	silent   bool // no packet comes
	closed   bool
	given    uint64
}

func (s *steady) SetReadDeadline(t time.Time) error {
	s.deadline = t
	return nil
}

func (s *steady) next(buffer []byte) (pcapng.Packet, error) {
	switch {
	case s.gone:
		return pcapng.Packet{}, errGone
	case s.silent:
		time.Sleep(time.Until(s.deadline)) // of the test's own clock
		return pcapng.Packet{}, os.ErrDeadlineExceeded
	case !time.Now().Before(s.deadline):
		return pcapng.Packet{}, os.ErrDeadlineExceeded
	}
	s.given++
	return pcapng.Packet{Data: buffer[:60], Length: 1500, At: time.Now(), Outgoing: s.given%2 == 0}, nil
}

func (s *steady) counts() (seen, lost uint64, err error) { return s.given + 7, 7, nil }

func (s *steady) Close() error {
	s.closed = true
	return nil
}

var web = contract.PodReference{Namespace: "shop", Name: "web", UID: "u1"}

// serverOf captures a source as the device of pod web.
func serverOf(s source) *Server {
	return NewServer(func(r contract.CaptureRequest) (Device, error) {
		if r.Pod == nil || *r.Pod != web {
			return Device{}, errors.New("no such pod")
		}
		return Device{Name: "weft0", Comment: "pod shop/web on node n1"}, nil
	}, backendOf(func() source { return s }))
}

// backendOf opens such sources.
func backendOf(open func() source) Backend {
	return Backend{open: func(context.Context, Device, api.CaptureSpec) (source, error) { return open(), nil }}
}

// ask sends a request, and gives the reply and what follows.
func ask(t *testing.T, s *Server, request contract.CaptureRequest) (net.Conn, contract.CaptureReply, *bufio.Reader) {
	t.Helper()
	conn, err := s.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if err := json.NewEncoder(conn).Encode(request); err != nil {
		t.Fatal(err)
	}
	r := bufio.NewReader(conn)
	line, err := r.ReadBytes('\n')
	if err != nil {
		t.Fatal(err)
	}
	var said contract.CaptureReply
	if err := json.Unmarshal(line, &said); err != nil {
		t.Fatal(err)
	}
	return conn, said, r
}

func requestOf(change func(*api.CaptureSpec)) contract.CaptureRequest {
	pod := web
	spec := contract.CaptureDefaults(api.CaptureSpec{})
	if change != nil {
		change(&spec)
	}
	return contract.CaptureRequest{Pod: &pod, User: "alice", Spec: spec}
}

// readBack reads a file, and what its interface has counted.
func readBack(t *testing.T, r io.Reader) (packets int, reader *pcapgo.NgReader) {
	t.Helper()
	reader, err := pcapgo.NewNgReader(r, pcapgo.DefaultNgReaderOptions)
	if err != nil {
		t.Fatal(err)
	}
	for {
		_, _, err := reader.ReadPacketData()
		if errors.Is(err, io.EOF) {
			return packets, reader
		}
		if err != nil {
			t.Fatalf("after %d packets: %v", packets, err)
		}
		packets++
	}
}

// TestBoundsOfACapture: whichever is first ends it, and the file tells what was lost.
func TestBoundsOfACapture(t *testing.T) {
	for name, c := range map[string]struct {
		source steady
		change func(*api.CaptureSpec)
		least  int // packets
		most   int
		lasts  time.Duration // 0: no time
	}{
		"packets": {steady{}, func(s *api.CaptureSpec) { s.Packets = 3 }, 3, 3, 0},
		"bytes":   {steady{}, func(s *api.CaptureSpec) { s.Bytes = 10 * (60 + packetOverhead) }, 10, 10, 0},
		"time": {steady{silent: true}, func(s *api.CaptureSpec) { s.Duration.Duration = 5 * time.Second }, 0, 0,
			5 * time.Second},
		"the pod":  {steady{gone: true}, nil, 0, 0, 0},
		"defaults": {steady{silent: true}, nil, 0, 0, 30 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				begin := time.Now()
				_, said, r := ask(t, serverOf(&c.source), requestOf(c.change))
				if said.Error != "" {
					t.Fatal(said.Error)
				}
				packets, reader := readBack(t, r)
				link, err := reader.Interface(0)
				if err != nil || link.Statistics.PacketsDropped != 7 || link.Name != "weft0" ||
					link.Comment != "pod shop/web on node n1" {
					t.Errorf("the interface is %+v, %v", link, err)
				}
				if packets < c.least || packets > c.most || time.Since(begin) != c.lasts {
					t.Errorf("%d packets in %v, want %d to %d in %v", packets, time.Since(begin), c.least, c.most, c.lasts)
				}
				synctest.Wait()
				if !c.source.closed {
					t.Error("the source is left open")
				}
			})
		})
	}
}

// TestCallersThatGo: a capture ends with its caller, whether packets come or not, and its place is free again.
func TestCallersThatGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, quiet := range []bool{true, false} {
			from := &steady{silent: quiet}
			server := serverOf(from)
			conn, _, r := ask(t, server, requestOf(nil))
			if _, err := r.ReadByte(); err != nil {
				t.Fatal(err)
			}
			conn.Close()
			time.Sleep(2 * flushPeriod) // of the test's own clock
			synctest.Wait()
			if !from.closed || len(server.places) != 0 {
				t.Errorf("quiet %t: the source is closed: %t, %d places are taken", quiet, from.closed, len(server.places))
			}
		}
	})
}

// TestSlowCallers: a caller that reads nothing keeps no packets in memory, and is left when the time is over.
func TestSlowCallers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		from := &steady{}
		server := serverOf(from)
		ask(t, server, requestOf(nil))
		synctest.Wait()
		if from.given > 200 {
			t.Errorf("%d packets are read for a caller that reads none", from.given)
		}
		time.Sleep(30*time.Second + writeTime) // of the test's own clock
		synctest.Wait()
		if !from.closed {
			t.Error("the capture goes on for ever")
		}
	})
}

// TestRefusedCaptures: the reply says why, and no device stays open.
func TestRefusedCaptures(t *testing.T) {
	spec := contract.CaptureDefaults(api.CaptureSpec{})
	text := func(r contract.CaptureRequest) string {
		line, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		return string(line)
	}
	bad := requestOf(func(s *api.CaptureSpec) {
		s.SnapLength, s.Packets, s.Bytes, s.Duration.Duration = 70000, -1, 1<<40, time.Hour
	})
	for name, c := range map[string]struct{ says, want string }{
		"another pod of the name": {text(contract.CaptureRequest{Pod: &contract.PodReference{Namespace: "shop", Name: "web",
			UID: "u2"}, Spec: spec}), "no such pod"},
		"the node":           {text(contract.CaptureRequest{Spec: spec}), "no such pod"},
		"the length":         {text(bad), "snapLength: 70000"},
		"the packets":        {text(bad), "packets: -1"},
		"the bytes":          {text(bad), "bytes: 1099511627776"},
		"the time":           {text(bad), "duration: 1h0m0s"},
		"a device":           {`{"device": "eth0"}`, "unknown field"},
		"an expression":      {`{"spec": {"filter": {"expression": "tcp"}}}`, "unknown field"},
		"a line without end": {`{"user": "` + strings.Repeat("a", maxRequest), "read the request"},
		"no JSON":            {"tcp\n", "read the request"},
		"an address":         {text(requestOf(func(s *api.CaptureSpec) { s.Filter.Address = "web" })), "filter.address"},
		"a zone":             {text(requestOf(func(s *api.CaptureSpec) { s.Filter.Address = "fe80::1%eth0" })), "zone"},
		"a protocol": {text(requestOf(func(s *api.CaptureSpec) { s.Filter.Protocol = "tcp or udp" })),
			"filter.protocol"},
		"a port without ports": {text(requestOf(func(s *api.CaptureSpec) {
			s.Filter = api.CaptureFilter{Protocol: "icmp", Port: 7}
		})), "no ports"},
	} {
		t.Run(name, func(t *testing.T) {
			from := &steady{}
			conn, err := serverOf(from).Open(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			go func() { _, _ = io.WriteString(conn, c.says) }() // it need not be read to the end
			answer, err := io.ReadAll(conn)
			var said contract.CaptureReply
			if err = errors.Join(err, json.Unmarshal(answer, &said)); err != nil || !strings.Contains(said.Error, c.want) {
				t.Errorf("told %q, %v; want %q", answer, err, c.want)
			}
		})
	}
}

// TestAPodThatGoesMeanwhile: what is captured is what it was when the device was looked up.
func TestAPodThatGoesMeanwhile(t *testing.T) {
	from, asked := &steady{}, 0
	server := serverOf(from)
	server.find = func(contract.CaptureRequest) (Device, error) {
		if asked++; asked > 1 {
			return Device{}, errors.New("the pod has gone")
		}
		return Device{Name: "weft0"}, nil
	}
	_, said, r := ask(t, server, requestOf(nil))
	rest, err := io.ReadAll(r)
	if said.Error != "the pod has gone" || err != nil || len(rest) > 0 || !from.closed {
		t.Errorf("told %q, %d bytes, %v; the source is closed: %t", said.Error, len(rest), err, from.closed)
	}
}

// TestPlaces are bounded, and free again when a capture has ended.
func TestPlaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := serverOf(nil)
		server.backend = backendOf(func() source { return &steady{silent: true} })
		for range maxCaptures {
			if _, said, r := ask(t, server, requestOf(nil)); said.Error != "" {
				t.Fatal(said.Error)
			} else {
				go func() { _, _ = io.Copy(io.Discard, r) }()
			}
		}
		if _, said, _ := ask(t, server, requestOf(nil)); !strings.Contains(said.Error, "4 captures are under way") {
			t.Errorf("beyond the bound: %q", said.Error)
		}
		time.Sleep(31 * time.Second) // of the test's own clock
		if _, said, _ := ask(t, server, requestOf(nil)); said.Error != "" {
			t.Errorf("when the others have ended: %q", said.Error)
		}
	})
}

// TestTheEndOfAServer is that of its captures, of those of callers that read nothing, too.
func TestTheEndOfAServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sources, reclaimed := []*steady{{silent: true}, {}}, 0
		opened := 0
		backend := backendOf(func() source {
			opened++
			return sources[opened-1]
		})
		backend.reclaim = func(context.Context) error {
			reclaimed++
			return errors.New("it is told, and that is all")
		}
		server := NewServer(func(contract.CaptureRequest) (Device, error) { return Device{Name: "weft0"}, nil }, backend)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			server.Run(ctx)
		}()
		for range sources {
			ask(t, server, requestOf(nil))
		}
		synctest.Wait()
		cancel()
		<-ended
		if reclaimed != 1 || !sources[0].closed || !sources[1].closed {
			t.Errorf("reclaimed %d times, the sources are closed: %t, %t", reclaimed, sources[0].closed, sources[1].closed)
		}
		if _, err := server.Open(t.Context()); err == nil {
			t.Error("a capture begins after the end")
		}
	})
}

// FuzzRequest: what is let through is within its bounds.
func FuzzRequest(f *testing.F) {
	line, err := json.Marshal(requestOf(nil))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(line)
	f.Add([]byte(`{"spec": {"snapLength": 96, "bytes": 1, "duration": "1s", "filter": {"address": "::ffff:10.0.0.1"}}}`))
	f.Fuzz(func(t *testing.T, said []byte) {
		request, err := readRequest(bytes.NewReader(said))
		if err != nil {
			return
		}
		s := request.Spec
		if s.SnapLength < contract.MinSnapLength || s.SnapLength > contract.MaxSnapLength || s.Packets < 0 || s.Bytes < 1 ||
			s.Bytes > contract.MaxCaptureBytes || s.Duration.Duration < time.Second ||
			s.Duration.Duration > contract.MaxCaptureDuration {
			t.Errorf("let through: %+v", s)
		}
	})
}
