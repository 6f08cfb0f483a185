package nodeconfig

import (
	"net/netip"
	"strings"
	"testing"
)

func TestDefaultsOfWindows(t *testing.T) {
	c := windowsConfig()
	if c.StateDir != `C:\ProgramData\weft` || c.CNIConfDir != `C:\Program Files\containerd\cni\conf` {
		t.Errorf("folders %q and %q", c.StateDir, c.CNIConfDir)
	}
	if c.ConntrackLookup != LookupAuto {
		t.Errorf("conntrack-lookup is %q", c.ConntrackLookup)
	}
	endpoint, err := c.OpenFlow()
	if err != nil || endpoint.String() != `unix:C:\openvswitch\var\run\openvswitch\br-int.mgmt` {
		t.Errorf("br-int is reached at %v, %v", endpoint, err)
	}
}

func TestSocketIsAPipe(t *testing.T) {
	for path, good := range map[string]bool{
		`\\.\pipe\weft-cni`: true, `\\.\PIPE\weft`: true, `\\.\pipe\`: false, `\\.\pipe\a\b`: false, `\\host\pipe\a`: false,
		`C:\weft.sock`:                         false,
		`\\.\pipe\` + strings.Repeat("x", 250): false,
	} {
		if err := validSocket(path); (err == nil) != good {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// windowsConfig is what works on Windows.
func windowsConfig() Config {
	c := Default()
	c.NodeName, c.OVNSouthbound, c.EncapAddress = "n1", "ssl:192.0.2.1:6642", netip.MustParseAddr("192.0.2.10")
	c.GatewayAddresses = []netip.Prefix{netip.MustParsePrefix("192.0.2.110/24")}
	c.TunnelCA, c.TunnelCertificate, c.TunnelPrivateKey = "ca", "crt", "key"
	return c
}

func TestValidateAcceptsAWindowsNode(t *testing.T) {
	if err := windowsConfig().Validate(); err != nil {
		t.Error(err)
	}
}
