package openflow

import (
	"bytes"
	"io"
	"net"
	"strings"
	"testing"
	"time"

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
				_, _ = io.CopyN(io.Discard, theirs, 8+int64(len(AggregateRequest(0, 7))))
				_, _ = theirs.Write(c.says)
				theirs.Close()
			}()
			if counters, err := readCounters(ours, []uint32{7}); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, %v; want an error about %s", counters, err, c.want)
			}
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
