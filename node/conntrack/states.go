package conntrack

import "cmp"

// driverStates are the states of TCP that Windows' driver means, by what Open vSwitch makes of them. The driver tells
// the number of its own list (enum CT_DPIF_TCPS_… of datapath-windows/ovsext/Conntrack-tcp.c, told by
// OvsCreateNlMsgFromCtEntry of Conntrack.c). ovs-vswitchd takes it for one of Linux' list (nl_ct_tcp_state_to_dpif of
// lib/netlink-conntrack.c), in which 4 is FIN_WAIT.
var driverStates = map[string]string{
	"SYN_RECV":    "SYN_SENT",    // 2
	"ESTABLISHED": "SYN_RECV",    // 3
	"FIN_WAIT_1":  "ESTABLISHED", // 4
	"LAST_ACK":    "FIN_WAIT_1",  // 6
	"TIME_WAIT":   "CLOSING",     // 7
	"CLOSING":     "LAST_ACK",    // 8
	"SYN_SENT":    "FIN_WAIT_2",  // 9, and LISTEN, which no connection has
	"CLOSED":      "TIME_WAIT",   // 10, and CLOSED, after which there is no entry
}

// ofDriver is the state that Windows' driver means.
func ofDriver(state string) string { return cmp.Or(driverStates[state], state) }
