// Package daemons tells what the daemons of OVN and Open vSwitch say of themselves, as metrics of Prometheus. It asks
// by their control sockets, as ovs-appctl(8) does: for counters, and never for what a daemon would have to compute.
package daemons
