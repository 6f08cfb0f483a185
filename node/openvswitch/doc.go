// Package openvswitch is the node's Open_vSwitch database: a replica to read, and transactions of which none changes
// anything when it is repeated.
//
//	database      the connection, and rows as the server reads them
//	bridges       br-int, the bridge to the outside, and the settings of ovn-controller
//	attachments   ports of pods
//	uplinkbridge  the bridge of an uplink that host and pods share: it is written here alone
//	uplink        what else Open vSwitch has of an uplink, and waiting for ovs-vswitchd
//	flows         what a bridge needs beside its flows
//	reopen        ports that ovs-vswitchd could not open
//	release       all of it taken back, while the agent does not run
//	dial          a connection to br-int
//
// It writes what its callers have decided, and decides nothing itself. It imports platform and nodeconfig, and
// knows neither system nor the agent.
package openvswitch
