package node

import (
	"github.com/weftnet/weft/cni"
	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/node/openvswitch"
	"github.com/weftnet/weft/node/probe"
)

// newProbes is where probes from the node's pods are asked for.
func (a *agent) newProbes() *probe.Server { return probe.NewServer(a.sandboxOf, a.platform.InSandbox) }

// sandboxOf goes by what the node's database has for exactly this pod: a caller names no network.
func (a *agent) sandboxOf(reference contract.PodReference) (string, error) {
	pod := cni.Pod(reference)
	device := a.ovs.InterfaceOf(pod)
	if device == nil {
		return "", notAttached(pod, a.config.NodeName)
	}
	return device.ExternalIDs[openvswitch.NetnsKey], nil
}
