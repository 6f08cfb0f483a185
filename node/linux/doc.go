// Package linux is the [platform.Platform] of a Linux node: a pod's interface is a veth pair that netlink makes, and
// an uplink that host and pods share is a port of an Open vSwitch bridge whose own interface has what the host had.
//
//	platform, endpoint      the contract; veth pairs and what is in their sandboxes
//	management, viprules    the host's interface to its pods, and its routes to Services
//	uplink, uplinkdevice,   sharing the uplink, giving it back, and which device can be shared
//	uplinkrelease
//	hostaddresses,          what the host has on a device, moved by the kernel's own messages
//	hostroutes, rtnetlink
//	userspace, sysctl,      what single datapaths and kernels need
//	neighbours, netns
//	answers                 what DNS servers on the node answer
//
// It has no connection to Open vSwitch: whoever calls hands it the bridge that the uplink joins, as a
// [platform.UplinkBridge]. It imports platform and packages below that, and knows neither the agent nor the database.
package linux
