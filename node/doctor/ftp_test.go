package doctor

import "testing"

func TestFTP(t *testing.T) {
	hosted := Config{Hosted: true}
	for _, c := range []struct {
		config        Config
		metrics       fakeMetrics
		states, words string
	}{
		{hosted, fakeMetrics{text: "weft_conntrack_ftp 0\n"}, "ok", "pods of this node have no such packets"},
		{Config{}, fakeMetrics{text: "weft_conntrack_ftp 0\n"}, "warning", "set chassis to hosted"},
		{hosted, fakeMetrics{text: "weft_conntrack_ftp 1\n"}, "unknown", "set conntrack-ftp to false"},
		{hosted, fakeMetrics{text: "go_goroutines 7\n"}, "warning", "install a newer weft.exe"},
		{hosted, fakeMetrics{err: errNotRunning}, "unknown", "start the agent"},
		{hosted, fakeMetrics{text: "<html>"}, "unknown", "no metric"},
	} {
		expect(t, checkFTP(t.Context(), c.config, c.metrics), c.states, c.words)
	}
}
