// Package windows is the [platform.Platform] of a Windows node: a pod's interface is an HNS endpoint of one
// Transparent network, whose virtual switch hands all packets to Open vSwitch.
//
//	platform, endpoint    the contract; HNS endpoints, and the host's interface to its pods
//	uplink, host, names   the HNS network on the host's adapter: made, adopted, named, and repaired
//	reclaim               the host gets its adapter back, also without HNS
//	neighbours            what the host knows of its bridge's neighbours
//	native                the same over this Windows' own HNS and iphlpapi
//
// All but the last is built on every system, so that it is tested on each with the models of package hnstest.
// It imports platform, hns and hostnet, and knows neither the agent nor Open vSwitch's database.
package windows
