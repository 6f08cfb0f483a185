// Package chassis runs, on a Linux host, the ovn-controller of each node that has none of its own.
//
//	Nodes, Leases ──watch──► host ──► a member a node it holds: run directory, ovn-controller
//	ovn-controller ── db.sock, br-int.mgmt ── relay ══ package tunnel ══ the node's agent
//	ovn-controller ── Southbound: by the address in the node's own Open_vSwitch row, or by the host's key ovn-southbound
//
// Several hosts share the nodes. A Lease a host is its heartbeat, and a Lease a node says which host
// holds it; so renewals cost the same for one node and for a thousand. In a cluster with zones, the hosts
// of each zone share its nodes; who may take a Lease from whom does not depend on zones. What keeps a
// node from having two ovn-controllers:
//
//   - A host's term ends two thirds of the Lease's duration after the beginning of the last renewal
//     that succeeded, by its own monotonic clock. At its end every ovn-controller of it is killed and
//     no more byte is relayed, whether the API server answers or not.
//   - Another host takes a node only when it has seen no renewal of the holder's Lease for the
//     duration written in it, by its own clock since it saw the last one, and has then asked the API
//     server itself.
//   - Who holds a node is changed by comparing and swapping the node's Lease, by a host that comes
//     back after its term has ended too.
//
// A host that was frozen can kill nothing until it wakes up. Its relay stands still meanwhile, and looks
// at the clock before it passes on what it finds; only the Southbound can hear two ovn-controllers then.
//
// An ovn-controller is never asked to end in a way that would remove its chassis or its flows: the
// node's packets go on until the next one has taken over.
package chassis
