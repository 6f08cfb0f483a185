// Package hyperv emulates Open vSwitch's extension of the Hyper-V switch (datapath-windows/ovsext of
// v3.7.1) on Linux: a process that is to a stock ovs-vswitchd what that driver is. So ovs-vswitchd
// probes its features as it does on Windows, and its flows meet the driver's semantics and its faults.
//
// ovs-vswitchd runs with the library of shim/ loaded, which leads its generic netlink sockets here:
// socket.go has them, netlink.go and request.go the coding of messages. controldevice.go hands a message to
// the command that it asks for, and family.go lists the commands.
//
// The datapath (datapath.go) is made of parts. Each is a type that has the state of one subject and the
// commands for it: ports (vport.go), flows (flow.go), meters (meter.go), fragments (fragment.go),
// connections (conntrack.go, ctcommand.go) with their translations (translation.go) and the limits of zones
// (ctlimit.go), the ways to tunnels' peers (peer.go), deferred actions (recirc.go), upcalls (upcall.go),
// statistics and the record of what packets have met. One lock is of all of them.
//
// A packet comes from a device (device_linux.go), gets its key (extract.go, key.go), and finds the one
// flow with exactly that key, or goes up to ovs-vswitchd: execute.go. The flow's actions (actions.go,
// set.go) run as the driver runs them: outputs are collected and sent at once, an unknown action is passed
// over, and connections are tracked (tracking.go, cttcp.go, cticmp.go, nat.go) in the driver's tables. A
// tunnel's packet is encapsulated and goes through the flows again as one of the host's own (geneve.go),
// and an arriving one is taken out where a flow gives it to the host.
//
// Known faults of the driver can be switched off one by one (faults.go). docs/hyperv.md is the table of
// behaviours, with the file and function that each comes from.
package hyperv
