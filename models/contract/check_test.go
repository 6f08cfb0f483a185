package contract

import (
	"fmt"
	"strings"
	"testing"
)

// TestParseTakesPlainAddressesOnly, in each field, whose name it tells, and no number of connections below none.
func TestParseTakesPlainAddressesOnly(t *testing.T) {
	network := func(a map[string]string) error { _, _, err := Parse[NodeNetwork](a, "key"); return err }
	facts := func(a map[string]string) error { _, _, err := Parse[NodeFacts](a, "key"); return err }
	pod := func(a map[string]string) error { _, _, err := Parse[PodNetwork](a, "key"); return err }
	addrs, prefixes := []string{"", "fe80::1%x || ip4", "::ffff:192.0.2.1"}, []string{"", "::ffff:192.0.2.1/120"}
	for _, c := range []struct {
		field, text string
		parse       func(map[string]string) error
		bad         []string
	}{
		{"podCIDRs[0]", `{"podCIDRs":[%q]}`, network, append(prefixes, "255.255.255.255/32", "10.0.0.0/31", "fd00::/128")},
		{"clusterCIDRs[0]", `{"clusterCIDRs":[%q]}`, network, prefixes},
		{"serviceCIDRs[0]", `{"serviceCIDRs":[%q]}`, network, prefixes},
		{"joinCIDRs[0]", `{"joinCIDRs":[%q]}`, network, prefixes},
		{"connections", `{"connections":%s}`, network, []string{"-1"}},
		{"sharedGateways[1]", `{"sharedGateways":["192.0.2.1",%q]}`, network, addrs},
		{"addresses[0]", `{"addresses":[%q]}`, facts, addrs},
		{"gateway.addresses[0]", `{"gateway":{"addresses":[%q]}}`, facts, prefixes},
		{"gateway.nextHops[0]", `{"gateway":{"nextHops":[%q]}}`, facts, addrs},
		{"addresses[0]", `{"addresses":[%q]}`, pod, prefixes},
		{"gateways[0]", `{"gateways":[%q]}`, pod, addrs},
	} {
		for _, bad := range c.bad {
			text := fmt.Sprintf(c.text, bad)
			if err := c.parse(map[string]string{"key": text}); err == nil || !strings.Contains(err.Error(), c.field) {
				t.Errorf("%s: %v", text, err)
			}
		}
	}
}
