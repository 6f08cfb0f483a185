package ovntrace

import (
	"encoding/json"
	"io"
	"maps"
	"net/netip"
	"slices"
	"sync"

	"github.com/weftnet/weft/models/sb"
)

// scope is what a run reads of the Southbound. ovn-trace reads each logical flow once for each datapath that has it,
// and puts all members of an address set in the place of its name. So with 100 nodes and 10,000 Services it takes
// 17 GB, nearly all of them for datapaths that the packet never meets. What is out of the scope stays out of what
// ovn-trace reads: logical flows of other datapaths, these datapaths in groups (ovn-sb(5), Logical_DP_Group), and
// members of address sets.
//
// A packet may leave the scope: it meets another datapath, or gets another address. Then the run says so, and is made
// again with a wider scope, see [scope.widened].
type scope struct {
	network   *network
	addresses map[netip.Addr]bool
	datapaths map[string]bool // by UUID

	mu     sync.Mutex
	left   map[netip.Addr]bool // members of address sets that were left out
	ranges []netip.Prefix      // of those members that are ranges
}

// network is how datapaths are joined.
type network struct {
	names map[string][]string // UUIDs of datapaths by the name that ovn-trace has for them
	peers map[string][]string // UUIDs of datapaths to those that are joined to them
	// attached are the networks of routers' ports.
	attached []attached
}

// attached is a network of a router's port, with the UUIDs of the router and of what the port leads to.
type attached struct {
	network netip.Prefix
	between []string
}

// hub is from how many peers on a datapath is one that joins nodes, and from how many ports on a network is one that
// nodes share. What is beside these is in a scope only as far as the packet meets it.
const hub = 4

// newScope is that of a packet, as long as nothing is known of its way.
func newScope(n *network, p Packet) *scope {
	s := &scope{network: n, addresses: map[netip.Addr]bool{}, datapaths: map[string]bool{}, left: map[netip.Addr]bool{}}
	s.has(p.Src)
	s.has(p.Dst)
	return s
}

// enters widens the scope by a datapath, and by those beside it.
func (s *scope) enters(datapath string) {
	s.datapaths[datapath] = true
	if peers := s.network.peers[datapath]; len(peers) < hub {
		for _, peer := range peers {
			s.datapaths[peer] = true
		}
	}
}

// has widens the scope by an address, and by the datapaths where it belongs. All gateway routers have a port on the
// join switch, and most on the same network outside, so an address there tells nothing of where it is.
func (s *scope) has(addr netip.Addr) {
	s.addresses[addr] = true
	var beside []string
	ports := 0
	for _, a := range s.network.attached {
		if a.network.Contains(addr) {
			beside = append(beside, a.between...)
			ports++
		}
	}
	if ports >= hub {
		return
	}
	for _, datapath := range beside {
		s.datapaths[datapath] = true
	}
}

// widened is a scope for another run, or nil if the packet has stayed in this one. Of a load balancer, the next run may
// take any endpoint, so all of them are in it.
func (s *scope) widened(text string) *scope {
	trace, err := Parse(text)
	if err != nil {
		return nil // whoever reads the output says why
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	wider := &scope{network: s.network, addresses: maps.Clone(s.addresses), datapaths: maps.Clone(s.datapaths),
		left: map[netip.Addr]bool{}}
	lacks := false
	for _, visit := range trace.Visits {
		for _, datapath := range s.network.names[visit.Datapath] {
			lacks = lacks || !s.datapaths[datapath]
			wider.enters(datapath)
		}
		for _, flow := range visit.Flows {
			for _, addr := range flow.gives() {
				lacks = lacks || s.lacks(addr)
				wider.has(addr)
			}
		}
	}
	if !lacks {
		return nil
	}
	return wider
}

// lacks says whether an address was left out of a set.
func (s *scope) lacks(addr netip.Addr) bool {
	return s.left[addr] || slices.ContainsFunc(s.ranges, func(p netip.Prefix) bool { return p.Contains(addr) })
}

// gives are the addresses that the flow may give a packet.
func (f *Flow) gives() (list []netip.Addr) {
	for _, endpoint := range f.Endpoints() {
		list = append(list, endpoint.Addr())
	}
	if addr, _, ok := f.Translation(); ok {
		list = append(list, addr)
	}
	return list
}

// keepsMember says whether a member of an address set is in the scope. Members that are no addresses of IP are.
func (s *scope) keepsMember(member string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if addr, err := netip.ParseAddr(member); err == nil {
		if !s.addresses[addr] {
			s.left[addr] = true
		}
		return s.addresses[addr]
	}
	prefix, err := netip.ParsePrefix(member)
	if err != nil {
		return true
	}
	for addr := range s.addresses {
		if prefix.Contains(addr) {
			return true
		}
	}
	if !slices.Contains(s.ranges, prefix) {
		s.ranges = append(s.ranges, prefix)
	}
	return false
}

// ask passes on the requests of an ovn-trace, RFC 7047. Of logical flows, it is to read those of datapaths in the
// scope, and of groups of datapaths.
func (s *scope) ask(server io.Writer, client io.Reader) error {
	where := [][]any{{"logical_dp_group", "!=", []any{"set", []any{}}}}
	for _, datapath := range slices.Sorted(maps.Keys(s.datapaths)) {
		where = append(where, []any{"logical_datapath", "==", []any{"uuid", datapath}})
	}
	for requests := json.NewDecoder(client); ; {
		var request map[string]json.RawMessage
		if err := requests.Decode(&request); err != nil {
			return err
		}
		if err := narrow(request, where); err != nil {
			return err
		}
		text, err := json.Marshal(request)
		if err != nil {
			return err
		}
		if _, err := server.Write(text); err != nil {
			return err
		}
	}
}

// narrow adds a condition to a request for logical flows: rows are told for which one of its clauses holds
// (ovsdb-server(7), monitor_cond).
func narrow(request map[string]json.RawMessage, where [][]any) error {
	var method string
	if json.Unmarshal(request["method"], &method) != nil || method != "monitor_cond" && method != "monitor_cond_since" {
		return nil
	}
	var params []json.RawMessage
	if err := json.Unmarshal(request["params"], &params); err != nil || len(params) < 3 {
		return err
	}
	var tables map[string][]map[string]any
	if err := json.Unmarshal(params[2], &tables); err != nil {
		return err
	}
	for _, columns := range tables[sb.LogicalFlowTable] {
		columns["where"] = where
	}
	var err error
	if params[2], err = json.Marshal(tables); err != nil {
		return err
	}
	request["params"], err = json.Marshal(params)
	return err
}
