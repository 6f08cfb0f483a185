package ctprobe

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/weftnet/weft/node/openflow"
)

// TestJudge: what the replies of the trials tell, each kind without the lookup and with it.
func TestJudge(t *testing.T) {
	broken := errors.New("broken")
	type seen map[string]any // by the trial's words; a trial that is not there must not be asked for
	const cured = " with a lookup before its commit"
	ping, connection := kind.String(ping), kind.String(translated)
	for name, c := range map[string]struct {
		seen seen
		want Answer
		says string
	}{
		"sound": {seen{ping: true, connection: true}, Unneeded, ""},
		"both fail": {seen{ping: false, ping + cured: true, connection: false, connection + cured: true},
			Needed, ""},
		"pings alone":        {seen{ping: false, ping + cured: true, connection: true}, Needed, ""},
		"translations alone": {seen{ping: true, connection: false, connection + cured: true}, Needed, ""},
		"no cure":            {seen{ping: false, ping + cured: false}, Unknown, "does not know the reply of a ping"},
		"a cure of one alone": {seen{ping: false, ping + cured: true, connection: false, connection + cured: false},
			Unknown, connection},
		"an error":                   {seen{ping: broken}, Unknown, "broken"},
		"an error at the cure":       {seen{ping: false, ping + cured: broken}, Unknown, "broken"},
		"an error after a finding":   {seen{ping: false, ping + cured: true, connection: broken}, Unknown, "broken"},
		"an error after a soundness": {seen{ping: true, connection: broken}, Unknown, "broken"},
	} {
		t.Run(name, func(t *testing.T) {
			answer, err := evaluate(newTrials(), func(tr trial) (bool, error) {
				switch known := c.seen[tr.String()].(type) {
				case bool:
					return known, nil
				case error:
					return true, known // which must not count
				}
				t.Errorf("%v is asked for", tr)
				return false, nil
			})
			if answer != c.want || (err == nil) != (c.want != Unknown) || err != nil && !strings.Contains(err.Error(), c.says) {
				t.Errorf("%v, %v; want %v, %q", answer, err, c.want, c.says)
			}
		})
	}
}

// told is a switch that says this, whatever it is told.
type told struct {
	net.Conn
	*bytes.Reader
}

func (told) Write(p []byte) (int, error)  { return len(p), nil }
func (s told) Read(p []byte) (int, error) { return s.Reader.Read(p) }
func (told) Close() error                 { return nil }

func saying(messages ...[]byte) Dial {
	return func(context.Context) (net.Conn, error) {
		return told{Reader: bytes.NewReader(bytes.Join(messages, nil))}, nil
	}
}

// TestAnswers: what belongs to the messages that were sent is taken, whatever comes in between.
func TestAnswers(t *testing.T) {
	say := openflow.Message
	const asked, barrier = 1, 2 // numbers
	for name, c := range map[string]struct {
		says    [][]byte
		answers int
		want    string
	}{
		"done":             {[][]byte{say(openflow.Hello, 0), say(openflow.BarrierReply, barrier)}, 0, ""},
		"an answer":        {[][]byte{say(openflow.MultipartReply, asked, 1), say(openflow.BarrierReply, barrier)}, 1, ""},
		"another's answer": {[][]byte{say(openflow.MultipartReply, 9), say(openflow.BarrierReply, barrier)}, 0, ""},
		"another's barrier": {[][]byte{
			say(openflow.BarrierReply, asked), say(openflow.EchoRequest, barrier),
			say(openflow.MultipartReply, asked), say(openflow.BarrierReply, barrier),
		}, 1, ""},
		"refused": {[][]byte{say(openflow.Error, asked, 0, 2, 0, 9), say(openflow.BarrierReply, barrier)}, 0,
			"message 1 of 1: the switch answers with the error 00 02 00 09"},
		"a version not spoken": {[][]byte{say(openflow.Error, 77, 0, 0, 0, 0)}, 0,
			"the switch answers with the error 00 00 00 00"},
		"the end":               {[][]byte{say(openflow.Hello, 0)}, 0, "closed by the switch"},
		"the end in a message":  {[][]byte{say(openflow.Hello, 0)[:5]}, 0, io.ErrUnexpectedEOF.Error()},
		"what is no OpenFlow's": {[][]byte{{4, 0, 0, 3, 0, 0, 0, 0}}, 0, "not OpenFlow's"},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := open(t.Context(), saying(c.says...))
			if err != nil {
				t.Fatal(err)
			}
			defer s.close()
			answers, err := s.do(removal())
			if len(answers) != c.answers || (err == nil) != (c.want == "") ||
				err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("%d answers, %v; want %d, %q", len(answers), err, c.answers, c.want)
			}
		})
	}
}

// A bridge that is not reached, or that says nothing, is one of which nothing is known.
func TestWithoutASwitch(t *testing.T) {
	broken := errors.New("no such pipe")
	answer, err := Run(t.Context(), func(context.Context) (net.Conn, error) { return nil, broken })
	if answer != Unknown || !errors.Is(err, broken) {
		t.Errorf("%v, %v", answer, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	dials := 0
	answer, err = Run(ctx, func(context.Context) (net.Conn, error) {
		if dials++; dials > 1 {
			return saying(openflow.Message(openflow.BarrierReply, 2))(t.Context())
		}
		ours, theirs := net.Pipe()
		go func() {
			_, _ = io.CopyN(io.Discard, theirs, openflow.HeaderSize+1) // in the midst of the flows
			cancel()
		}()
		return ours, nil
	})
	if answer != Unknown || !errors.Is(err, context.Canceled) {
		t.Errorf("%v, %v", answer, err)
	}
	if dials != 2 {
		t.Errorf("after its context has ended the probe has connected %d times, not once more to remove its flows", dials)
	}
}

// FuzzRun: whatever a switch says, nothing is concluded from it but what it has counted, and it ends.
func FuzzRun(f *testing.F) {
	f.Add([]byte{4, 0, 0, 8, 0, 0, 0, 0})
	f.Add(openflow.Message(openflow.BarrierReply, 30))
	f.Add(append(openflow.Message(openflow.BarrierReply, 30), openflow.Message(openflow.BarrierReply, 32)...))
	f.Fuzz(func(t *testing.T, says []byte) {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		if answer, err := Run(ctx, saying(says)); (answer == Unknown) != (err != nil) {
			t.Errorf("%v, %v", answer, err)
		}
	})
}

// TestPackets: their checksums are right, since datapaths look at them.
func TestPackets(t *testing.T) {
	for _, tr := range newTrials() {
		for name, packet := range map[string][]byte{"request": tr.request(), "reply": tr.reply()} {
			ip := packet[14:]
			if sum := checksum(ip[:20]); sum != 0 {
				t.Errorf("the %s of %v: the header's checksum is off by %#x", name, tr, sum)
			}
			payload := ip[20:]
			if tr.kind == translated {
				payload = append(append(bytes.Clone(ip[12:20]), 0, protocolUDP, 0, byte(len(payload))), payload...)
			}
			if sum := checksum(payload); sum != 0 {
				t.Errorf("the %s of %v: the payload's checksum is off by %#x", name, tr, sum)
			}
			if int(ip[2])<<8|int(ip[3]) != len(ip) {
				t.Errorf("the %s of %v says that it has %d bytes of %d", name, tr, int(ip[2])<<8|int(ip[3]), len(ip))
			}
		}
	}
}
