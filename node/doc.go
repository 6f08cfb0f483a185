// Package node is the agent of one node: it prepares Open vSwitch for OVN, gives the host its port
// on the node's logical switch, tells the cluster what it found (contract.NodeFacts), and serves
// the CNI plugin.
//
//	Node, Pods ──watch──► agent ──OVSDB──► Open vSwitch ◄── ovn-controller
//	weft-cni ──socket──►    └──[platform.Platform]──► the host's network and the pods' sandboxes
//
// The agent keeps no state of its own: what a pod has stands in the external_ids of its OVS
// interface. Everything but CNI calls happens in loops that compare and correct, so that a
// first start, a repair and a restart are the same.
//
// This package looks at the node as a whole and wires the parts, each of which owns its state:
//
//	agent       the wiring, and the loops
//	reconcile   what the node is like, told to the cluster; the management port
//	services    the host as a client of Services, and what it answers for
//	hosted      the streams of a chassis host and of `weft observe`
//	domains     what DNS servers on the node answer
//
// The other parts are packages below: attach (from ADD to sweep), gateway (the bridges, the shared uplink and the flows
// of the bridge to the outside), encryption, pods, hostservice (which ports of the host are Services' and pods'),
// health, openvswitch (the database), ovncontroller (the program on the node), local (sockets on the node) and
// nodeconfig (the keys). What the operating system does is behind package platform, whose two implementations are linux
// and windows. Imports point one way:
//
//	node ──► attach, gateway, encryption ──► pods, health, openvswitch ──► nodeconfig, platform, hostservice
//	     └─► linux, windows ──────────────────────────────────────────────► platform
package node
