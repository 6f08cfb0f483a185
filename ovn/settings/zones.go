package settings

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/ovn/ipam"
)

// Zone is a part of the nodes that has a Northbound of its own. Its ovn-northd, Southbound and chassis hosts are its
// own, too.
type Zone struct {
	// Name is the value of the Nodes' label weft.net/zone.
	Name string
	// Number is from the same range as those of nodes. It gives the zone's address on the switch between the zones, and
	// the key of its port there.
	Number int
	// Northbound are the endpoints of the zone's database.
	Northbound []string
}

const (
	// lastNumber is the largest key of a port. Above are those of multicast groups (OVN's lib/mcast-group-index.h).
	lastNumber = 1<<15 - 1
	// mostZones leaves numbers for nodes.
	mostZones = 64
)

// splitEndpoint takes the name of a zone off an endpoint like a=ssl:10.0.0.1:6641. It is "" for one without.
func splitEndpoint(text string) (zone, endpoint string) {
	scheme, _, _ := strings.Cut(text, ":")
	if name, _, named := strings.Cut(scheme, "="); named && name != "" {
		return name, text[len(name)+1:]
	}
	return "", text
}

// zones reads ovn-northbound: none if no endpoint has a zone's name. Their order counts, the numbers follow from it.
func (c Config) zones() (list []Zone, err error) {
	const key = "ovn-northbound"
	for _, text := range c.Northbound {
		name, endpoint := splitEndpoint(text)
		if first, _ := splitEndpoint(c.Northbound[0]); (name == "") != (first == "") {
			return nil, fmt.Errorf("%s: of %q and %q, one names a zone and one does not; put a zone's name in front of each "+
				"endpoint, like a=ssl:10.0.0.1:6641, or of none", key, c.Northbound[0], text)
		}
		if name == "" {
			continue
		}
		if why := validation.IsDNS1123Label(name); len(why) > 0 {
			return nil, fmt.Errorf("%s: %q: zone %q cannot be the value of the label %s: %s", key, text, name,
				contract.ZoneLabel, why[0])
		}
		at := slices.IndexFunc(list, func(z Zone) bool { return z.Name == name })
		if at < 0 {
			at = len(list)
			list = append(list, Zone{Name: name, Number: lastNumber - at})
		}
		list[at].Northbound = append(list[at].Northbound, endpoint)
	}
	if len(list) > mostZones {
		return nil, fmt.Errorf("%s: names %d zones; use at most %d, and larger ones", key, len(list), mostZones)
	}
	return list, nil
}

// zoneSettings reads what there is in a cluster with zones alone.
func (c Config) zoneSettings(s *Settings) error {
	var err error
	if s.Zones, err = c.zones(); err != nil || len(s.Zones) == 0 {
		return err
	}
	var errs []error
	s.Transit, err = netip.ParsePrefix(strings.TrimSpace(c.TransitCIDR))
	if err != nil || s.Transit != s.Transit.Masked() || !s.Transit.Addr().Is4() || ipam.HostBits(s.Transit) < 16 {
		errs = append(errs, fmt.Errorf("transit-cidr: %q is not an IPv4 range with room for %d addresses; write it like "+
			"100.88.0.0/16", c.TransitCIDR, lastNumber))
	}
	if len(c.SharedGatewayAddresses) > 0 {
		errs = append(errs, errors.New("shared-gateway-addresses: a cluster with zones has no shared gateway; leave it out, "+
			"and give each node a gateway of its own"))
	}
	return errors.Join(errs...)
}

// Zone is the zone that a Node's label names, the first one without a label. ok is false if there is none of this name.
func (s *Settings) Zone(label string, labelled bool) (name string, ok bool) {
	if len(s.Zones) == 0 {
		return "", true
	}
	if !labelled {
		return s.Zones[0].Name, true
	}
	return label, slices.ContainsFunc(s.Zones, func(z Zone) bool { return z.Name == label })
}

// transits are the range between the zones, if there are zones.
func (s *Settings) transits() []netip.Prefix {
	if len(s.Zones) == 0 {
		return nil
	}
	return []netip.Prefix{s.Transit}
}

// ZoneNames are the zones' names, in their order.
func (s *Settings) ZoneNames() (names []string) {
	for _, z := range s.Zones {
		names = append(names, z.Name)
	}
	return names
}
