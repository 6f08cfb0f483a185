package doctor

import "testing"

func TestFTP(t *testing.T) {
	for _, c := range []struct {
		config        Config
		states, words string
	}{
		{Config{Hosted: true}, "ok", "pods of this node have no such packets"},
		{Config{}, "warning", "set chassis to hosted"},
		{Config{Hosted: true, ConntrackFTP: true}, "unknown", "set conntrack-ftp to false"},
	} {
		expect(t, checkFTP(c.config), c.states, c.words)
	}
}
