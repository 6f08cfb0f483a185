package lab

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/weftnet/weft/test/lab/machine"
)

// layout has the machines of a lab by name and number, and the things that all of them share.
type layout struct {
	lab  string // its name
	mtu  int
	weft bool // false: it is left out
	// hosts have the first numbers, then Linux nodes, then Windows nodes.
	hosts                    []host
	linuxNodes, windowsNodes []node
	zones                    []zone
	addresses                addresses
	files                    files
}

// newLayout of a lab with a valid configuration.
func newLayout(c Config, f files) layout {
	l := layout{lab: c.Name, mtu: c.MTU, weft: !c.NoWeft, hosts: c.hosts(), zones: c.zones(),
		addresses: newAddresses(c), files: f}
	next := firstNode + len(l.hosts)
	for i, name := range c.LinuxNodes() {
		l.linuxNodes = append(l.linuxNodes, node{name: name, number: next + i, zone: c.zoneOf(name)})
	}
	next += len(l.linuxNodes)
	for i, name := range c.WindowsNodes() {
		l.windowsNodes = append(l.windowsNodes, node{name: name, number: next + i, windows: true, zone: c.zoneOf(name)})
	}
	return l
}

// hasHosts tells whether OVN and weft are Ansible's to install.
func (l layout) hasHosts() bool { return len(l.hosts) > 0 }

// hasZones tells whether the cluster has zones, which then have names.
func (l layout) hasZones() bool { return l.zones[0].name != "" }

// northbound has the endpoints of all zones' Northbounds, each with its zone's name if that has one.
func (l layout) northbound() string {
	var endpoints []string
	for _, z := range l.zones {
		endpoint := l.addresses.northbound(z)
		if l.hasZones() {
			endpoint = z.name + "=" + endpoint
		}
		endpoints = append(endpoints, endpoint)
	}
	return strings.Join(endpoints, ",")
}

// nodes are in the order of [Config.Nodes].
func (l layout) nodes() []node { return slices.Concat(l.linuxNodes, l.windowsNodes) }

// masqueraders are the nodes that take the API server's packets to pods and Services on: one, or none beside hosts.
func (l layout) masqueraders() []node { return l.linuxNodes[:min(1, len(l.linuxNodes))] }

// newSpec has what all machines share.
func (l layout) newSpec(name string) *machine.Spec {
	return &machine.Spec{
		Lab: l.lab, Name: name, LabDir: l.files.dir,
		Sysctls: []string{
			"net.ipv4.ip_forward=1",
			"net.ipv6.conf.all.forwarding=1",
			"net.ipv4.conf.all.rp_filter=2",
			// Nobody else has the machines' addresses, and waiting for that to be found out takes seconds.
			"net.ipv6.conf.all.accept_dad=0", "net.ipv6.conf.default.accept_dad=0",
		},
		Binds: []machine.Bind{{Source: l.files.machine(name, "var-log"), Target: "/var/log", Create: true}},
		Files: []machine.File{
			{Path: "/etc/hostname", Content: name + "\n"},
			{Path: "/etc/hosts", Content: l.etcHosts()},
			{Path: "/etc/resolv.conf"},
		},
		Env: []string{
			"PATH=" + l.files.path(), "TMPDIR=/run/tmp", "HOME=/root",
			"OVS_RUNDIR=/run/openvswitch", "OVN_RUNDIR=/run/ovn",
			"OVS_LOGDIR=/var/log", "OVN_LOGDIR=/var/log", "OVS_DBDIR=/etc/openvswitch", "OVN_DBDIR=/var/lib/ovn",
			"OVS_SYSCONFDIR=/etc",
		},
		Setup: [][]string{{"mkdir", "-p", "/run/openvswitch", "/run/ovn", "/etc/openvswitch", "/var/lib/ovn"}},
	}
}

func (l layout) etcHosts() string {
	text := "127.0.0.1 localhost\n::1 localhost\n"
	add := func(name string, addrs []netip.Addr) {
		for _, a := range addrs {
			text += a.String() + " " + name + "\n"
		}
	}
	for _, z := range l.zones {
		add(z.host, l.addresses.of(management, z.number))
	}
	for _, n := range l.nodes() {
		add(n.name, l.addresses.of(management, n.number))
	}
	for _, h := range l.hosts {
		add(h.name, l.addresses.of(management, h.number))
	}
	add(Outside, l.addresses.of(external, outsideNumber))
	return text
}

// networkInterface joins machine number n to a network, with its addresses there.
func (l layout) networkInterface(name string, on network, n int) machine.Interface {
	return machine.Interface{Name: name, Bridge: on.bridge, Addresses: l.addresses.prefixes(on, n), MTU: l.mtu}
}

// switchedInterface joins a machine to a network as a port of a bridge of the machine's.
func (l layout) switchedInterface(name string, on network) machine.Interface {
	return machine.Interface{Name: name, Bridge: on.bridge, MTU: l.mtu, Switched: true}
}

// externalInterface is the host's own until the agent shares it with the gateway router, or the gateway's
// alone from the start.
func (l layout) externalInterface(number int) machine.Interface {
	if l.addresses.gateway == GatewayOwn {
		return l.switchedInterface(externalDevice, external)
	}
	return l.networkInterface(externalDevice, external, number)
}

// defaultRoutes by these next hops, one in each family.
func (l layout) defaultRoutes(nextHops []netip.Addr) []machine.Route {
	var routes []machine.Route
	for i, everything := range l.addresses.pick("0.0.0.0/0", "::/0") {
		routes = append(routes, machine.Route{Destination: everything, Via: nextHops[i].String()})
	}
	return routes
}

// zonesLabelled is the condition that the Nodes have the labels of their zones, in a lab with zones.
func (l layout) zonesLabelled() []machine.Probe {
	if !l.hasZones() {
		return nil
	}
	return []machine.Probe{{Path: l.files.manifestsApplied()}}
}

// apiReady is the condition that the API server serves.
func (l layout) apiReady() machine.Probe {
	return machine.Probe{URL: l.addresses.apiServer() + "/readyz", CA: l.files.pki("ca.crt")}
}
