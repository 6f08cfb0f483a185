// Package conntrack tells which connections the datapath of a node remembers in zones of OVN's logical ports, switches
// and routers.
//
// ovs-vswitchd lists the entries by its control socket (dpctl/dump-conntrack of ovs-vswitchd(8)). [Parse] reads a line
// of its text (ct_dpif_format_entry in lib/ct-dpif.c), which all datapaths have: Linux' one, that in userspace and that
// of Windows. Connections of the host alone, which are in zone 0, and those of other programs' zones are never told.
package conntrack
