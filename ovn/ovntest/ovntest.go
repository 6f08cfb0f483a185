// Package ovntest has what the tests of several packages of the translation begin with: settings, what nodes' agents
// say, made-up pods, and what patches write. Tests alone import it.
package ovntest

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/ovn/objects"
	"github.com/weftnet/weft/ovn/part"
	"github.com/weftnet/weft/ovn/settings"
)

// Settings are those of a valid configuration, which edit may change.
func Settings(t testing.TB, edit func(*settings.Config)) *settings.Settings {
	t.Helper()
	config := Config()
	if edit != nil {
		edit(&config)
	}
	s, err := config.Settings()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Config is a configuration of IPv4 alone.
func Config() settings.Config {
	config := settings.DefaultConfig()
	config.Northbound = []string{"unix:/run/ovn/ovnnb_db.sock"}
	config.PodCIDRs = []string{"10.244.0.0/16"}
	config.ServiceCIDRs = []string{"10.96.0.0/16"}
	config.MetricsAddress = ""
	return config
}

// Dual has pods and Services have addresses of both families.
func Dual(c *settings.Config) {
	c.PodCIDRs = []string{"10.244.0.0/16", "fd00:10:244::/48"}
	c.ServiceCIDRs = []string{"10.96.0.0/16", "fd00:10:96::/112"}
}

// Facts are a node's agent's, on a node whose host number is n.
func Facts(n int, dual bool) string {
	f := contract.NodeFacts{Chassis: fmt.Sprintf("chassis-%d", n), MTU: 1442,
		Addresses: []netip.Addr{netip.MustParseAddr(fmt.Sprintf("192.0.2.%d", n))},
		Gateway: &contract.Gateway{Network: "external", MAC: fmt.Sprintf("02:00:00:00:00:%02x", n),
			Addresses: []netip.Prefix{netip.MustParsePrefix(fmt.Sprintf("203.0.113.%d/24", n))},
			NextHops:  []netip.Addr{netip.MustParseAddr("203.0.113.254")}}}
	if dual {
		f.Addresses = append(f.Addresses, netip.MustParseAddr(fmt.Sprintf("2001:db8:1::%d", n)))
		f.Gateway.Addresses = append(f.Gateway.Addresses, netip.MustParsePrefix(fmt.Sprintf("2001:db8::%d/64", n)))
		f.Gateway.NextHops = append(f.Gateway.NextHops, netip.MustParseAddr("2001:db8::ffff"))
	}
	return contract.Format(f)
}

// ReadFacts are what a node's agent says.
func ReadFacts(text string) contract.NodeFacts {
	facts, err := objects.ParseAnnotation[contract.NodeFacts](contract.NodeFactsAnnotation, text)
	if err != nil {
		panic(err)
	}
	return facts
}

// EditFacts are facts of node number n, changed.
func EditFacts(n int, dual bool, change func(*contract.NodeFacts)) string {
	f := ReadFacts(Facts(n, dual))
	change(&f)
	return contract.Format(f)
}

// Writing is when what tests read of patches is written.
var Writing = time.Unix(1700000000, 0)

// Written is what a patch gives an object: the value of its annotation, or its status.
func Written(p part.Patch) string {
	if a, ok := p.Body.(part.Annotation); ok {
		return a.Value.At(Writing)
	}
	text, err := json.Marshal(p.Body.At(Writing))
	if err != nil {
		panic(err)
	}
	return string(text)
}
