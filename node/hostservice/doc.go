// Package hostservice is the host's side of Services on one node: what of the outside belongs to OVN, the
// ports that the host itself is asked at (a packet to an own address never leaves a host, so no datapath
// sees it), the routes to virtual addresses, and healthCheckNodePort.
//
// A [Watcher] follows Services and works out a plan from them and from what it is told of the host
// ([Watcher.SetHost]) and its pods ([Watcher.SetPods]). The plan is a pure function of these. Package proxy then
// opens and closes sockets until they are as the plan says. Package listeners knows the ports that daemons of
// the host have: those are never opened.
package hostservice
