// Command weft-cni is the CNI plugin of weft. It passes what the container runtime asks on to the
// node's agent, `weft node`, and prints the answer.
package main

import (
	"os"

	"github.com/containernetworking/cni/pkg/skel"
	"github.com/weftnet/weft/cni"
)

func main() {
	plugin := &cni.Plugin{Dial: cni.Dial, Leftover: cni.Leftover, Stdout: os.Stdout}
	skel.PluginMainFuncs(plugin.Funcs(), cni.Versions, "CNI plugin weft-cni: asks the agent `weft node`")
}
