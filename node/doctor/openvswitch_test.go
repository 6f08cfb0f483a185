package doctor

import (
	"context"
	"io/fs"
	"net"
	"net/netip"
	"strings"
	"testing"

	"github.com/weftnet/weft/models/vswitch"
	"github.com/weftnet/weft/node/nodetest"
)

type fakeVswitch struct {
	found *openVSwitch
	err   error
}

func (f fakeVswitch) OpenVSwitch(context.Context) (*openVSwitch, error) { return f.found, f.err }

func pointer[T any](v T) *T { return &v }

func TestOVSVersion(t *testing.T) {
	for _, c := range []struct {
		os, datapath, version, states, words string
	}{
		{"linux", "system", "3.5.0", "ok", "3.5.0"},
		{"linux", "system", "2.17.9", "ok", ""},
		{"linux", "system", "2.13.8", "failed", "older"},
		{"linux", "netdev", "3.1.0", "warning", "aborts"},
		{"linux", "netdev", "3.5.0", "ok", ""},
		{"linux", "system", "4.0.0", "ok", ""},
		{"linux", "system", "main", "unknown", "main"},
		{"windows", "system", "2.15.0", "failed", ""},
		{"windows", "system", "3.0.5-antrea.1", "failed", "blue screen"},
		{"windows", "system", "3.5.9", "failed", "install Open vSwitch 3.7"},
		{"windows", "system", "3.6.0", "ok", "3.7"},
		{"windows", "system", "3.7.1", "ok", "3.7.1"},
		{"windows", "system", "3.8.0", "failed", "no Windows datapath"},
		{"windows", "system", "4.0.0", "failed", "no Windows datapath"},
	} {
		t.Run(c.os+" "+c.version, func(t *testing.T) {
			o := &openVSwitch{Root: &vswitch.OpenvSwitch{OVSVersion: &c.version}}
			expect(t, checkOVSVersion(t.Context(), c.os, Config{DatapathType: c.datapath}, fakeControl{}, fakeVswitch{found: o}),
				c.states, c.words)
		})
	}
	running := fakeControl{"version": "ovs-vswitchd (Open vSwitch) 3.7.1\n"}
	stale := fakeVswitch{found: &openVSwitch{Root: &vswitch.OpenvSwitch{OVSVersion: pointer("2.1.0")}}}
	expect(t, checkOVSVersion(t.Context(), "windows", Config{}, running, stale), "ok", "3.7.1")
	expect(t, checkOVSVersion(t.Context(), "linux", Config{}, running, fakeVswitch{err: errBroken}), "ok", "3.7.1")
	expect(t, checkOVSVersion(t.Context(), "linux", Config{}, refusingControl{errBroken}, fakeVswitch{err: errBroken}),
		"unknown", "broken")
	expect(t, checkOVSVersion(t.Context(), "linux", Config{}, fakeControl{}, fakeVswitch{found: &openVSwitch{}}),
		"unknown")
}

func FuzzParseRelease(f *testing.F) {
	for _, seed := range []string{"3.7.1", "2.17", "", "3.", "99999.1", "3.0.5-antrea.1"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		r, ok := parseRelease(text)
		if ok && (r.major < 0 || r.minor < 0 || !strings.Contains(text, ".")) {
			t.Errorf("%q is %v", text, r)
		}
	})
}

func TestDatabaseAndDaemon(t *testing.T) {
	answers := func(context.Context) error { return nil }
	silent := func(context.Context) error { return errBroken }
	bridge := []*vswitch.Bridge{{Name: "br-int"}}
	for _, c := range []struct {
		name               string
		reader             fakeVswitch
		openFlow           func(context.Context) error
		database, vswitchd string
	}{
		{"no database", fakeVswitch{err: errBroken}, answers, "failed", "unknown"},
		{"empty", fakeVswitch{found: &openVSwitch{}}, answers, "failed", "unknown"},
		{"never started", fakeVswitch{found: &openVSwitch{Root: &vswitch.OpenvSwitch{}}}, answers, "ok", "failed"},
		{"stuck", fakeVswitch{found: &openVSwitch{Root: &vswitch.OpenvSwitch{IfaceTypes: []string{"geneve"}, NextCfg: 3,
			CurCfg: 2}}}, answers, "ok", "failed"},
		{"fresh", fakeVswitch{found: &openVSwitch{Root: &vswitch.OpenvSwitch{IfaceTypes: []string{"geneve"}}}}, answers, "ok",
			"unknown"},
		{"dead", fakeVswitch{found: &openVSwitch{Root: &vswitch.OpenvSwitch{IfaceTypes: []string{"geneve"}},
			Bridges: bridge}}, silent, "ok", "failed"},
		{"runs", fakeVswitch{found: &openVSwitch{Root: &vswitch.OpenvSwitch{IfaceTypes: []string{"geneve"}},
			Bridges: bridge}}, answers, "ok", "ok"},
	} {
		t.Run(c.name, func(t *testing.T) {
			expect(t, checkOVSDatabase(t.Context(), Config{}, c.reader), c.database)
			expect(t, checkVswitchd(t.Context(), false, c.reader, c.openFlow), c.vswitchd)
			early, todo := strings.ReplaceAll(c.vswitchd, "failed", "warning"), []string{}
			if early == "warning" && len(c.reader.found.Bridges) == 0 {
				todo = append(todo, "start ovs-vswitchd", "the agent's first start waits for it")
			} else if early == "warning" {
				todo = append(todo, "look again when the agent runs")
			}
			expect(t, checkVswitchd(t.Context(), true, c.reader, c.openFlow), early, todo...)
		})
	}
}

func TestUpcalls(t *testing.T) {
	bridge := fakeVswitch{found: &openVSwitch{Root: &vswitch.OpenvSwitch{}, Bridges: []*vswitch.Bridge{{Name: "br-int"}}}}
	show := func(datapaths ...string) fakeControl {
		return fakeControl{"dpctl/show": strings.Join(datapaths, "")}
	}
	const (
		lost = "system@ovs-system:\n  lookups: hit:0 missed:600 lost:600\n  flows: 0\n"
		well = "netdev@ovs-netdev:\n  lookups: hit:9 missed:3 lost:1\n  flows: 2\n"
	)
	for _, c := range []struct {
		name   string
		daemon daemonControl
		reader fakeVswitch
		states string
		words  []string
	}{
		{"all lost", show(lost), bridge, "failed", []string{"system@ovs-system has lost all 600", "3.1.0",
			"systemctl restart ovs-vswitchd", "3.1.1"}},
		{"one of two datapaths", show(well, lost), bridge, "failed", []string{"system@ovs-system"}},
		{"well", show(well), bridge, "ok", nil},
		{"no packet yet", show("system@ovs-system:\n  lookups: hit:0 missed:0 lost:0\n  flows: 0\n"), bridge, "ok", nil},
		{"no datapath yet", show(), bridge, "ok", nil},
		{"another answer", show("system@ovs-system:\n  lookups: 7\n"), bridge, "unknown", []string{"lookups: 7",
			"ovs-appctl dpctl/show"}},
		{"refused", refusingControl{errBroken}, bridge, "unknown", []string{"broken"}},
		{"no daemon", fakeControl{}, bridge, "", nil},
		{"no pipe", refusingControl{fs.ErrNotExist}, bridge, "", nil},
		{"no bridge, and so no question", refusingControl{errBroken}, fakeVswitch{found: &openVSwitch{}}, "", nil},
		{"no database", refusingControl{errBroken}, fakeVswitch{err: errBroken}, "", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			expect(t, checkUpcalls(t.Context(), c.daemon, c.reader), c.states, c.words...)
		})
	}
}

func TestHelloOfOpenFlow(t *testing.T) {
	for _, c := range []struct {
		name   string
		answer []byte
		ok     bool
	}{
		{"hello", []byte{6, 0, 0, 16, 0, 0, 0, 7}, true},
		{"something else", []byte{6, 2, 0, 8, 0, 0, 0, 7}, false},
		{"cut off", []byte{6, 0}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			ours, theirs := net.Pipe()
			go func() {
				buffer := make([]byte, 8)
				_, _ = theirs.Read(buffer)
				_, _ = theirs.Write(c.answer)
				theirs.Close()
			}()
			ctx, cancel := context.WithTimeout(t.Context(), nodetest.Patience)
			defer cancel()
			if err := helloOpenFlow(ctx, ours); (err == nil) != c.ok {
				t.Error(err)
			}
		})
	}
}

func TestChassisSettings(t *testing.T) {
	config := Config{EncapAddress: netip.MustParseAddr("192.0.2.11"), OVNSouthbound: "tcp:192.0.2.1:6642"}
	right := map[string]string{"ovn-encap-ip": "192.0.2.11", "ovn-remote": "tcp:192.0.2.1:6642",
		"ovn-encap-type": "geneve", "system-id": "l1"}
	changed := func(key, value string) map[string]string {
		ids := map[string]string{key: value}
		for k, v := range right {
			if k != key {
				ids[k] = v
			}
		}
		return ids
	}
	for _, c := range []struct {
		name   string
		ids    map[string]string
		states string
		words  string
	}{
		{"not yet", nil, "ok", "the agent sets them"},
		{"right", right, "ok", "chassis l1"},
		{"other address", changed("ovn-encap-ip", "192.0.2.99"), "warning", `"192.0.2.99" and not "192.0.2.11"`},
		{"other type", changed("ovn-encap-type", "vxlan"), "warning", "ovn-encap-type"},
		{"no name", changed("system-id", ""), "failed", "system-id"},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := &openVSwitch{Root: &vswitch.OpenvSwitch{ExternalIDs: c.ids}}
			expect(t, checkEncapsulation(t.Context(), config, fakeVswitch{found: o}), c.states, c.words)
		})
	}
	o := &openVSwitch{Root: &vswitch.OpenvSwitch{ExternalIDs: right}}
	// nothing to compare with
	expect(t, checkEncapsulation(t.Context(), Config{}, fakeVswitch{found: o}), "ok", "192.0.2.11")
}

func TestBridges(t *testing.T) {
	secure := pointer(vswitch.BridgeFailModeSecure)
	for _, c := range []struct {
		name   string
		found  openVSwitch
		states string
		words  string
	}{
		{"none", openVSwitch{}, "ok", "no br-int yet"},
		{"well", openVSwitch{Bridges: []*vswitch.Bridge{{Name: "br-int", FailMode: secure, DatapathType: "system"}}}, "ok",
			"all 0 interfaces"},
		{"type by default", openVSwitch{Bridges: []*vswitch.Bridge{{Name: "br-int", FailMode: secure}}}, "ok", ""},
		{"open", openVSwitch{Bridges: []*vswitch.Bridge{{Name: "br-int", DatapathType: "netdev"}}}, "warning warning",
			"secure"},
		{"broken devices", openVSwitch{Bridges: []*vswitch.Bridge{{Name: "br-int", FailMode: secure}},
			Interfaces: []*vswitch.Interface{{Name: "p1", Error: pointer("no such device")}, {Name: "p2"}}}, "warning",
			"1 of 2 interfaces: p1 (no such device)"},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.found.Root = &vswitch.OpenvSwitch{}
			expect(t, checkBridges(t.Context(), "linux", Config{DatapathType: "system"}, fakeVswitch{found: &c.found}), c.states,
				c.words)
		})
	}
}

// Of ports of type internal Hyper-V's management makes the vNIC, on Windows alone.
func TestPortsThatHyperVHasNotMade(t *testing.T) {
	secure := pointer(vswitch.BridgeFailModeSecure)
	for _, c := range []struct{ os, kind, remedy string }{
		{"windows", "internal", "Start-Service vmms"}, {"windows", "", "del-port"}, {"linux", "internal", "del-port"},
	} {
		found := openVSwitch{
			Root: &vswitch.OpenvSwitch{}, Bridges: []*vswitch.Bridge{{Name: "br-int", FailMode: secure}},
			Interfaces: []*vswitch.Interface{{Name: "weft-mp0", Type: c.kind, Error: pointer("could not add")},
				{Name: "p2", Error: pointer("gone")}},
		}
		expect(t, checkBridges(t.Context(), c.os, Config{}, fakeVswitch{found: &found}), "warning",
			"2 of 2 interfaces: p2 (gone), weft-mp0 (could not add)", c.remedy)
	}
}

func TestOpenFlowIsBesideTheDatabase(t *testing.T) {
	for _, c := range []struct{ database, openFlow, want string }{
		{"unix:/run/openvswitch/db.sock", "", "unix:/run/openvswitch/br-int.mgmt"},
		{`unix:C:\openvswitch\var\run\openvswitch\db.sock`, "", `unix:C:\openvswitch\var\run\openvswitch\br-int.mgmt`},
		{"tcp:127.0.0.1:16640", "tcp:127.0.0.1:16653", "tcp:127.0.0.1:16653"},
		{"tcp:127.0.0.1:16640", "", ""},
	} {
		endpoint, err := openFlowEndpoint(Config{OVSDatabase: c.database, OVSOpenFlow: c.openFlow})
		if (err != nil) != (c.want == "") || err == nil && endpoint.String() != c.want {
			t.Errorf("%+v: %v, %v", c, endpoint, err)
		}
	}
}
