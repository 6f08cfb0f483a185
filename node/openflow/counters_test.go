package openflow

import (
	"bytes"
	"encoding/json"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/node/nodetest"
)

// A switch that answers what is not an answer is told of, and nobody waits for it.
func TestCountersOfABadSwitch(t *testing.T) {
	for name, c := range map[string]struct {
		says []byte
		want string
	}{
		"an error":            {[]byte{4, 1, 0, 12, 0, 0, 0, 0, 0, 1, 0, 2}, "00 01 00 02"},
		"a length of its own": {[]byte{4, 19, 0, 17, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 7}, "was not asked"},
		"another answer":      {append([]byte{4, 19, 0, 40, 0, 0, 0, 9, 0, 2}, make([]byte, 30)...), "was not asked"},
		"the end":             {nil, "closed by the switch"},
		"no OpenFlow":         {[]byte{4, 0, 0, 1, 0, 0, 0, 0}, "is not OpenFlow's"},
	} {
		t.Run(name, func(t *testing.T) {
			ours, theirs := net.Pipe()
			if err := ours.SetDeadline(time.Now().Add(nodetest.Patience)); err != nil {
				t.Fatal(err)
			}
			go func() {
				_, _ = io.CopyN(io.Discard, theirs, int64(len(AggregateRequest(0, 7))))
				_, _ = theirs.Write(c.says)
				theirs.Close()
			}()
			if counters, err := readCounters(ours, []uint32{7}); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, %v; want an error about %s", counters, err, c.want)
			}
		})
	}
}

// A slow switch is waited for as long as it answers at all, and a silent one is not. It is greeted before it is asked,
// since it gives a silent connection up, too.
func TestCountersOfASlowSwitch(t *testing.T) {
	for name, c := range map[string]struct {
		pause time.Duration // before each answer
		want  string        // of the error; empty: none
	}{
		"it answers slowly": {silence - time.Second, ""},
		"it is silent":      {silence + time.Second, "timeout"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				bridge, theirs := net.Pipe()
				defer theirs.Close()
				asking := Counters(bridge)
				defer asking.Close()
				hello := make([]byte, HeaderSize)
				if _, err := io.ReadFull(theirs, hello); err != nil || hello[1] != Hello {
					t.Fatalf("the switch is greeted with %x, %v", hello, err)
				}
				go io.Copy(io.Discard, theirs)
				if err := json.NewEncoder(asking).Encode(contract.CountersRequest{Cookies: []uint32{7, 8, 9}}); err != nil {
					t.Fatal(err)
				}
				var answering sync.WaitGroup
				defer answering.Wait()
				answering.Go(func() {
					for i := range 3 {
						time.Sleep(c.pause)
						_, _ = theirs.Write(append([]byte{4, 19, 0, 40, 0, 0, 0, byte(i), 0, 2}, make([]byte, 30)...))
					}
				})
				var reply contract.CountersReply
				if err := json.NewDecoder(asking).Decode(&reply); err != nil {
					t.Fatal(err)
				}
				if c.want == "" && reply.Error != "" || !strings.Contains(reply.Error, c.want) {
					t.Errorf("the reply is %+v; want an error about %q", reply, c.want)
				}
			})
		})
	}
}

// FuzzTakeCounters: whatever a switch says, there are no more counters than cookies, of those cookies.
func FuzzTakeCounters(f *testing.F) {
	f.Add(append([]byte{6, 0, 0, 8, 0, 0, 0, 0, 4, 19, 0, 40, 0, 0, 0, 1, 0, 2, 0, 0, 0, 0, 0, 0}, make([]byte, 24)...))
	f.Add([]byte{4, 1, 0, 12, 0, 0, 0, 0, 0, 1, 0, 2})
	f.Fuzz(func(t *testing.T, said []byte) {
		counters, _ := receiveCounters(bytes.NewReader(said), []uint32{5, 6})
		if len(counters) > 2 {
			t.Errorf("%+v", counters)
		}
		for _, c := range counters {
			if c.Cookie != 5 && c.Cookie != 6 {
				t.Errorf("%+v", c)
			}
		}
	})
}
