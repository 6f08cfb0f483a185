package southbound

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/weftnet/weft/models/contract"
)

// Every other chassis makes a tunnel port of an Encap row, and takes packets by it for those of the row's chassis: with
// ip "flow" from anywhere, with option dst_port at another port as well. So all of a row is judged.

// newTunnel: a new Encap bears the node's name, and says where its tunnels end.
func newTunnel(r *replica, node string, row object) error {
	if err := bears("Encap", "chassis_name")(r, node, row); err != nil {
		return err
	}
	if row["ip"] == nil || row["type"] == nil {
		return errors.New("an Encap has a type and an ip")
	}
	return nil
}

// checkTunnel is about what is written of an Encap.
func checkTunnel(r *replica, node string, o *operation) error {
	for _, value := range o.values("type") {
		// A single chassis with VXLAN would have ovn-northd make do with its short keys for all (4,095 switches and routers).
		var kind string
		if json.Unmarshal(value, &kind) != nil || kind != "geneve" {
			return fmt.Errorf("an Encap of type %.40s: nodes speak geneve", value)
		}
	}
	for _, value := range o.values("ip") {
		var text string
		if json.Unmarshal(value, &text) != nil {
			return fmt.Errorf("ip of an Encap is %.60s, no string", value)
		}
		if err := checkTunnelAddress(r, node, text); err != nil {
			return err
		}
	}
	for _, value := range o.values("options") {
		if err := checkTunnelOptions(value); err != nil {
			return err
		}
	}
	return nil
}

// checkTunnelAddress: the controller says which addresses a Node has, and which of them are no other Node's.
func checkTunnelAddress(r *replica, node, text string) error {
	if !isTunnelAddress(text) {
		return fmt.Errorf("ip of an Encap is %.60q, no unicast address as such are written", text)
	}
	port, err := r.management(node)
	if err != nil {
		return err
	}
	allowed, said := port.ExternalIDs[contract.TunnelAddressesKey]
	if !said {
		return errNotYet{fmt.Sprintf("weft controller has not said yet which tunnel addresses Node %s has (external_ids:%s "+
			"of port %s)",
			node, contract.TunnelAddressesKey, port.LogicalPort)}
	}
	if !slices.Contains(strings.Split(allowed, ","), text) {
		// Perhaps it is new, and the controller about to say so.
		return errUnknown{"Node " + node, fmt.Sprintf("with the tunnel address %s, or another Node has it, too; it has %q",
			text, allowed)}
	}
	return nil
}

// isTunnelAddress says whether a tunnel may end at an address, and whether it is written as all write it.
func isTunnelAddress(text string) bool {
	addr, err := netip.ParseAddr(text)
	return err == nil && addr.String() == text && contract.TunnelAddress(addr)
}

// tunnelOptions are those that ovn-controller writes of an Encap, each true or false.
var tunnelOptions = []string{"csum", "is_default"}

func checkTunnelOptions(value json.RawMessage) error {
	options, ok := stringMap(value)
	if !ok {
		for _, element := range elements(value) { // keys that a mutation takes away
			var key string
			if json.Unmarshal(element, &key) != nil || !slices.Contains(tunnelOptions, key) {
				return fmt.Errorf("options %.100s of an Encap are none that a node writes", value)
			}
		}
	}
	for key, value := range options {
		if !slices.Contains(tunnelOptions, key) || value != "true" && value != "false" {
			return fmt.Errorf("option %.60s=%.60s of an Encap is none that a node writes", key, value)
		}
	}
	return nil
}
