// Package probe opens one connection from a pod's own network, for `weft trace --live`.
//
//	request ──► Server ──find──► sandbox ──inside──► socket with the pod's address ──► result
//	            (bounds, places)
//
// A socket is in the network of the thread that makes it, on Linux (network_namespaces(7)) and on Windows
// (SetCurrentThreadCompartmentId). Each has the pod's address before anything is sent. A network that does not have
// that address refuses it, so nothing is ever sent from the host's own, or from another pod's.
package probe
