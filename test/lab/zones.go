package lab

import "slices"

// zoneNames are those of a lab's zones, a letter each.
const zoneNames = "abcd"

// MaxZones is how many zones a lab can have.
const MaxZones = len(zoneNames)

// zone is a part of the cluster's nodes with OVN databases of its own. The whole of a lab without zones is one without
// a name.
type zone struct {
	name string
	// host is the machine with its databases, and number is that machine's in the lab's networks.
	host   string
	number int
}

// zones of a valid configuration: at least one. The first one is on the machine of the control plane.
func (c Config) zones() []zone {
	zones := []zone{{host: Central, number: centralNumber}}
	if c.Zones > 0 {
		zones[0].name = zoneNames[:1]
	}
	for i := 1; i < c.Zones; i++ {
		name := zoneNames[i : i+1]
		zones = append(zones, zone{name, Central + "-" + name, furtherCentral + i - 1})
	}
	return zones
}

// Centrals are the machines with OVN's databases, one for each zone in the order of their names. The first one is
// [Central], which is the only one in a lab without zones. central-b, central-c and so on follow.
func (c Config) Centrals() []string {
	var names []string
	for _, z := range c.zones() {
		names = append(names, z.host)
	}
	return names
}

// ZoneOf is the zone of one of [Config.Nodes], "" in a lab without zones. The Linux nodes are in the zones by turns. So
// are the Windows nodes, from the last zone on: a lab with one of them has it in a zone apart from the control plane.
func (c Config) ZoneOf(node string) string { return c.zoneOf(node).name }

func (c Config) zoneOf(node string) zone {
	zones := c.zones()
	turn := slices.Index(c.LinuxNodes(), node)
	if turn < 0 {
		turn = slices.Index(c.WindowsNodes(), node) + len(zones) - 1
	}
	return zones[turn%len(zones)]
}

// controllerName of the one controller on the machine of a zone after the first.
func (z zone) controllerName() string { return controllerName(0) + "-" + z.name }

// certificatePair is the file name of the certificate of the zone's servers.
func (z zone) certificatePair() string { return "ovn-" + z.host }
