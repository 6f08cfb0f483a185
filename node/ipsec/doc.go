// Package ipsec encrypts what a node's tunnels send to other nodes: GENEVE inside ESP (RFC 4303) in transport mode,
// with AES-GCM (RFC 4106), keyed by IKEv2 (RFC 7296) with certificates.
//
// The kernel's policies are the package's own, and strongSwan's charon, which it drives by vici, makes the SAs. So
// what may pass in the clear does not depend on charon: the policies are there before the first tunnel is, and they
// stay when charon, or the agent, ends. There are these for each address family, whatever peers there are:
//
//	out  any → any udp dport 6081  by an SA with reqid ReqIDOut
//	in   any → any udp dport 6081  by an SA with reqid ReqIDIn
//
// With [Enforce] a packet for which there is no such SA is dropped, and with [Begin] it passes as it is.
//
// Each node opens the SAs of what it sends. Who initiates an exchange installs a new SA for sending when the other end
// has already installed it for receiving, so neither the first SA nor a new one costs a packet. An IKE_SA has one child
// and is the initiator's: a node renews those that it has opened, before it closes the old ones, every hour and as soon
// as its certificates are others, and it closes those of others that have not been renewed for twice that time.
//
// Who a peer is, its certificate says by the subject CN=ADDRESS, the address of its tunnels, which has to be the one
// that it is met at. IKE's identity is that subject on Linux and on Windows, which sends no other.
package ipsec
