package main

import (
	"github.com/spf13/cast"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/weftnet/weft/node/nodeconfig"
	"github.com/weftnet/weft/node/ovsdriver"
)

// systemFlags are the keys of a Windows node alone.
func systemFlags(f *pflag.FlagSet, defaults nodeconfig.Config) {
	f.Bool("service", false, "run under the service control manager, as \"weft service\" does")
	f.String("log-file", "", "write the log to this file too; a service's default is weft-node.log in state-dir")
	f.String("adapter", "", "network adapter that pods share with the host; empty is the one that holds encap-address")
	f.String("hns-network", defaults.HNSNetwork, "name of the HNS network on that adapter")
	f.String("ovs-driver", "", "Open vSwitch's driver: "+ovsdriver.Names()+"; empty is the one that is installed")
	f.String("ovs-openflow", "", "OpenFlow management connection of br-int; found beside the OVS database's socket "+
		"if empty")
	f.String("chassis", defaults.Chassis, "hosted (ovn-controller runs on a chassis host) or local (on this node)")
	f.String("state-dir", defaults.StateDir, "folder of the agent's own files")
	f.Bool("cni-socket-prime", false, "connect to cni-socket once at the start, which Wine needs and Windows does not")
	_ = f.MarkHidden("cni-socket-prime") // the flag is there
	f.String("conntrack-lookup", defaults.ConntrackLookup, "look packets up in connection tracking once more before a "+
		"connection is committed, which Open vSwitch's driver needs since 3.0: true, false, or auto (the agent finds out "+
		"whether the driver needs it)")
	f.Lookup("conntrack-lookup").NoOptDefVal = nodeconfig.LookupOn
	f.Bool("conntrack-flush", false, "have connections to UDP endpoints that are gone forgotten; Open vSwitch's driver "+
		"forgets others with them, and may end the system")
	f.Bool("conntrack-ftp", false, "let packets of FTP (TCP port 21) and TFTP (UDP port 69) pass; Open vSwitch's driver "+
		"reads them on its own, and may end the system")
	f.Duration("vnic-timeout", defaults.VNICTimeout, "how long a pod may lack its network interface or flows before an "+
		"Event says so")
}

func systemConfig(s *settings, config *nodeconfig.Config) {
	config.Adapter = s.text("adapter")
	config.HNSNetwork = s.text("hns-network")
	config.OVSDriver = s.text("ovs-driver")
	config.OVSOpenFlow = s.text("ovs-openflow")
	config.Chassis = s.text("chassis")
	config.StateDir = s.text("state-dir")
	config.PrimeSocket = s.boolean("cni-socket-prime")
	config.ConntrackLookup = scalar(s, "conntrack-lookup", parseLookup, "auto, true or false")
	config.ConntrackFlush = s.boolean("conntrack-flush")
	config.ConntrackFTP = s.boolean("conntrack-ftp")
	config.VNICTimeout = s.duration("vnic-timeout")
}

// parseLookup takes a boolean, too, in each way in which one may be written: the key was one.
func parseLookup(value any) (string, error) {
	text, err := cast.ToStringE(value)
	if err != nil {
		return "", err
	}
	return nodeconfig.ParseConntrackLookup(text)
}

const releaseHelp = `Give the host its adapter back, and take Weft's bridges from Open vSwitch.

The agent has made an HNS network on the adapter, and what the host has on it is on that network's virtual switch.
This undoes it: the network is gone with all its endpoints, the adapter has the host's addresses and routes again, and
the bridges and settings that the agent has made are gone from Open vSwitch's database. The host's connections pause, and
pods that are left on the node have no network any more: drain it first. Stop the agent first (weft service stop),
which would do it all again.

It takes the keys of "weft node", from the same file.`

// systemCommands are those of a Windows node alone: none.
func systemCommands(*pflag.FlagSet) []*cobra.Command { return nil }
