package doctor

import (
	"fmt"
	"testing"
)

func TestConntrackLookup(t *testing.T) {
	hosted, local := Config{Hosted: true, ConntrackLookup: "auto"}, Config{ConntrackLookup: "auto"}
	on := Config{Hosted: true, ConntrackLookup: "true"}
	metrics := func(used int, found string, failures int) fakeMetrics {
		text := fmt.Sprintf("weft_conntrack_lookup %d\nweft_conntrack_lookup_failures_total %d\n", used, failures)
		if found != "" {
			text += fmt.Sprintf("weft_conntrack_lookup_found{answer=%q} 1\n", found)
		}
		return fakeMetrics{text: text}
	}
	for _, c := range []struct {
		name    string
		config  Config
		metrics fakeMetrics
		states  string
		words   string
	}{
		{"needed", hosted, metrics(1, "needed", 0), "ok", "flows have the lookup"},
		{"needed and off", hosted, metrics(0, "needed", 0), "warning", "set conntrack-lookup to auto"},
		{"needed and not by the agent", local, metrics(1, "needed", 0), "warning", "set chassis to hosted"},
		{"unneeded", hosted, metrics(0, "unneeded", 0), "ok", "needs no lookup"},
		{"unneeded and not by the agent", local, metrics(0, "unneeded", 0), "ok", "needs no lookup"},
		{"not known", hosted, metrics(1, "unknown", 0), "unknown", "to be safe"},
		{"not known and off", hosted, metrics(0, "unknown", 0), "warning", "conntrack-lookup is false"},
		{"not known and not by the agent", local, metrics(1, "unknown", 0), "warning", "set chassis to hosted"},
		{"always on", on, metrics(1, "", 0), "ok", "conntrack-lookup is true"},
		{"not examined yet", hosted, metrics(1, "", 0), "unknown", "has not examined"},
		{"flows that were not read", hosted, metrics(1, "needed", 3), "ok warning", "3 messages of ovn-controller's"},
		{"an older agent", hosted, fakeMetrics{text: "go_goroutines 7\n"}, "unknown", "tells nothing"},
		{"no agent", hosted, fakeMetrics{err: errNotRunning}, "unknown", "does not run"},
		{"nonsense", hosted, fakeMetrics{text: "<html>"}, "unknown", "no metric"},
	} {
		t.Run(c.name, func(t *testing.T) {
			expect(t, checkLookup(t.Context(), c.config, c.metrics), c.states, c.words)
		})
	}
}
