package main

import "github.com/spf13/pflag"

// installFlags are those of `weft service install`. Each system has those of `weft service`, since the reference lists
// them.
func installFlags(f *pflag.FlagSet) {
	// Not ovs-vswitchd: after a boot it may end until the agent has enabled the extension, and Windows would
	// not start an agent whose dependency has ended (antrea issue 4721). The agent waits for it by itself.
	f.StringSlice("depends", []string{"hns"}, "services that Windows starts before this one")
}

// startFlags are those of `weft service start`.
func startFlags(f *pflag.FlagSet) {
	f.Duration("ready", 0, "how long to wait until the agent can attach pods; if it cannot by then, the command "+
		"fails and says what the node lacks; 0: wait only until the service runs")
}

// notRunning is an exit code of `weft service status`, as of systemctl's.
const notRunning = 3

var statusExits = []exitCode{
	{0, "the service runs"},
	{failureCode, "the service is not installed, or there is no answer; the error says why"},
	{notRunning, "the service is installed and is not running: for example, it is stopped or starting"},
}
