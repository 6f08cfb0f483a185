// Package detours is an example of a part, for readers of CONTRIBUTING.md ("Add a kind"): it is compiled and tested,
// and no program has it. A Detour has packets to a prefix outside leave by a router of its own. It becomes a route on
// the gateway router of each node whose network has that router.
//
// object.go has the kind of the API and the object that is kept of it, detours.go the part and status.go what it writes
// back. What the part reads of nodes is in views.go.
package detours
