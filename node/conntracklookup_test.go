package node

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weftnet/weft/node/ctprobe"
	"github.com/weftnet/weft/node/health"
	"github.com/weftnet/weft/node/nodeconfig"
)

// TestLookupFollowsTheDatapath: what is set counts, and with auto what was found. What is not known is as if it were
// needed.
func TestLookupFollowsTheDatapath(t *testing.T) {
	for _, c := range []struct {
		setting string
		found   []ctprobe.Answer
		on      bool
		known   bool
		metrics string
	}{
		{nodeconfig.LookupAuto, nil, true, false, "weft_conntrack_lookup 1"},
		{nodeconfig.LookupAuto, []ctprobe.Answer{ctprobe.Needed}, true, true, "weft_conntrack_lookup 1 needed"},
		{nodeconfig.LookupAuto, []ctprobe.Answer{ctprobe.Unneeded}, false, true, "weft_conntrack_lookup 0 unneeded"},
		{nodeconfig.LookupAuto, []ctprobe.Answer{ctprobe.Unknown}, true, true, "weft_conntrack_lookup 1 unknown"},
		{nodeconfig.LookupAuto, []ctprobe.Answer{ctprobe.Needed, ctprobe.Unneeded}, true, true,
			"weft_conntrack_lookup 1 needed"},
		{nodeconfig.LookupOn, nil, true, true, "weft_conntrack_lookup 1"},
		{nodeconfig.LookupOff, nil, false, true, "weft_conntrack_lookup 0"},
		{nodeconfig.LookupOff, []ctprobe.Answer{ctprobe.Needed}, false, true, "weft_conntrack_lookup 0 needed"},
		{"", nil, false, true, ""},
	} {
		l := newCommitLookup(c.setting)
		for _, answer := range c.found {
			l.decide(answer)
		}
		if on, known := l.state(); on != c.on || known != c.known {
			t.Errorf("%q, found %v: lookups %v, known %v", c.setting, c.found, on, known)
		}
		registry := prometheus.NewRegistry()
		registry.MustRegister(l.collectors()...)
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		text := ""
		for _, f := range families {
			for _, m := range f.GetMetric() {
				if labels := m.GetLabel(); len(labels) > 0 {
					text += " " + labels[0].GetValue()
				} else {
					text += fmt.Sprint(f.GetName(), " ", m.GetGauge().GetValue())
				}
			}
		}
		if text != c.metrics {
			t.Errorf("%q, found %v: metrics %q, want %q", c.setting, c.found, text, c.metrics)
		}
	}
}

// A stream waits for what the datapath is found to be, and no longer than its limit: then it has the lookups.
func TestAStreamWaitsForTheDatapath(t *testing.T) {
	for name, c := range map[string]struct {
		setting string
		found   time.Duration // when; 0: never
		on      bool
		waited  time.Duration
	}{
		"found":     {nodeconfig.LookupAuto, time.Second, false, time.Second},
		"not found": {nodeconfig.LookupAuto, 0, true, lookupWait},
		"too late":  {nodeconfig.LookupAuto, lookupWait + time.Second, true, lookupWait},
		"set":       {nodeconfig.LookupOn, 0, true, 0},
		"set off":   {nodeconfig.LookupOff, 0, false, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newCommitLookup(c.setting)
				if c.found != 0 {
					time.AfterFunc(c.found, func() { l.decide(ctprobe.Unneeded) })
				}
				begun := time.Now()
				if on := l.await(t.Context(), lookupWait); on != c.on || time.Since(begun) != c.waited {
					t.Errorf("lookups %v after %v; want %v after %v", on, time.Since(begun), c.on, c.waited)
				}
			})
		})
	}
}

// emptyingFlows is the message by which ovn-controller begins, and after which the tables of lookups come.
func emptyingFlows() []byte {
	m := make([]byte, 56)
	m[0], m[1], m[24], m[25] = 6, 14, 0xff, 3
	binary.BigEndian.PutUint16(m[2:], uint16(len(m)))
	binary.BigEndian.PutUint16(m[48:], 1)
	binary.BigEndian.PutUint16(m[50:], 4)
	return m
}

// bytesOfAStream are how many br-int gets of a chassis host's stream that empties it.
func bytesOfAStream(t *testing.T, c nodeconfig.Config, decide func(*commitLookup)) int {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	c.OVSOpenFlow = "tcp:" + listener.Addr().String()
	h := newAgentTunnel(c)
	decide(h.lookup)
	conn, err := h.dialBridge(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	bridge, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer bridge.Close()
	if _, err := conn.Write(emptyingFlows()); err != nil {
		t.Fatal(err)
	}
	conn.Close()
	got, err := io.ReadAll(bridge)
	if err != nil {
		t.Fatal(err)
	}
	return len(got)
}

// An ovn-controller's flows get the lookups as the datapath needs them.
func TestFlowsOfAStreamFollowTheDatapath(t *testing.T) {
	for answer, more := range map[ctprobe.Answer]bool{
		ctprobe.Needed: true, ctprobe.Unneeded: false, ctprobe.Unknown: true,
	} {
		t.Run(answer.String(), func(t *testing.T) {
			c := hostedConfig()
			c.ConntrackLookup, c.ConntrackFTP = nodeconfig.LookupAuto, true
			got := bytesOfAStream(t, c, func(l *commitLookup) { l.decide(answer) })
			if got > len(emptyingFlows()) != more {
				t.Errorf("br-int gets %d bytes", got)
			}
		})
	}
}

// They are kept from the driver's helpers of FTP and TFTP, unless the node is told that there are none.
func TestFlowsOfAStreamKeepFTPFromTheDriver(t *testing.T) {
	for _, passes := range []bool{false, true} {
		c := hostedConfig()
		c.ConntrackLookup, c.ConntrackFTP = nodeconfig.LookupOff, passes
		if got := bytesOfAStream(t, c, func(*commitLookup) {}); got > len(emptyingFlows()) == passes {
			t.Errorf("conntrack-ftp is %t: br-int gets %d bytes", passes, got)
		}
	}
}

// answers are those of a datapath that is asked again and again, the last one for ever.
type answers struct {
	list  []error // nil: it needs the lookup
	asked int
}

var errUnneeded = errors.New("unneeded")

func (a *answers) probe(context.Context, ctprobe.Dial) (ctprobe.Answer, error) {
	err := a.list[min(a.asked, len(a.list)-1)]
	a.asked++
	switch {
	case err == nil:
		return ctprobe.Needed, nil
	case errors.Is(err, errUnneeded):
		return ctprobe.Unneeded, nil
	}
	return ctprobe.Unknown, err
}

// TestTheDatapathIsExaminedOnce: when there is the uplink, before flows are written, again where it gave no answer, and
// not where nothing depends on it.
func TestTheDatapathIsExaminedOnce(t *testing.T) {
	broken := errors.New("the request of a ping: lost")
	for name, c := range map[string]struct {
		setting string
		answers []error
		limit   time.Duration
		on      bool
		asked   int // at least
		note    string
	}{
		"needed":         {nodeconfig.LookupAuto, []error{nil}, time.Minute, true, 1, ""},
		"unneeded":       {nodeconfig.LookupAuto, []error{errUnneeded}, time.Minute, false, 1, ""},
		"at last":        {nodeconfig.LookupAuto, []error{broken, errUnneeded}, time.Minute, false, 2, ""},
		"never":          {nodeconfig.LookupAuto, []error{broken}, 10 * time.Millisecond, true, 1, ""},
		"off and needed": {nodeconfig.LookupOff, []error{nil}, time.Minute, false, 1, "conntrack-lookup is false"},
		"off and sound":  {nodeconfig.LookupOff, []error{errUnneeded}, time.Minute, false, 1, ""},
		"on":             {nodeconfig.LookupOn, nil, time.Minute, true, 0, ""},
		"no such key":    {"", nil, time.Minute, false, 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			n := newUplinkNode(t, &vswitchd{})
			datapath := &answers{list: c.answers}
			n.gateway.lookup, n.gateway.probe, n.gateway.probeLimit = newCommitLookup(c.setting), datapath.probe, c.limit
			n.gateway.config.ConntrackLookup = c.setting
			if err := n.gateway.applyFlows(t.Context(), External{}); errors.Is(err,
				errNotExamined) != (c.setting == nodeconfig.LookupAuto) {
				t.Errorf("before the examination: flows %v", err)
			}
			n.gateway.reconcileUplinkOnce(t.Context())
			if problem := n.health.Problems()[health.Uplink]; problem != nil {
				t.Fatal(problem)
			}
			if on, known := n.gateway.lookup.state(); on != c.on || !known {
				t.Errorf("lookups %v, known %v", on, known)
			}
			if err := n.gateway.applyFlows(t.Context(), External{}); errors.Is(err, errNotExamined) {
				t.Error(err)
			}
			asked := datapath.asked
			n.gateway.reconcileUplinkOnce(t.Context())
			if asked < c.asked || c.asked == 0 && asked > 0 || datapath.asked != asked {
				t.Errorf("it was asked %d times, and then %d", asked, datapath.asked-asked)
			}
			note := n.health.Noted()[health.ConntrackLookup]
			if (note == nil) != (c.note == "") || note != nil && !strings.Contains(note.Error(), c.note) {
				t.Errorf("noted: %v; want %q", note, c.note)
			}
		})
	}
}

// Where only br-int is reached it is asked, and where it has no port, as without Hyper-V's management, no packet is
// sent.
func TestADatapathThatIsReachedByBrInt(t *testing.T) {
	for name, c := range map[string]struct {
		refuses, openFlow string
		asked             bool
	}{
		"well":           {"", "tcp:127.0.0.1:1", true},
		"without a port": {nodeconfig.IntegrationBridge, "tcp:127.0.0.1:1", false},
		"without a way":  {"", "", false},
	} {
		t.Run(name, func(t *testing.T) {
			n := newUplinkNode(t, &vswitchd{refuses: c.refuses})
			n.gateway.lookup, n.gateway.probeLimit = newCommitLookup(nodeconfig.LookupAuto), time.Second
			n.gateway.config.OVSDatabase, n.gateway.config.OVSOpenFlow = "tcp:127.0.0.1:1", c.openFlow
			asked := false
			n.gateway.probe = func(ctx context.Context, dial ctprobe.Dial) (ctprobe.Answer, error) {
				asked = true
				if _, err := dial(ctx); err == nil || !strings.Contains(err.Error(), "127.0.0.1:1") {
					t.Errorf("it is dialled elsewhere: %v", err)
				}
				return ctprobe.Unneeded, nil
			}
			n.gateway.reconcileUplinkOnce(t.Context())
			if on, known := n.gateway.lookup.state(); on == c.asked || !known || asked != c.asked {
				t.Errorf("lookups %v, known %v, asked %v", on, known, asked)
			}
		})
	}
}

// An agent that ends has found nothing out.
func TestAnExaminationThatIsBrokenOff(t *testing.T) {
	n := newUplinkNode(t, &vswitchd{})
	n.gateway.lookup = newCommitLookup(nodeconfig.LookupAuto)
	ctx, cancel := context.WithCancel(t.Context())
	n.gateway.probe = func(ctx context.Context, _ ctprobe.Dial) (ctprobe.Answer, error) {
		cancel()
		return ctprobe.Unknown, ctx.Err()
	}
	n.gateway.reconcileUplinkOnce(ctx)
	if on, known := n.gateway.lookup.state(); !on || known {
		t.Errorf("lookups %v, known %v", on, known)
	}
}
