// Command weft-cni is the CNI plugin of weft. It passes what the container runtime asks on to the
// node's agent, `weft node`, and prints the answer. `weft-cni --version` is for people: a runtime gives no arguments.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"

	"github.com/containernetworking/cni/pkg/skel"

	"github.com/weftnet/weft/cni"
	"github.com/weftnet/weft/models/version"
)

func main() {
	if len(os.Args) > 1 {
		os.Exit(answer(os.Args[1:], os.Stdout, os.Stderr))
	}
	plugin := &cni.Plugin{Dial: cni.Dial, Leftover: cni.Leftover, Stdout: os.Stdout}
	skel.PluginMainFuncs(plugin.Funcs(), cni.Versions, "CNI plugin weft-cni: asks the agent `weft node`")
}

// answer serves a person, and returns the exit code.
func answer(args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("weft-cni", flag.ContinueOnError)
	flags.SetOutput(stderr)
	wanted := flags.Bool("version", false,
		"print the versions of this program, and of the OVN and Open vSwitch that it is made for")
	output := flags.String("o", "text", "text or json")
	if err := flags.Parse(args); err != nil {
		return 2 // the flags have said why
	}
	if !*wanted || flags.NArg() > 0 {
		fmt.Fprintln(stderr, "weft-cni: a container runtime runs this program; a person can ask it for its --version")
		return 2
	}
	if err := version.Current().Write(stdout, *output); err != nil {
		fmt.Fprintln(stderr, "weft-cni:", err)
		return 2
	}
	return 0
}
