package doctor

import (
	"context"
	"testing"
)

type fakeMetrics struct {
	text string
	err  error
}

func (f fakeMetrics) Samples(context.Context) (samples, error) {
	if f.err != nil {
		return nil, f.err
	}
	return parseSamples(f.text)
}

func TestChassisHost(t *testing.T) {
	hosted := Config{Hosted: true, TunnelAddress: ":16642"}
	const (
		help    = "# HELP weft_tunnel_streams Open streams.\n# TYPE weft_tunnel_streams gauge\n"
		ovsdb   = `weft_tunnel_streams{target="weft-ovsdb/1"} 2` + "\n"
		flows   = `weft_tunnel_streams{target="weft-openflow/1"} 3` + "\n"
		none    = `weft_tunnel_streams{target="weft-openflow/1"} 0` + "\n"
		refusal = `weft_tunnel_refused_total{reason="name"} 7` + "\n"
	)
	for _, c := range []struct {
		name    string
		config  Config
		metrics fakeMetrics
		states  string
		words   string
	}{
		{"its own", Config{}, fakeMetrics{}, "ok", "its own ovn-controller"},
		{"connected", hosted, fakeMetrics{text: help + ovsdb + flows}, "ok",
			"5 streams open, to weft-openflow/1 and weft-ovsdb/1"},
		{"half", hosted, fakeMetrics{text: help + ovsdb + none}, "failed", "weft-ovsdb/1 only"},
		{"nobody", hosted, fakeMetrics{text: help}, "failed", "none was refused"},
		{"refused", hosted, fakeMetrics{text: refusal}, "failed", "7 connections: name"},
		{"no agent", hosted, fakeMetrics{err: errNotRunning}, "unknown", "does not run"},
		{"nonsense", hosted, fakeMetrics{text: "<html>"}, "unknown", "no metric"},
	} {
		t.Run(c.name, func(t *testing.T) {
			expect(t, checkChassisHost(t.Context(), c.config, c.metrics), c.states, c.words)
		})
	}
}

func TestHNSCalls(t *testing.T) {
	for _, c := range []struct {
		metrics fakeMetrics
		states  string
		words   string
	}{
		{fakeMetrics{text: "weft_hns_hung_calls 0\n"}, "ok", "every call"},
		{fakeMetrics{text: "weft_hns_hung_calls 0\nweft_hns_hung_calls_total{call=\"DeleteEndpoint\"} 2\n"}, "warning",
			"2 of the agent's calls (DeleteEndpoint)"},
		{fakeMetrics{text: "weft_hns_hung_calls 1\n"}, "failed", "Restart-Service"},
		{fakeMetrics{text: "go_goroutines 7\n"}, "unknown", ""},
		{fakeMetrics{err: errNotRunning}, "unknown", ""},
		{fakeMetrics{err: errBroken}, "unknown", "broken"},
	} {
		expect(t, checkHNSCalls(t.Context(), c.metrics), c.states, c.words)
	}
}

func FuzzParseSamples(f *testing.F) {
	f.Add("# x\nweft_hns_hung_calls 0\nweft_x{a=\"b\"} NaN\n")
	f.Fuzz(func(t *testing.T, text string) {
		found, err := parseSamples(text)
		if err != nil && len(found) > 0 {
			t.Error("an error and metrics")
		}
		found.of("weft_x")
	})
}
