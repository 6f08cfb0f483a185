package bench

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/weftnet/weft/test/bench/ovsdblog"
)

// floorVIP is the address of a load balancer that is nobody's.
const floorVIP = "10.97.0.1:80"

// serviceOptions are what weft gives a Service's load balancer: a floor without them would be another
// change.
var serviceOptions = map[string]string{"reject": "true", "hairpin_snat_ip": "169.254.169.5 fd69::5",
	"neighbor_responder": "none"}

// floorBalancer is a load balancer with ten endpoints, like a Service's, which a bare client has made.
type floorBalancer struct {
	client   *bareClient
	id       string
	backends []string
}

// newFloorBalancer puts it where a Service's is: among all others, in the group of all nodes' switches.
func newFloorBalancer(b *testing.B, nb *database) *floorBalancer {
	b.Helper()
	f := &floorBalancer{client: dialBare(b, nb.remote, "OVN_Northbound"), id: "00000000-0000-4000-8000-000000000001"}
	for i := range 10 {
		f.backends = append(f.backends, fmt.Sprintf("10.244.0.%d:8080", 3+i))
	}
	f.client.transact(b, append([]any{insertBalancer(f.id, "floor", "tcp", serviceOptions,
		map[string]string{floorVIP: strings.Join(f.backends, ",")})},
		addBalancer(groupID(b, nb.read(b), "weft-cluster"), f.id)))
	return f
}

// replace puts an address in the place of the first endpoint.
func (f *floorBalancer) replace(b *testing.B, addr netip.Addr) {
	b.Helper()
	f.backends[0] = netip.AddrPortFrom(addr, 8080).String()
	f.client.transact(b, []any{map[string]any{"op": "mutate", "table": "Load_Balancer", "where": whereID(f.id),
		"mutations": []any{
			[]any{"vips", "delete", []any{"set", []string{floorVIP}}},
			[]any{"vips", "insert", ovsdbMap(map[string]string{floorVIP: strings.Join(f.backends, ",")})},
		}}})
}

func insertBalancer(id, name, protocol string, options, vips map[string]string) any {
	return map[string]any{"op": "insert", "table": "Load_Balancer", "uuid": id,
		"row": map[string]any{"name": name, "protocol": protocol, "options": ovsdbMap(options), "vips": ovsdbMap(vips)}}
}

func addBalancer(group, id string) any {
	return map[string]any{"op": "mutate", "table": "Load_Balancer_Group", "where": whereID(group),
		"mutations": []any{[]any{"load_balancer", "insert", []any{"set", []any{[]string{"uuid", id}}}}}}
}

func whereID(id string) []any { return []any{[]any{"_uuid", "==", []string{"uuid", id}}} }

func ovsdbMap(pairs map[string]string) any {
	list := [][]string{}
	for _, key := range slices.Sorted(maps.Keys(pairs)) {
		list = append(list, []string{key, pairs[key]})
	}
	return []any{"map", list}
}

func groupID(b *testing.B, db *ovsdblog.Database, name string) string {
	b.Helper()
	for id, row := range db.Tables["Load_Balancer_Group"] {
		if only(row["name"]) == name {
			return id
		}
	}
	b.Fatalf("the Northbound has no load balancer group %s", name)
	return ""
}

// writeMinimal writes the fewest rows that serve what a load's Services ask for: for a ClusterIP one load
// balancer, in the group of the nodes' switches; for a NodePort one more, by template, that has the nodes' own
// addresses and is in that group, for their pods, and in that of the gateway routers. like is the
// Northbound that weft wrote of the load, which says what addresses and ports the API server has chosen.
func writeMinimal(b *testing.B, nb *database, like *ovsdblog.Database) {
	b.Helper()
	client := dialBare(b, nb.remote, "OVN_Northbound")
	defer client.conn.Close()
	switches, gateways := groupID(b, like, "weft-cluster"), groupID(b, like, "weft-gateways")
	var operations []any
	n, before := 0, nb.read(b).Tables["Load_Balancer"]
	for id, row := range like.Tables["Load_Balancer"] {
		if before[id] != nil {
			continue
		}
		for vip, backends := range row["vips"] {
			options, groups := map[string]string{}, []string{switches}
			if strings.HasPrefix(vip, "^NODEIP4_0:") {
				options = map[string]string{"template": "true", "address-family": "ipv4"}
				groups = append(groups, gateways)
			} else if !strings.HasPrefix(vip, "10.96.") {
				continue
			}
			n++
			id := fmt.Sprintf("00000000-0000-4000-8000-%012d", n)
			operations = append(operations, insertBalancer(id, vip, "tcp", options, map[string]string{vip: backends}))
			for _, group := range groups {
				operations = append(operations, addBalancer(group, id))
			}
		}
	}
	client.transact(b, operations)
}
