package nodes

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"

	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/ovn/ipam"
	"github.com/weftnet/weft/ovn/objects"
	"github.com/weftnet/weft/ovn/settings"
	"github.com/weftnet/weft/ovn/topology"
)

// takeFacts reads what the node's agent says. What cannot be read changes nothing: the chassis that the
// node's pods are bound to is better than none. Of what can be read, bad parts are left out.
func (n *state) takeFacts(s *settings.Settings) (errs []error) {
	facts, err := parseFacts(n.Object.Facts)
	if err != nil {
		n.OS = cmp.Or(n.Facts.OS, n.Object.OS, contract.Linux)
		return []error{err}
	}
	n.OS = cmp.Or(n.Object.OS, contract.Linux)
	check := func(err error, without string) bool {
		if err != nil {
			errs = append(errs, fmt.Errorf("annotation %s: %w; %s", contract.NodeFactsAnnotation, err, without))
		}
		return err != nil
	}
	if check(checkOS(facts.OS), "the node is taken for one of "+n.OS+", as its label "+corev1.LabelOSStable+" says") {
		facts.OS = ""
	}
	if check(checkHosted(facts.Hosted), "no chassis host can connect its ovn-controller to the node") {
		facts.Hosted = nil
	}
	first := fmt.Sprintf("the first %d count", contract.MostOfFacts)
	check(tooMany("addresses", &facts.Addresses), first)
	check(tooMany("listeners", &facts.Listeners), first)
	if g := facts.Gateway; g != nil {
		check(tooMany("gateway.addresses", &g.Addresses), first)
		check(tooMany("gateway.nextHops", &g.NextHops), first)
	}
	if check(checkGateway(facts.Gateway, s), "the node has no gateway") {
		facts.Gateway = nil
	}
	if g := facts.Gateway; g != nil {
		g.NextHops = slices.DeleteFunc(g.NextHops, func(next netip.Addr) bool {
			return check(checkNextHop(g, next), "the node has no default route by it")
		})
	}
	check(checkNodePorts(facts), fmt.Sprintf("NodePorts are served on its gateway's and the first %d of a family; on "+
		"the others the node's agent serves its host and clients outside, and no pods", topology.MaxNodePortAddresses))
	if facts.Gateway != nil && facts.SharedGateway {
		check(errors.New("gateway and sharedGateway exclude each other"), "the node has its own gateway")
		facts.SharedGateway = false
	}
	n.Facts, n.OS = facts, cmp.Or(facts.OS, n.OS)
	return errs
}

func parseFacts(text string) (contract.NodeFacts, error) {
	return objects.ParseAnnotation[contract.NodeFacts](contract.NodeFactsAnnotation, text)
}

// checkNextHop wants another address of a family that the gateway has. It need not be in a subnet of the
// gateway's: a host's route may say that it is on the link.
func checkNextHop(g *contract.Gateway, next netip.Addr) error {
	switch on := contract.Addrs(g.Addresses); {
	case slices.Contains(on, next):
		return fmt.Errorf("gateway.nextHops holds %s, which is the gateway's own address", next)
	case ipam.Family(g.Addresses, next) == nil:
		return fmt.Errorf("gateway.nextHops holds %s, but gateway.addresses %s has no address of its family", next,
			ipam.Join(g.Addresses))
	}
	return nil
}

// tooMany cuts a list that is longer, and says so.
func tooMany[L ~[]T, T any](field string, list *L) error {
	n := len(*list)
	if n <= contract.MostOfFacts {
		return nil
	}
	*list = (*list)[:contract.MostOfFacts]
	return fmt.Errorf("%s holds %d", field, n)
}

// checkNodePorts says when a node has more addresses than its NodePorts get.
func checkNodePorts(facts contract.NodeFacts) error {
	count := [2]int{}
	for _, addr := range facts.Addresses {
		count[ipam.FamilyIndex(addr.Is4())]++
	}
	if most := max(count[0], count[1]); most > topology.MaxNodePortAddresses {
		return fmt.Errorf("addresses holds %d of one family", most)
	}
	return nil
}

// checkGateway checks what a gateway router cannot do without; OVN would leave out the row in silence.
func checkGateway(g *contract.Gateway, s *settings.Settings) error {
	if g == nil {
		return nil
	}
	if _, err := net.ParseMAC(g.MAC); err != nil {
		return fmt.Errorf("gateway.mac %q is not a hardware address", objects.Quoted(g.MAC))
	}
	if g.Network == "" {
		return errors.New("gateway.network is empty; it names the external bridge as ovn-bridge-mappings does")
	}
	if len(g.Addresses) == 0 {
		return errors.New("gateway.addresses is empty; without an address nothing leaves the node")
	}
	if s.Shared != nil {
		for _, address := range contract.Addrs(g.Addresses) {
			if slices.Contains(contract.Addrs(s.Shared.Addresses), address) {
				return fmt.Errorf("gateway.addresses holds %s, which is the shared gateway's (shared-gateway-addresses); give "+
					"the node another one (gateway-addresses)", address)
			}
		}
	}
	return nil
}

func checkOS(os string) error {
	switch os {
	case "", contract.Linux, contract.Windows:
		return nil
	}
	return fmt.Errorf("os %q is neither %s nor %s", objects.Quoted(os), contract.Linux, contract.Windows)
}

// checkHosted checks where a chassis host must connect to.
func checkHosted(h *contract.Hosted) error {
	if h == nil {
		return nil
	}
	host, port, err := net.SplitHostPort(h.Address)
	if err != nil {
		return fmt.Errorf("hosted.address %q is not HOST:PORT", objects.Quoted(h.Address))
	}
	if number, err := strconv.ParseUint(port, 10, 16); err != nil || number == 0 || host == "" {
		return fmt.Errorf("hosted.address %q is not HOST:PORT", objects.Quoted(h.Address))
	}
	return nil
}
