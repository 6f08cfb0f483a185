// Package hyperv says what has to be taken from a Linux Open vSwitch so that ovs-vswitchd believes that its
// datapath is the extension of the Hyper-V switch.
package hyperv

// A Feature of a datapath and its value on Hyper-V, as `ovs-appctl dpif/set-dp-features BRIDGE NAME VALUE` takes
// them.
type Feature struct{ Name, Value string }

// Features are those in which the extension of Open vSwitch 3.7 differs from the userspace datapath, as ovs-vswitchd's
// probes find them (datapath-windows/ovsext, OvsDoExecuteActions, OvsProbeSupportedFeature; ofproto/ofproto-dpif.c,
// check_support). An explicit drop cannot be taken away, and is off unless asked for. trunc and ct_timeout are
// exceptions: the probes find them, and the extension does not do them.
var Features = []Feature{
	{"check_pkt_len", "false"}, {"clone", "false"}, {"ct_clear", "false"}, {"ct_timeout", "false"},
	{"masked_set_action", "false"},
	{"trunc", "false"}, {"lb_output_action", "false"}, {"add_mpls", "false"}, {"psample", "false"},
	{"nd_ext", "false"}, {"ct_orig_tuple6", "false"},
	{"sample_nesting", "3"}, {"max_hash_alg", "0"},
}
