package doctor

import (
	"context"
	"fmt"
	"io/fs"
	"net/netip"
	"strings"
	"testing"
	"testing/fstest"
)

type fakeDevices struct {
	devices []device
	err     error
}

func (f fakeDevices) Devices() ([]device, error) { return f.devices, f.err }

func TestEncapAddressAndMTU(t *testing.T) {
	config := Config{EncapAddress: netip.MustParseAddr("192.0.2.11")}
	holding := device{Name: "eth0", MTU: 1500, Up: true, Addresses: []netip.Prefix{netip.MustParsePrefix("192.0.2.11/24")}}
	other, down, loop := holding, holding, holding
	other.Addresses = []netip.Prefix{netip.MustParsePrefix("192.0.2.9/24")}
	down.Up = false
	loop.Loopback = true
	for _, c := range []struct {
		name        string
		reader      fakeDevices
		states, mtu string
		words       string
	}{
		{"held", fakeDevices{devices: []device{holding}}, "ok", "ok", "eth0"},
		{"not held", fakeDevices{devices: []device{other}}, "failed", "unknown", "eth0 [192.0.2.9/24]"},
		{"down", fakeDevices{devices: []device{down}}, "failed", "ok", "ip link set eth0 up"},
		{"loopback", fakeDevices{devices: []device{loop}}, "warning", "ok", "route"},
		{"unreadable", fakeDevices{err: errBroken}, "unknown", "unknown", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			expect(t, checkEncapAddress(c.reader, config), c.states, c.words)
			expect(t, checkDeviceMTU(c.reader, config), c.mtu)
		})
	}
	expect(t, checkEncapAddress(fakeDevices{devices: []device{holding}}, Config{}), "unknown")
}

func text(s string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(s)} }

func TestDatapath(t *testing.T) {
	has, lacks := fakeFamilies{[]string{"nlctrl", datapathFamily}, nil}, fakeFamilies{[]string{"nlctrl"}, nil}
	silent := fakeFamilies{nil, errBroken}
	tun := fstest.MapFS{"dev/net/tun": text("")}
	for _, c := range []struct {
		root     fs.FS
		kernel   familyLister
		datapath string
		states   string
	}{
		{fstest.MapFS{}, has, "system", "ok"}, {fstest.MapFS{}, has, "netdev", "failed"}, {tun, lacks, "netdev", "ok"},
		{fstest.MapFS{"proc/sys/kernel/osrelease": text("6.1.0\n")}, lacks, "system", "failed"},
		{brokenFS{}, lacks, "system", "failed"}, {fstest.MapFS{}, silent, "system", "unknown"},
	} {
		expect(t, checkDatapath(c.root, c.kernel, Config{DatapathType: c.datapath}), c.states)
	}
}

type fakeFamilies struct {
	names []string
	err   error
}

func (f fakeFamilies) Families() ([]string, error) { return f.names, f.err }

const udpTitle = "   sl  local_address rem_address   st\n"

func TestGenevePort(t *testing.T) {
	free := udpTitle + "  427: 00000000:0044 00000000:0000 07\n"
	taken := udpTitle + "  427: 00000000:17C1 00000000:0000 07\n"
	for _, c := range []struct {
		name     string
		root     fs.FS
		datapath string
		states   string
		words    string
	}{
		{"free", fstest.MapFS{"proc/net/udp": text(free), "proc/net/udp6": text(free)}, "system", "ok", "free"},
		{"no IPv6", fstest.MapFS{"proc/net/udp": text(free)}, "system", "ok", "free"},
		{"ours", fstest.MapFS{"proc/net/udp": text(taken), "sys/class/net/genev_sys_6081/mtu": text("")}, "system", "ok",
			"Open vSwitch has"},
		{"another's", fstest.MapFS{"proc/net/udp": text(taken)}, "system", "failed", "ss -lunp"},
		{"another's, IPv6", fstest.MapFS{"proc/net/udp": text(free), "proc/net/udp6": text(taken)}, "netdev", "failed", ""},
		{"userspace", fstest.MapFS{"proc/net/udp": text(free)}, "netdev", "ok", "needs no socket"},
		{"nonsense", fstest.MapFS{"proc/net/udp": text(udpTitle + "x y\n")}, "system", "unknown", ""},
		{"unreadable", brokenFS{}, "system", "unknown", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			expect(t, checkGenevePort(c.root, Config{DatapathType: c.datapath}), c.states, c.words)
		})
	}
}

func FuzzKernelTables(f *testing.F) {
	f.Add(udpTitle + "  427: 00000000:17C1 00000000:0000 07\n")
	f.Add("Iface Destination\neth0\t00000000\t010200C0\t0003\t0\t0\t0\t00000000\t0\t0\t0\n")
	f.Fuzz(func(t *testing.T, table string) {
		if ports, err := parseUDPTable(table); err == nil {
			for _, port := range ports {
				if port < 0 || port > 65535 {
					t.Errorf("port %d", port)
				}
			}
		}
		if n, err := routesOf(table, "eth0"); err == nil && n < 0 {
			t.Errorf("%d routes", n)
		}
	})
}

type fakeControl map[string]string

func (f fakeControl) Control(_ context.Context, _, command string) (string, error) {
	if answer, ok := f[command]; ok {
		return answer, nil
	}
	return "", fmt.Errorf("no socket: %w", errAbsent)
}

func (f fakeControl) Arguments(context.Context, string) ([]string, error) {
	if text, ok := f["arguments"]; ok {
		return strings.Fields(text), nil
	}
	return nil, fmt.Errorf("no socket: %w", errAbsent)
}

type refusingControl struct{ err error }

func (r refusingControl) Arguments(context.Context, string) ([]string, error) { return nil, r.err }

func (r refusingControl) Control(context.Context, string, string) (string, error) { return "", r.err }

func TestOVNController(t *testing.T) {
	for _, c := range []struct {
		control daemonControl
		states  string
		words   string
	}{
		{fakeControl{}, "failed", "start ovn-controller"},
		{fakeControl{"connection-status": "connected\n", "version": "ovn-controller 25.03.0\nOpen vSwitch Library 3.5.0\n"},
			"ok", "25.03.0"},
		{fakeControl{"connection-status": "connected"}, "ok", "connected"},
		{fakeControl{"connection-status": "connected", "version": "ovn-controller 23.03.1"}, "warning", "24.03"},
		{fakeControl{"connection-status": "not connected", "version": "ovn-controller 25.03.0"}, "failed", "no Southbound"},
		{refusingControl{fs.ErrPermission}, "unknown", "as root"},
		{refusingControl{errBroken}, "unknown", "broken"},
	} {
		expect(t, checkOVNController(t.Context(), c.control), c.states, c.words)
	}
}

func TestReversePath(t *testing.T) {
	const title = "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\tMTU\tWindow\tIRTT\n"
	route := title + "weft-mp0\t0000F40A\t0101F40A\t0003\t0\t0\t0\t0000FFFF\t0\t0\t0\n"
	root := func(all, own, routes string) fstest.MapFS {
		m := fstest.MapFS{"proc/sys/net/ipv4/conf/all/rp_filter": text(all + "\n"), "proc/net/route": text(routes)}
		if own != "" {
			m["proc/sys/net/ipv4/conf/weft-mp0/rp_filter"] = text(own + "\n")
		}
		return m
	}
	for _, c := range []struct {
		name   string
		root   fs.FS
		states string
	}{
		{"no port yet", root("1", "", title), "ok"},
		{"strict, routed", root("1", "0", route), "ok"},
		{"strict, not routed", root("0", "1", title), "warning"},
		{"strict for all, not routed", root("1", "0", title), "warning"},
		{"loose, not routed", root("2", "2", title), "ok"},
		{"nonsense", root("0", "0", title+"x\n"), "unknown"},
		{"unreadable", brokenFS{}, "unknown"},
	} {
		t.Run(c.name, func(t *testing.T) { expect(t, checkReversePath(c.root), c.states) })
	}
}

type fakeChains struct {
	chains []string
	legacy bool
	err    error
}

func (f fakeChains) Chains() ([]string, bool, error) { return f.chains, f.legacy, f.err }

func TestLeftovers(t *testing.T) {
	clean := fstest.MapFS{"sys/class/net/eth0/mtu": text(""), "sys/class/net/weft-mp0/mtu": text("")}
	flannel := fstest.MapFS{"sys/class/net/flannel.1/mtu": text(""), "sys/class/net/cni0/mtu": text("")}
	for _, c := range []struct {
		name   string
		root   fs.FS
		chains fakeChains
		states string
		words  string
	}{
		{"clean", clean, fakeChains{chains: []string{"filter KUBE-FIREWALL", "mangle KUBE-KUBELET-CANARY"}}, "ok", ""},
		{"another network", flannel, fakeChains{}, "warning ok", "cni0 (the plugin bridge), flannel.1 (flannel)"},
		{"kube-proxy by iptables", clean, fakeChains{chains: []string{"nat KUBE-SERVICES", "nat KUBE-SVC-ABC"}}, "warning",
			"kube-proxy --cleanup"},
		{"kube-proxy by nftables", clean, fakeChains{chains: []string{"kube-proxy services"}}, "warning",
			"kube-proxy services"},
		{"old tables", clean, fakeChains{legacy: true}, "unknown", "iptables-legacy-save"},
		{"no rights", clean, fakeChains{err: errBroken}, "unknown", "as root"},
		{"unreadable", brokenFS{}, fakeChains{}, "unknown ok", ""},
	} {
		t.Run(c.name, func(t *testing.T) { expect(t, checkLeftovers(c.root, c.chains), c.states, c.words) })
	}
}

func TestSocket(t *testing.T) {
	const path = "/run/weft/cni.sock"
	at := func(mode fs.FileMode) fs.FS { return fstest.MapFS{path[1:]: {Mode: mode}} }
	for _, c := range []struct {
		name    string
		root    fs.FS
		running bool
		states  string
	}{
		{"before", fstest.MapFS{}, false, "ok"},
		{"gone", fstest.MapFS{}, true, "failed"},
		{"there", at(fs.ModeSocket | 0o600), true, "ok"},
		{"for everybody", at(fs.ModeSocket | 0o666), true, "failed"},
		{"a file", at(0o600), true, "failed"},
		{"unreadable", brokenFS{}, true, "unknown"},
	} {
		t.Run(c.name, func(t *testing.T) { expect(t, checkSocket(c.root, Config{CNISocket: path}, c.running), c.states) })
	}
}
