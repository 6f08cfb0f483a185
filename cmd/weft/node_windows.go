package main

import (
	"github.com/spf13/cast"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/weftnet/weft/node/nodeconfig"
)

// systemConfig reads the keys of a Windows node alone.
func systemConfig(s *settings, config *nodeconfig.Config) {
	config.Adapter = s.text("adapter")
	config.HNSNetwork = s.text("hns-network")
	config.OVSDriver = s.text("ovs-driver")
	config.OVSOpenFlow = s.text("ovs-openflow")
	config.OVSControl = s.text("ovs-control")
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
