package gateway

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weftnet/weft/node/ctprobe"
	"github.com/weftnet/weft/node/health"
	"github.com/weftnet/weft/node/nodeconfig"
	"github.com/weftnet/weft/node/nodetest"
	"github.com/weftnet/weft/node/openvswitch/openvswitchtest"
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

// examined is the configuration of a node whose datapath is examined.
func examined(c *nodeconfig.Config) { c.ConntrackLookup = nodeconfig.LookupAuto }

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
			b := newUplinkBench(t, &openvswitchtest.Vswitchd{}, func(config *nodeconfig.Config) {
				config.ConntrackLookup = c.setting
			})
			datapath := &answers{list: c.answers}
			b.probe, b.Times.Probe = datapath.probe, c.limit
			if err := b.applyFlows(t.Context(), External{}); errors.Is(err,
				errNotExamined) != (c.setting == nodeconfig.LookupAuto) {
				t.Errorf("before the examination: flows %v", err)
			}
			b.ReconcileUplinkOnce(t.Context())
			if problem := b.Health.Problems()[health.Uplink]; problem != nil {
				t.Fatal(problem)
			}
			if on, known := b.lookup.state(); on != c.on || !known {
				t.Errorf("lookups %v, known %v", on, known)
			}
			if err := b.applyFlows(t.Context(), External{}); errors.Is(err, errNotExamined) {
				t.Error(err)
			}
			asked := datapath.asked
			b.ReconcileUplinkOnce(t.Context())
			if asked < c.asked || c.asked == 0 && asked > 0 || datapath.asked != asked {
				t.Errorf("it was asked %d times, and then %d", asked, datapath.asked-asked)
			}
			note := b.Health.Noted()[health.ConntrackLookup]
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
			b := newUplinkBench(t, &openvswitchtest.Vswitchd{Refuses: c.refuses}, func(config *nodeconfig.Config) {
				config.ConntrackLookup = nodeconfig.LookupAuto
				config.OVSDatabase, config.OVSOpenFlow = "tcp:127.0.0.1:1", c.openFlow
			})
			b.Times.Probe = nodetest.Patience
			if c.refuses != "" {
				b.Times.Probe = time.Second // all of which it waits
			}
			asked := false
			b.probe = func(ctx context.Context, dial ctprobe.Dial) (ctprobe.Answer, error) {
				asked = true
				if _, err := dial(ctx); err == nil || !strings.Contains(err.Error(), "127.0.0.1:1") {
					t.Errorf("it is dialled elsewhere: %v", err)
				}
				return ctprobe.Unneeded, nil
			}
			b.ReconcileUplinkOnce(t.Context())
			if on, known := b.lookup.state(); on == c.asked || !known || asked != c.asked {
				t.Errorf("lookups %v, known %v, asked %v", on, known, asked)
			}
		})
	}
}

// An agent that ends has found nothing out.
func TestAnExaminationThatIsBrokenOff(t *testing.T) {
	b := newUplinkBench(t, &openvswitchtest.Vswitchd{}, examined)
	ctx, cancel := context.WithCancel(t.Context())
	b.probe = func(ctx context.Context, _ ctprobe.Dial) (ctprobe.Answer, error) {
		cancel()
		return ctprobe.Unknown, ctx.Err()
	}
	b.ReconcileUplinkOnce(ctx)
	if on, known := b.lookup.state(); !on || known {
		t.Errorf("lookups %v, known %v", on, known)
	}
}
