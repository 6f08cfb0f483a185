package doctor

import (
	"io/fs"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// brokenFS is a folder that cannot be read.
type brokenFS struct{}

func (brokenFS) Open(name string) (fs.File, error) {
	return nil, &fs.PathError{Op: "open", Path: name, Err: errBroken}
}

func TestParseRule(t *testing.T) {
	for text, want := range map[string]firewallRule{
		"v2.31|Action=Allow|Active=TRUE|Dir=In|Protocol=17|LPort=6081|Name=GENEVE|": {
			Name: "GENEVE", Active: true, Allow: true, Inbound: true, Protocol: 17, Ports: []portRange{{6081, 6081}}},
		"v2.10|Action=Block|Active=FALSE|Dir=Out|Protocol=6|LPort2_10=80-90|LPort=443|Name=x|": {
			Name: "x", Protocol: 6, Ports: []portRange{{80, 90}, {443, 443}}},
		"v2.31|Action=Allow|Active=TRUE|Dir=In|Protocol=6|LPort=RPC|App=%SystemRoot%\\x.exe|Name=rpc|": {
			Name: "rpc", Active: true, Allow: true, Inbound: true, Protocol: 6, Narrow: true},
		"v2.31|Action=Allow|Active=TRUE|Dir=In|Protocol=6|LPort=1|RA4=192.0.2.1|RA6=2001:db8::1|RA42=IntErnet|Name=f|": {
			Name: "f", Active: true, Allow: true, Inbound: true, Protocol: 6, Ports: []portRange{{1, 1}},
			From: []string{"192.0.2.1", "2001:db8::1", "IntErnet"}},
		"v2.31|Action=Allow|Active=TRUE|Dir=In|Name=all|": {Name: "all", Active: true, Allow: true, Inbound: true},
	} {
		got, err := parseRule(text)
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(firewallRule{}, portRange{})); err != nil || diff != "" {
			t.Errorf("%s: %v\n%s", text, err, diff)
		}
	}
	for _, text := range []string{"", "hello", "x|y=z|", "v2.31|Action|", "v2.31|Protocol=many|"} {
		if rule, err := parseRule(text); err == nil {
			t.Errorf("%q is %+v", text, rule)
		}
	}
}

func FuzzParseRule(f *testing.F) {
	f.Add("v2.31|Action=Allow|Active=TRUE|Dir=In|Protocol=17|LPort=6081|Name=GENEVE|")
	f.Add("v2.31|LPort=9-8|LPort=1-2-3|LPort=-|")
	f.Fuzz(func(t *testing.T, text string) {
		rule, err := parseRule(text)
		if err != nil {
			return
		}
		for _, ports := range rule.Ports {
			if ports.to < ports.from {
				t.Errorf("%q has the range %v", text, ports)
			}
		}
	})
}

func TestFirewall(t *testing.T) {
	geneve := openPort{protocol: protocolUDP, port: 6081, use: "GENEVE", below: true}
	kubelet := openPort{protocol: protocolTCP, port: 10250, use: "kubelet"}
	tunnel := openPort{protocol: protocolTCP, port: 16642, use: "chassis host", callers: "all chassis hosts"}
	const role = "v2|Action=Allow|Active=TRUE|Dir=In|Protocol=6|LPort=16642|RA4=192.0.2.1/255.255.255.255|" +
		"RA4=192.0.2.2|Name=t|"
	for _, c := range []struct {
		name   string
		rules  string // one a line
		unread []string
		states string // of GENEVE, kubelet and, if there is a third one, the tunnel
		words  string
	}{
		{"no rules", "", nil, "warning failed", "New-NetFirewallRule"},
		{"both", "v2|Action=Allow|Active=TRUE|Dir=In|Protocol=17|LPort=6000-6100|Name=g|\nv2|Action=Allow|Active=TRUE|Dir=In|Protocol=6|LPort=10250|Name=k|", nil, "ok ok", `"k" lets TCP 10250`},
		{"everything", "v2|Action=Allow|Active=TRUE|Dir=In|Name=all|", nil, "ok ok", "all"},
		{"a rule not understood", "v2|Action=Allow|Active=TRUE|Dir=In|Name=all|", []string{"{1}"}, "unknown unknown", "{1}"},
		{"inactive", "v2|Action=Allow|Active=FALSE|Dir=In|Name=all|", nil, "warning failed", ""},
		{"outbound", "v2|Action=Allow|Active=TRUE|Dir=Out|Name=all|", nil, "warning failed", ""},
		{"blocked", "v2|Action=Allow|Active=TRUE|Dir=In|Name=all|\nv2|Action=Block|Active=TRUE|Dir=In|Protocol=17|LPort=6081|Name=no|", nil, "failed ok", `"no" keeps UDP 6081`},
		{"for a program", "v2|Action=Allow|Active=TRUE|Dir=In|Protocol=6|LPort=10250|App=C:\\k\\kubelet.exe|Name=k|", nil,
			"warning unknown", "certain programs"},
		{"for some callers", "v2|Action=Allow|Active=TRUE|Dir=In|Protocol=6|LPort=10250|RA4=192.0.2.1|Name=k|\n" + role, nil,
			"warning unknown ok", `"t" lets TCP 16642 (chassis host) in from 192.0.2.1/255.255.255.255, 192.0.2.2 alone, which ` +
				"must have all chassis hosts"},
		{"for some callers of a program", strings.Replace(role, "Name", "App=C:\\x.exe|Name", 1), nil,
			"warning failed unknown", "certain programs"},
		{"some callers are kept out", strings.Replace(role, "Allow", "Block", 1), nil, "warning failed unknown", "t"},
		{"for some callers, a rule not understood", role, []string{"{1}"}, "warning failed unknown", "{1}"},
		{"other protocol", "v2|Action=Allow|Active=TRUE|Dir=In|Protocol=6|LPort=6081|Name=k|", nil, "warning failed", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := firewall{Profiles: []string{"domain"}, Unread: c.unread}
			for line := range strings.Lines(c.rules) {
				rule, err := parseRule(strings.TrimSpace(line))
				if err != nil {
					t.Fatal(err)
				}
				f.Rules = append(f.Rules, rule)
			}
			ports := []openPort{geneve, kubelet, tunnel}[:len(strings.Fields(c.states))]
			expect(t, checkFirewall(fakeWindows{firewall: f}, ports), c.states, c.words)
		})
	}
	expect(t, checkFirewall(fakeWindows{}, []openPort{geneve}), "ok", "is off")
	expect(t, checkFirewall(fakeWindows{broken: errBroken}, []openPort{geneve}), "unknown")
	if got := portList(windowsPorts(Config{Hosted: true, TunnelAddress: ":16642"})); got != "UDP 6081 (GENEVE), TCP "+
		"10250 (kubelet), TCP 16642 (chassis host)" {
		t.Error(got)
	}
}
