package node

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"time"

	"github.com/weftnet/weft/models/contract"
)

// OpenFlow 1.3, as far as one needs it to ask for counters: sections 7.3.5.3 and 7.4.4 of its specification. Of
// OpenFlow 1.0 a question cannot name a cookie.
const (
	openFlow13            = 4
	openFlowError         = 1
	openFlowMultipartAsk  = 18
	openFlowMultipart     = 19
	openFlowAggregate     = 2
	openFlowAggregateAsk  = 56
	openFlowAggregateTold = 40
)

const (
	// countersTime bounds everything from the request to the end of the reply.
	countersTime = 10 * time.Second
	// maxCountersRequest is the size in bytes of a request with [contract.MaxCookies] numbers of ten digits.
	maxCountersRequest = 12 * contract.MaxCookies
)

// openCounters answers one [contract.CountersRequest] on the connection that it returns. It fails where br-int is not reached.
func (h *agentTunnel) openCounters(ctx context.Context) (net.Conn, error) {
	bridge, err := h.dialSwitch(ctx)
	if err != nil {
		return nil, err
	}
	return Counters(bridge), nil
}

// Counters is a connection on which one [contract.CountersRequest] is answered by asking a bridge, by its connection for OpenFlow.
func Counters(bridge net.Conn) net.Conn {
	theirs, ours := net.Pipe()
	go func() {
		defer bridge.Close()
		defer ours.Close()
		if err := tellCounters(ours, bridge); err != nil {
			slog.Warn("flows' counters are not told", "error", err)
		}
	}()
	return theirs
}

// tellCounters reads a request, asks the switch and replies.
func tellCounters(asking, bridge net.Conn) error {
	deadline := time.Now().Add(countersTime)
	if err := errors.Join(asking.SetDeadline(deadline), bridge.SetDeadline(deadline)); err != nil {
		return err
	}
	var request contract.CountersRequest
	if err := json.NewDecoder(io.LimitReader(asking, maxCountersRequest)).Decode(&request); err != nil {
		return fmt.Errorf("read the request: %w", err)
	}
	reply := contract.CountersReply{Counters: []contract.Counter{}}
	counters, err := readCounters(bridge, request.Cookies)
	if err != nil {
		reply.Error = err.Error()
	}
	reply.Counters = append(reply.Counters, counters...)
	if err := json.NewEncoder(asking).Encode(reply); err != nil {
		return fmt.Errorf("reply: %w", err)
	}
	return nil
}

// readCounters asks a switch for what the flows of each cookie have counted; a cookie that no flow has is left out. The
// switch finds the flows of a cookie by an index (ofproto.c, collect_rules_loose), and lists none.
func readCounters(bridge net.Conn, cookies []uint32) ([]contract.Counter, error) {
	if len(cookies) > contract.MaxCookies {
		return nil, fmt.Errorf("%d cookies are asked for; the most are %d", len(cookies), contract.MaxCookies)
	}
	asked := make(chan error, 1)
	go func() { asked <- askCounters(bridge, cookies) }()
	counters, err := takeCounters(bufio.NewReader(bridge), cookies)
	if err != nil {
		bridge.Close() // who asks may wait for the switch
		return nil, errors.Join(fmt.Errorf("ask br-int for its flows' counters: %w", err), <-asked)
	}
	return counters, <-asked
}

// askCounters sends a question for each cookie, numbered by its index.
func askCounters(bridge io.Writer, cookies []uint32) error {
	w := bufio.NewWriter(bridge)
	_, _ = w.Write([]byte{openFlow13, openFlowHello, 0, openFlowHeader, 0, 0, 0, 0}) // Flush has the error
	for i, cookie := range cookies {
		_, _ = w.Write(aggregateRequest(uint32(i), cookie))
	}
	return w.Flush()
}

func aggregateRequest(number, cookie uint32) []byte {
	b := make([]byte, 0, openFlowAggregateAsk)
	b = append(b, openFlow13, openFlowMultipartAsk, 0, openFlowAggregateAsk)
	b = binary.BigEndian.AppendUint32(b, number)
	b = append(b, 0, openFlowAggregate, 0, 0, 0, 0, 0, 0)
	b = append(b, 0xff, 0, 0, 0)                         // all tables
	b = append(b, 0xff, 0xff, 0xff, 0xff)                // any port of output
	b = append(b, 0xff, 0xff, 0xff, 0xff)                // any group
	b = append(b, 0, 0, 0, 0)                            // padding
	b = binary.BigEndian.AppendUint64(b, uint64(cookie)) // OVN's have 32 bits
	b = binary.BigEndian.AppendUint64(b, ^uint64(0))     // and no other
	return append(b, 0, 1, 0, 4, 0, 0, 0, 0)             // an empty match
}

// takeCounters reads the answers.
func takeCounters(bridge io.Reader, cookies []uint32) ([]contract.Counter, error) {
	counters := make([]contract.Counter, 0, len(cookies))
	for answered := 0; answered < len(cookies); {
		message, err := readOpenFlow(bridge)
		if err != nil {
			return nil, err
		}
		switch message[1] {
		case openFlowError:
			return nil, fmt.Errorf("the switch answers with the error % x (ofp_error_msg)", message[openFlowHeader:min(len(message), 64)])
		case openFlowMultipart:
		default: // its hello, or a question whether we live, which is over before it matters
			continue
		}
		number := binary.BigEndian.Uint32(message[4:])
		if len(message) != openFlowAggregateTold || binary.BigEndian.Uint16(message[8:]) != openFlowAggregate || int64(number) >= int64(len(cookies)) {
			return nil, fmt.Errorf("the switch answers what was not asked: % x", message[:min(len(message), 64)])
		}
		answered++
		if flows := binary.BigEndian.Uint32(message[32:]); flows > 0 {
			counters = append(counters, contract.Counter{
				Cookie: cookies[number], Packets: binary.BigEndian.Uint64(message[16:]), Bytes: binary.BigEndian.Uint64(message[24:]),
			})
		}
	}
	return counters, nil
}
