package openflow

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"time"

	"github.com/weftnet/weft/models/contract"
)

const (
	// silence is how long an end of the connection may leave the other one waiting.
	silence = 10 * time.Second
	// maxCountersRequest is the size in bytes of a request with [contract.MaxCookies] numbers of ten digits.
	maxCountersRequest = 12 * contract.MaxCookies
)

// Counters is a connection on which one [contract.CountersRequest] is answered by asking a bridge, by its
// connection for OpenFlow.
func Counters(bridge net.Conn) net.Conn {
	theirs, ours := net.Pipe()
	go func() {
		defer bridge.Close()
		defer ours.Close()
		if err := serveCounters(ours, bridge); err != nil {
			slog.Warn("flows' counters are not told", "error", err)
		}
	}()
	return theirs
}

// serveCounters reads a request, asks the switch and replies.
func serveCounters(asking, bridge net.Conn) error {
	deadline := time.Now().Add(silence)
	if err := errors.Join(asking.SetReadDeadline(deadline), bridge.SetDeadline(deadline)); err != nil {
		return err
	}
	// Open vSwitch gives a connection up on which it has heard nothing for a second, and a large request takes its time.
	if _, err := bridge.Write(Message(Hello, 0)); err != nil {
		return fmt.Errorf("greet br-int: %w", err)
	}
	var request contract.CountersRequest
	if err := json.NewDecoder(io.LimitReader(asking, maxCountersRequest)).Decode(&request); err != nil {
		return fmt.Errorf("read the request: %w", err)
	}
	reply := contract.CountersReply{Counters: []contract.Counter{}}
	counters, err := readCounters(patient{bridge}, request.Cookies)
	if err != nil {
		reply.Error = err.Error()
	}
	reply.Counters = append(reply.Counters, counters...)
	if err := asking.SetWriteDeadline(time.Now().Add(silence)); err != nil {
		return err
	}
	if err := json.NewEncoder(asking).Encode(reply); err != nil {
		return fmt.Errorf("reply: %w", err)
	}
	return nil
}

// patient waits for a switch as long as it goes on to answer: only its silence ends reading from it and writing to it.
type patient struct{ net.Conn }

func (p patient) Read(b []byte) (int, error) {
	if err := p.SetDeadline(time.Now().Add(silence)); err != nil {
		return 0, err
	}
	return p.Conn.Read(b)
}

// readCounters asks a switch, which has been greeted, for what the flows of each cookie have counted; a cookie that no
// flow has is left out. OVN's cookies have 32 bits.
func readCounters(bridge net.Conn, cookies []uint32) ([]contract.Counter, error) {
	if len(cookies) > contract.MaxCookies {
		return nil, fmt.Errorf("%d cookies are asked for; the most are %d", len(cookies), contract.MaxCookies)
	}
	asked := make(chan error, 1)
	go func() { asked <- askCounters(bridge, cookies) }()
	counters, err := receiveCounters(bufio.NewReader(bridge), cookies)
	if err != nil {
		bridge.Close() // who asks may wait for the switch
		return nil, errors.Join(fmt.Errorf("ask br-int for its flows' counters: %w", err), <-asked)
	}
	return counters, <-asked
}

// askCounters sends a question for each cookie, numbered by its index.
func askCounters(bridge io.Writer, cookies []uint32) error {
	w := bufio.NewWriter(bridge)
	for i, cookie := range cookies {
		_, _ = w.Write(AggregateRequest(uint32(i), uint64(cookie))) // Flush has the error
	}
	return w.Flush()
}

// receiveCounters reads the answers.
func receiveCounters(bridge io.Reader, cookies []uint32) ([]contract.Counter, error) {
	counters := make([]contract.Counter, 0, len(cookies))
	for answered := 0; answered < len(cookies); {
		message, err := Read(bridge)
		if err != nil {
			return nil, err
		}
		switch message[1] {
		case Error:
			return nil, Refusal(message)
		case MultipartReply:
		default: // its hello, or a question whether we live, which is over before it matters
			continue
		}
		counted, err := ParseAggregate(message)
		if err != nil {
			return nil, err
		}
		number := Number(message)
		if int64(number) >= int64(len(cookies)) {
			return nil, fmt.Errorf("the switch answers question %d, which was not asked", number)
		}
		answered++
		if counted.Flows > 0 {
			counters = append(counters, contract.Counter{Cookie: cookies[number], Packets: counted.Packets,
				Bytes: counted.Bytes})
		}
	}
	return counters, nil
}
