package services

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/models/nb"
	"github.com/weftnet/weft/ovsdb"
)

// northbound is what OVN reads of rows: which load balancers a switch or a router has, and what their variables are
// on each chassis.
type northbound struct {
	balancers map[string]*nb.LoadBalancer // by UUID
	owners    map[*nb.LoadBalancer]ovsdb.Owner
	members   map[string][]string // UUIDs of load balancers, by that of a group, switch or router
	groups    map[string][]string // of a switch or router, by its name
	uuids     map[string]string   // of switches and routers, by name
	variables map[string]map[string]string
	seen      map[string]map[string][]*nb.LoadBalancer // by switch or router, then protocol and address
}

func read(changes []ovsdb.Change) *northbound {
	n := &northbound{map[string]*nb.LoadBalancer{}, map[*nb.LoadBalancer]ovsdb.Owner{}, map[string][]string{},
		map[string][]string{}, map[string]string{}, map[string]map[string]string{},
		map[string]map[string][]*nb.LoadBalancer{}}
	for _, change := range changes {
		for _, r := range change.Rows {
			switch row := r.Model.(type) {
			case *nb.LoadBalancer:
				n.balancers[ovsdb.ID(nb.LoadBalancerTable, change.Owner, r.Key)], n.owners[row] = row, change.Owner
			case *nb.LogicalSwitch:
				n.groups[row.Name], n.uuids[row.Name] = row.LoadBalancerGroup, ovsdb.ID(nb.LogicalSwitchTable, change.Owner, r.Key)
			case *nb.LogicalRouter:
				n.groups[row.Name], n.uuids[row.Name] = row.LoadBalancerGroup, ovsdb.ID(nb.LogicalRouterTable, change.Owner, r.Key)
			case *nb.ChassisTemplateVar:
				n.variables[row.Chassis] = row.Variables
			}
		}
		for _, m := range change.Memberships {
			if m.Column == "load_balancer" {
				n.members[m.UUID] = append(n.members[m.UUID], m.Values...)
			}
		}
	}
	return n
}

// at are the load balancers of a switch or a router by protocol and address, as its chassis has them.
func (n *northbound) at(place, chassis string) map[string][]*nb.LoadBalancer {
	if seen, ok := n.seen[place]; ok {
		return seen
	}
	at := map[string][]*nb.LoadBalancer{}
	var all []string
	for _, from := range append([]string{n.uuids[place]}, n.groups[place]...) {
		all = append(all, n.members[from]...)
	}
	slices.Sort(all)
	for _, id := range slices.Compact(all) {
		row := n.balancers[id]
		if row == nil {
			continue
		}
		for vip := range row.Vips {
			if name, port, ok := strings.Cut(strings.TrimPrefix(vip, "^"), ":"); ok && row.Options["template"] == "true" {
				value := n.variables[chassis][name]
				if value == "" {
					continue
				}
				number, _ := strconv.Atoi(port)
				vip = netip.AddrPortFrom(netip.MustParseAddr(value), uint16(number)).String()
			}
			at[*row.Protocol+" "+vip] = append(at[*row.Protocol+" "+vip], row)
		}
	}
	n.seen[place] = at
	return at
}

// pick is what OVN does with a client's first packet on a switch or a router; found is false where no load balancer
// has the address. An error says that it is open what OVN does, or that the client gets no word of a refusal.
func (n *northbound) pick(place, chassis string, router bool, protocol string, vip netip.AddrPort) (p picked,
	found bool, err error) {
	rows := n.at(place, chassis)[protocol+" "+vip.String()]
	if len(rows) == 0 {
		return p, false, nil
	}
	if len(rows) > 1 {
		return p, true, fmt.Errorf("%s has %d load balancers for %s: %s and %s", place, len(rows), vip, rows[0].Name,
			rows[1].Name)
	}
	row := rows[0]
	backends := ""
	for at, to := range row.Vips {
		if at == vip.String() || strings.HasPrefix(at, "^") && n.expanded(at, chassis) == vip {
			backends = to
		}
	}
	if backends != "" {
		p.endpoints = strings.Split(backends, ",")
		slices.Sort(p.endpoints)
	}
	if p.dropped = len(p.endpoints) == 0 && row.Options["reject"] != "true"; len(p.endpoints) == 0 && !p.dropped &&
		router && row.Options["skip_snat"] != "true" {
		return p, true, fmt.Errorf("%s refuses clients of %s from its own address, which they do not know (%s)", place, vip,
			row.Name)
	}
	p.sticky, _ = strconv.Atoi(row.Options["affinity_timeout"])
	return p, true, nil
}

func (n *northbound) expanded(at, chassis string) netip.AddrPort {
	name, port, _ := strings.Cut(strings.TrimPrefix(at, "^"), ":")
	addr, err := netip.ParseAddr(n.variables[chassis][name])
	number, _ := strconv.Atoi(port)
	if err != nil {
		return netip.AddrPort{}
	}
	return netip.AddrPortFrom(addr, uint16(number))
}

// unaliased are endpoints with the host's own address in place of its alias.
func unaliased(endpoints []string, host []netip.Addr) []string {
	list := slices.Clone(endpoints)
	for i, text := range list {
		at := netip.MustParseAddrPort(text)
		for _, addr := range host {
			if at.Addr() == contract.OfFamily(contract.HostAliases, addr) {
				list[i] = netip.AddrPortFrom(addr, at.Port()).String()
			}
		}
	}
	slices.Sort(list)
	return list
}
