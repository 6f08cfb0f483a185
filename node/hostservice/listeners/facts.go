package listeners

import (
	"iter"
	"net/netip"
	"slices"
	"time"

	"github.com/weftnet/weft/models/contract"
)

// tellLooks are between two changes of what the cluster is told, a minute: each is a write to the Node, which all nodes
// read.
const tellLooks = int(time.Minute / Period)

// facts are what the cluster is told of a host's daemons.
type facts struct {
	told   []Socket // sorted; nil: nobody knows yet
	looks  int      // of this run, up to steadyLooks
	silent int      // looks since told has changed
}

func (f *facts) known() bool { return f.told != nil }

// update takes the steady listeners of a look over: from the second look of a run on, since the first one does not know
// yet who was there before.
func (f *facts) update(steady iter.Seq[Socket]) (changed bool) {
	f.looks, f.silent = min(f.looks+1, steadyLooks), f.silent+1
	if f.looks < steadyLooks || f.known() && f.silent < tellLooks {
		return false
	}
	now := slices.AppendSeq([]Socket{}, steady)
	slices.SortFunc(now, compareSockets)
	if f.known() && slices.Equal(now, f.told) {
		return false
	}
	if f.silent = 0; !f.known() { // daemons that have begun with the agent follow at once
		f.silent = tellLooks
	}
	f.told = now
	return true
}

// list is what is told of a host with these addresses, without its own ports, and how many are left out as too many.
func (f *facts) list(own contract.HostPorts, addresses []netip.Addr) (list contract.Listeners, left int) {
	for _, at := range f.told {
		switch one, tell := f.listener(at, addresses); {
		case !tell || own.Has(at.Protocol, at.At.Port()):
		case len(list) < contract.MostOfFacts:
			list = append(list, one)
		default:
			left++
		}
	}
	return list, left
}

// listener is what is told of one socket: nothing, if it is at no address of the host's, or if another one stands for
// it.
func (f *facts) listener(at Socket, addresses []netip.Addr) (one contract.Listener, tell bool) {
	one = contract.Listener{Protocol: at.Protocol, Addr: at.At.Addr(), Port: at.At.Port()}
	four, six := f.hasAt(netip.IPv4Unspecified(), at), f.hasAt(netip.IPv6Unspecified(), at)
	switch {
	case !one.Addr.IsUnspecified():
		stands := one.Addr.Is4() && four || one.Addr.Is6() && six
		return one, !stands && slices.Contains(addresses, one.Addr)
	case four && six:
		tell = one.Addr.Is4()
		one.Addr = netip.Addr{}
		return one, tell
	}
	return one, true
}

// hasAt says whether there is a listener at an address with the port of a socket.
func (f *facts) hasAt(addr netip.Addr, port Socket) bool {
	port.At = netip.AddrPortFrom(addr, port.At.Port())
	_, found := slices.BinarySearchFunc(f.told, port, compareSockets)
	return found
}
