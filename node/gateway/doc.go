// Package gateway keeps the node's bridges and its way to the outside.
//
//	gateway    the parts, and the bridges that ovn-controller finds
//	uplink     the adapter, where host and pods share it
//	external   what the bridge to the outside is like, and the gateway router on it
//	flows      the flows of that bridge, which tell the host's traffic from the gateway router's
//	lookup     whether the datapath needs a lookup before it commits connections
//	switch     when ovs-vswitchd has ended, and with it the bridge's flows
//
// Each of its loops compares what is there with what must be, and corrects it. The package decides what is written to
// bridges, and package openvswitch writes it. It imports platform, openvswitch and health, and knows the agent and
// the Services by what is in [Parts] alone.
package gateway
