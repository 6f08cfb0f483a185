package hostports

import (
	"flag"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/node/extbridge"
	"github.com/weftnet/weft/node/hostservice"
	"github.com/weftnet/weft/ovn/services"
	"github.com/weftnet/weft/ovsdb"
	"github.com/weftnet/weft/test/cases"
)

var (
	seed  = flag.Uint64("seed", 1, "of the random clusters")
	lives = flag.Int("lives", 300, "how many random clusters")
)

// TestControllerAndAgentAgree plays random lives of clusters. After each step the controller's rows and each node's
// agent say who has each port of the node's host: what comes from outside is OVN's where somebody has it there, and the
// host's where nobody has, or a daemon; the host listens for whom OVN serves there; and its routes lead to what OVN
// serves.
func TestControllerAndAgentAgree(t *testing.T) {
	for number := range uint64(cases.Of(*lives)) {
		c, err := newCluster(*seed, number)
		for range 25 {
			if err != nil {
				t.Fatal(err)
			}
			if found := c.disagreements(t); len(found) > 0 {
				t.Fatalf("cluster %d of seed %d:\n%s\nafter\n%s", number, *seed, strings.Join(found, "\n"),
					strings.Join(c.story, "\n"))
			}
			err = c.step()
		}
		if found := c.unlikeCold(); len(found) > 0 {
			t.Fatalf("cluster %d of seed %d: rows are not those of a cold start:\n%s\nafter\n%s", number, *seed,
				strings.Join(found, "\n"), strings.Join(c.story, "\n"))
		}
	}
}

// unlikeCold are the Services and pods whose rows are others than a controller would make that begins now.
func (c *cluster) unlikeCold() (found []string) {
	changed, cold := rowsOf(c.controller.Rows()), rowsOf(c.controller.Restarted())
	for owner := range cold {
		if _, ok := changed[owner]; !ok {
			changed[owner] = nil
		}
	}
	for owner, rows := range changed {
		if diff := cmp.Diff(cold[owner], rows); diff != "" {
			found = append(found, fmt.Sprint(owner, ": ", diff))
		}
	}
	return found
}

func rowsOf(changes []ovsdb.Change) map[ovsdb.Owner][]ovsdb.Row {
	rows := map[ovsdb.Owner][]ovsdb.Row{}
	for _, c := range changes {
		if owner := string(c.Owner); len(c.Rows) > 0 && (strings.HasPrefix(owner, "Service/") || strings.HasPrefix(owner,
			"Pod/")) {
			rows[c.Owner] = c.Rows
		}
	}
	return rows
}

// asked are a host's addresses and ports about which the two could differ.
func asked(host hostservice.Host) (list []netip.AddrPort) {
	for _, addr := range host.Addresses {
		for _, number := range append([]int32{22, 31001}, numbers...) {
			list = append(list, netip.AddrPortFrom(addr, uint16(number)))
		}
	}
	return list
}

func (c *cluster) disagreements(t *testing.T) (found []string) {
	for i := range nodes {
		agent, facts, err := c.agent(i)
		if err != nil {
			t.Fatal(err)
		}
		if agent.Host.Network.ID == 0 { // the node is not there, or has no network yet
			continue
		}
		outcome, err := agent.Run()
		if err != nil {
			t.Fatal(err)
		}
		d := decisions{host: agent.Host, gateway: facts.Gateway, daemons: facts.Listeners, agent: outcome,
			nodePorts: c.nodePorts(), within: c.controller.Holders(services.Door{Node: nodeName(i)}),
			outside: c.controller.Holders(services.Door{Node: nodeName(i), Outside: true})}
		for _, kind := range []string{"tcp", "udp", "sctp"} {
			for _, at := range asked(agent.Host) {
				for _, what := range d.compare(services.Port{Protocol: kind, At: at}) {
					found = append(found, fmt.Sprintf("%s at %s %s: %s", nodeName(i), kind, at, what))
				}
			}
		}
		found = append(found, d.astray()...)
	}
	return found
}

// port is a NodePort of a Service.
type port struct {
	service, protocol string
	number            uint16
}

// nodePorts are those that Services want.
func (c *cluster) nodePorts() map[port]bool {
	all := map[port]bool{}
	for _, o := range c.objects {
		if s, ok := o.(*corev1.Service); ok {
			for _, p := range s.Spec.Ports {
				all[port{s.Namespace + "/" + s.Name, strings.ToLower(string(p.Protocol)), uint16(p.NodePort)}] = true
			}
		}
	}
	return all
}

// decisions are those about one node's ports.
type decisions struct {
	host            hostservice.Host
	gateway         *contract.Gateway
	daemons         contract.Listeners
	agent           hostservice.Outcome
	nodePorts       map[port]bool
	within, outside map[services.Port][]services.Holder // the controller's, on the node's switch and on its gateway router
}

// only is the one that has a port; "" is nobody.
func only(holders []services.Holder) string {
	var names []string
	for _, h := range holders {
		names = append(names, h.Kind+" "+h.Name)
	}
	return strings.Join(names, " and ")
}

func (d *decisions) compare(at services.Port) (found []string) {
	if !slices.Contains(d.host.Addresses, at.At.Addr()) {
		return nil
	}
	if outside := only(d.outside[at]); d.gateway != nil && d.enters(at) != (outside != "") {
		found = append(found, fmt.Sprintf("what comes from outside is OVN's: %v; and there it is for %q, within for %q",
			d.enters(at), outside, only(d.within[at])))
	}
	if at.Protocol == "sctp" { // the host asks itself by no agent
		return found
	}
	within, listens, to := d.within[at], "", netip.AddrPort{}
	for _, s := range d.agent.Sockets {
		if s.Protocol == at.Protocol && s.At == at.At {
			listens, to = s.Owner.String(), s.To
		}
	}
	switch {
	case d.daemons.Have(at.Protocol, at.At):
		// NodePorts alone go before daemons, and not for the host itself.
		if listens != "" || d.gateway != nil && only(within) != only(d.outside[at]) {
			found = append(found, fmt.Sprintf("a daemon listens, the host for %q, and OVN has it for %q", listens, only(within)))
		}
		for _, h := range within {
			if !d.nodePorts[port{h.Name, at.Protocol, at.At.Port()}] {
				found = append(found, fmt.Sprintf("a daemon listens, and OVN has it for %s by no NodePort", only(within)))
			}
		}
	case listens != only(within):
		found = append(found, fmt.Sprintf("the host listens for %q, and OVN has it for %q", listens, only(within)))
	case len(within) == 1 && within[0].To.IsValid() && within[0].To != to:
		found = append(found, fmt.Sprintf("the host leads to %v, and OVN to %v", to, within[0].To))
	}
	return found
}

func (d *decisions) enters(at services.Port) bool {
	return slices.ContainsFunc(d.agent.Entries, func(e extbridge.Entry) bool {
		return e.Protocol == at.Protocol && e.Port == at.At.Port() && (!e.Addr.IsValid() || e.Addr == at.At.Addr())
	})
}

// astray are the addresses that the host asks OVN for, where nobody has any port of them.
func (d *decisions) astray() (found []string) {
	served := map[netip.Addr]bool{contract.HostVIPs[0]: true, contract.HostVIPs[1]: true}
	for at := range d.within {
		served[at.At.Addr()] = true
	}
	for _, addr := range d.agent.Routes {
		if !served[addr] {
			found = append(found, fmt.Sprintf("the host of node %d asks OVN for %v, where nobody has any port",
				d.host.Network.ID, addr))
		}
	}
	return found
}
