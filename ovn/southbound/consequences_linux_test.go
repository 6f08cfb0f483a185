package southbound

import (
	"fmt"
	"slices"
	"strings"
)

// What other chassis would make of the Southbound stands here, since rows that a node may write can do harm by what
// becomes of them.

// consequences says what is wrong with what other chassis' ovn-controllers would install after a request.
func consequences(before, after content, request string) (wrong []string) {
	// Flows of logical flows, neighbours, addresses, ports and multicast groups are in one table, by the UUID of their
	// rows (OVN's controller/ofctrl.c, sb_to_flow): with two rows of one UUID the end of the one's flows is that of the
	// other's.
	tables := map[string][]string{}
	for table, rows := range after {
		for id := range rows {
			tables[id] = append(tables[id], table)
		}
	}
	for id, holders := range tables {
		if len(holders) > 1 {
			slices.Sort(holders)
			wrong = append(wrong, fmt.Sprintf("rows of the tables %s have the UUID %s: the flows of the one end with those of "+
				"the other", strings.Join(holders, ", "), id))
		}
	}
	// So it would be with a row that comes later, by a UUID that the node knows beforehand: OVN derives some.
	for table, rows := range after {
		for id := range rows {
			if before[table][id] == nil && strings.Contains(strings.ToLower(request), id) {
				wrong = append(wrong, fmt.Sprintf("the UUID %s of a row of table %s is the node's choice", id, table))
			}
		}
	}
	return wrong
}

// tunnelPort says what is wrong with the tunnel port that all other chassis make of an Encap row (OVN's
// controller/encaps.c, chassis_tunnel_add and tunnel_add): remote_ip is the row's ip, and of its options csum and
// dst_port become the port's.
func tunnelPort(encap map[string]any) string {
	if !slices.Contains(tunnels, encap["ip"].(string)) {
		return fmt.Sprintf("all would take packets from %s for l2's", encap["ip"])
	}
	for _, option := range encap["options"].([]any)[1].([]any) {
		pair := option.([]any)
		if pair[0] != "csum" && pair[0] != "is_default" || pair[1] != "true" && pair[1] != "false" {
			return fmt.Sprintf("all would have a tunnel port with %v", pair)
		}
	}
	return ""
}
