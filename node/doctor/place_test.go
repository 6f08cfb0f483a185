package doctor

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/weftnet/weft/models/contract"
)

func TestConflist(t *testing.T) {
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
	ours := file(`{"plugins":[{"type":"weft-cni"}]}`)
	flannel := file(`{"plugins":[{"type":"flannel"},{"type":"portmap"}]}`)
	for _, c := range []struct {
		name    string
		folder  fstest.MapFS
		running bool
		states  string
		words   string
	}{
		{"ours first", fstest.MapFS{"10-weft.conflist": ours, "20-x.conf": flannel}, true, "ok", "is the first"},
		{"another before", fstest.MapFS{"10-weft.conflist": ours, "05-flannel.conflist": flannel}, true, "failed",
			"flannel portmap"},
		{"another kind before", fstest.MapFS{"10-weft.conflist": ours, "00.json": file(`{"type":"bridge"}`)}, true, "failed",
			"(bridge)"},
		{"unreadable before", fstest.MapFS{"10-weft.conflist": ours, "00.conf": file(`x`)}, true, "failed", "(unreadable)"},
		{"others do not count", fstest.MapFS{"10-weft.conflist": ours, "00-notes.txt": file(`x`), ".weft-123": ours}, true,
			"ok", ""},
		{"not written", fstest.MapFS{"20-x.conf": flannel}, true, "failed", "has no 10-weft.conflist"},
		{"not yet, in the way", fstest.MapFS{"05-x.conf": flannel}, false, "warning", "will take 05-x.conf"},
		{"not yet", fstest.MapFS{"20-x.conf": flannel}, false, "ok", "will write"},
	} {
		t.Run(c.name, func(t *testing.T) {
			expect(t, checkConflist(c.folder, Config{CNIConfName: "10-weft.conflist", CNIConfDir: "dir"}, c.running), c.states,
				c.words)
		})
	}
}

type fakeDisk struct {
	free, total uint64
	err         error
}

func (f fakeDisk) FreeSpace(string) (uint64, uint64, error) { return f.free, f.total, f.err }

func TestDisk(t *testing.T) {
	for _, c := range []struct {
		disk   fakeDisk
		states string
	}{
		{fakeDisk{50 << 30, 100 << 30, nil}, "ok"},
		{fakeDisk{500 << 20, 100 << 30, nil}, "warning"},
		{fakeDisk{1 << 20, 100 << 30, nil}, "failed"},
		{fakeDisk{err: errBroken}, "unknown"},
	} {
		expect(t, checkDisk(c.disk, "/run/weft"), c.states, "/run/weft")
	}
}

type fakeNames map[string][]string

func (f fakeNames) LookupHost(_ context.Context, host string) ([]string, error) {
	if addresses, ok := f[host]; ok {
		return addresses, nil
	}
	return nil, fmt.Errorf("lookup %s: no such host", host)
}

func TestDNS(t *testing.T) {
	names := fakeNames{"api.example": {"192.0.2.1"}}
	for server, want := range map[string]string{
		"https://api.example:6443": "ok", "https://192.0.2.1:6443": "ok", "https://[fd00::1]:6443": "ok",
		"https://elsewhere.example": "failed", "": "unknown",
	} {
		expect(t, checkDNS(t.Context(), server, names), want)
	}
}

type fakeAgent struct {
	answer readiness
	err    error
}

func (f fakeAgent) Readiness(context.Context) (readiness, error) { return f.answer, f.err }

func TestAgent(t *testing.T) {
	config := Config{MetricsAddress: "127.0.0.1:9471"}
	expect(t, checkAgent(t.Context(), config, fakeAgent{readiness{Ready: true}, nil}), "ok")
	expect(t, checkAgent(t.Context(), config, fakeAgent{readiness{Text: "bridges: no\nmanagement: none"}, nil}),
		"failed failed", "bridges: no", "management: none")
	expect(t, checkAgent(t.Context(), config, fakeAgent{err: fmt.Errorf("%w: x", errNotRunning)}), "warning")
	expect(t, checkAgent(t.Context(), config, fakeAgent{err: errBroken}), "unknown")
	expect(t, checkAgent(t.Context(), Config{}, fakeAgent{}), "unknown")
}

// A ready agent may know of flows that a bridge does not take.
func TestNotesOfAReadyAgent(t *testing.T) {
	const text = "ok, but\nconnections: too old\nconntrack-lookup: is false\n" +
		"external-networks: no br-a\nno br-b\nnext-hops: none of IPv6\n" +
		"refused-flows: bridge weft-uplink: flow 1\nOFPT_ERROR: flow 2"
	findings := checkAgent(t.Context(), Config{MetricsAddress: "127.0.0.1:9471"}, fakeAgent{readiness{true, text}, nil})
	expect(t, findings, "ok warning warning warning", "connections: too old", "3.6", "conntrack-lookup: is false",
		"bridge weft-uplink: flow 1 OFPT_ERROR: flow 2", "report it")
	for _, f := range findings {
		if strings.Contains(f.Detail, "no br-") || strings.Contains(f.Detail, "IPv6") {
			t.Errorf("it tells of what no connection fails by: %s", f.Detail)
		}
	}
}

// Each note is told by itself, and none is taken for a further line of the one before.
func TestEveryNoteOfAReadyAgent(t *testing.T) {
	text, states := "ok, but", "ok"
	for _, note := range contract.Notes {
		text += "\n" + note.Name + ": it is so"
		if own, ours := ownNotes[note.Name]; !ours || own != "" {
			states += " warning"
		}
	}
	findings := checkAgent(t.Context(), Config{MetricsAddress: "127.0.0.1:9471"}, fakeAgent{readiness{true, text}, nil})
	expect(t, findings, states, "encrypted-peers: it is so", "journalctl -u strongswan", "clear-tunnels: it is so",
		"hns: it is so", "hns-calls", "mtu: it is so")
	for _, f := range findings {
		if strings.Count(f.Detail, "it is so") > 1 {
			t.Errorf("two notes are one finding: %s", f.Detail)
		}
	}
	for name := range ownNotes {
		if _, known := contract.NoteOf(name + ": x"); !known {
			t.Errorf("%s is no note of an agent", name)
		}
	}
}

func TestTunnelPort(t *testing.T) {
	free := func(string) error { return nil }
	taken := func(string) error { return errors.New("address in use") }
	hosted := Config{Hosted: true, TunnelAddress: ":16642"}
	expect(t, checkTunnelPort(t.Context(), Config{}, false, taken), "ok", "not used")
	expect(t, checkTunnelPort(t.Context(), hosted, false, free), "ok", "free")
	expect(t, checkTunnelPort(t.Context(), hosted, false, taken), "failed", "address in use")
	expect(t, checkTunnelPort(t.Context(), hosted, true, taken), "ok")
	expect(t, checkTunnelPort(t.Context(), hosted, true, free), "failed", "nothing listens")
}
