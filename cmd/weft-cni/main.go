// Command weft-cni is the CNI plugin of weft. It passes what the container runtime asks on to the
// node's agent, `weft node`, and prints the answer. A runtime gives no arguments: `weft-cni --version` is for people,
// and `weft-cni --install FOLDER` for pods that bring the plugin to their host.
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

// answer serves those that are no runtime, and returns the exit code.
func answer(args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("weft-cni", flag.ContinueOnError)
	flags.SetOutput(stderr)
	wanted := flags.Bool("version", false,
		"print the versions of this program, and of the OVN and Open vSwitch that it is made for")
	output := flags.String("o", "text", "text or json")
	folder := flags.String("install", "", "copy this program into a `folder`, such as /opt/cni/bin")
	if err := flags.Parse(args); err != nil {
		return 2 // the flags have said why
	}
	if *wanted == (*folder != "") || flags.NArg() > 0 {
		fmt.Fprintln(stderr, "weft-cni: a container runtime runs this program; others can ask it for its --version, or have "+
			"it copied by --install FOLDER")
		return 2
	}
	if *folder != "" {
		if err := install(*folder); err != nil {
			fmt.Fprintln(stderr, "weft-cni:", err)
			return 1
		}
		return 0
	}
	if err := version.Current().Write(stdout, *output); err != nil {
		fmt.Fprintln(stderr, "weft-cni:", err)
		return 2
	}
	return 0
}
