// Package capture gives `weft observe` the packets of a pod, or of the node's tunnels, as pcapng.
//
//	request ──► Server ──find──► device ──► source ──► recording ──► caller
//	            (bounds, places)            (packet socket)  (pcapng)
//
// No queue of the agent's lies between the kernel and the caller. A caller that is slow to read keeps the recording
// from reading, and the kernel then drops what the socket's buffer cannot hold, and counts it.
//
// Windows has no packet socket. There a source is Packet Monitor, which has its packets when the capture has ended.
//
// A filter is a program of the kernel's (BPF) that is made of a protocol, an address and a port. No text of a caller's
// becomes a part of it.
package capture
