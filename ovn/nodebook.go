package ovn

import (
	"github.com/weftnet/weft/ovn/ipam"
	"github.com/weftnet/weft/ovn/settings"
	"iter"
	"net/netip"
)

// nodeBook is what is known of nodes: their switches, numbers and subnets, the shared gateway that some carry, their zones
// and systems, and where their tunnels may end.
type nodeBook struct {
	*outbox
	settings *settings.Settings
	around   surroundings
	pods     podView
	recorded map[string]nodeRecord // of earlier terms, as far as no node has claimed it yet

	all       map[string]*nodeState
	ids       *ipam.NumberPool // node ID n is number n-1
	cuts      []*ipam.SubnetAllocator
	names     []string            // of the nodes that have a switch, sorted
	unsettled map[string]struct{} // nodes that something is wrong with
	vacated   bool                // a node has given up what one of those may have
	windows   map[string]struct{} // nodes that run Windows
	members   map[string]member   // nodes that carry the shared gateway
	sharers   map[string]struct{} // nodes that use it
	zones     map[string][]string // nodes that have a switch by zone, sorted
	zoneOf    map[string]string
	tunnels   tunnelBook
	onlyOne   onlyOne

	dirty                       map[string]struct{}
	dirtyTopology, dirtyGateway bool
}

func newNodeBook(o *outbox, s *settings.Settings, around surroundings, self nodeView, pods podView) nodeBook {
	b := nodeBook{outbox: o, settings: s, around: around, pods: pods,
		all: map[string]*nodeState{}, ids: ipam.NewPool(max(s.MaxNodeID(), 0)), unsettled: map[string]struct{}{},
		windows: map[string]struct{}{}, members: map[string]member{}, sharers: map[string]struct{}{},
		zones: map[string][]string{}, zoneOf: map[string]string{}, onlyOne: newOnlyOne(),
		tunnels: tunnelBook{settings: s, nodes: self, lines: map[netip.Addr][]string{}},
		dirty:   map[string]struct{}{}}
	if s.Allocate {
		for _, pods := range s.Pods {
			b.cuts = append(b.cuts, ipam.NewSubnetAllocator(pods, s.Mask(pods)))
		}
	}
	return b
}

// overdue takes in that a node has waited long enough for its subnets, and says whether that makes a difference.
func (b *nodeBook) overdue(name string) bool {
	n := b.all[name]
	if n == nil || n.expects != expecting {
		return false
	}
	n.expects = overdue
	return true
}

func (b *nodeBook) at(name string) *nodeState { return b.all[name] }

func (b *nodeBook) placed() iter.Seq[*nodeState] {
	return func(yield func(*nodeState) bool) {
		for _, name := range b.names {
			if !yield(b.all[name]) {
				return
			}
		}
	}
}

func (b *nodeBook) hasWindows() bool { return len(b.windows) > 0 }

func (b *nodeBook) touch(name string) { b.dirty[name] = struct{}{} }

func (b *nodeBook) releaseNumber(number int) {
	b.ids.Release(number - 1)
	b.vacated = true
}
