package observe

import (
	"context"
	"fmt"
	"net/netip"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/kubernetes"

	api "github.com/weftnet/weft/models/api/observe/v1alpha1"
	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/ovn/trace"
)

const (
	// maxProbes is how many probes a door has sent at a time, and maxProbesOfUser those of one user.
	maxProbes       = 16
	maxProbesOfUser = 2
)

// noAddressRemedy is the remedy where the network of a pod does not have the pod's address. The lab's emulator of HNS
// is such a case: a thread enters a compartment there for calls of iphlpapi alone.
const noAddressRemedy = "ask again: the pod's interface may not be there yet. See in the pod whether it has the " +
	"address, and delete the pod if it has not. In a lab, the emulated compartments of Windows pods have no sockets " +
	"of their own: send the probe from a pod of a Linux node there"

// prober has agents send what a trace was asked about.
type prober struct {
	client kubernetes.Interface
	agents agentDialer
	limits *limits
}

// demandLive refuses a user that may not have a pod of a namespace send something, and takes a place among those who
// may.
func (h *handler) demandLive(ctx context.Context, who user.Info, namespace string) (release func(), err error) {
	allowed, err := h.may(ctx, who, right{verb: "create", resource: api.TraceResource, subresource: api.LiveSubresource,
		namespace: namespace})
	switch {
	case err != nil:
		return nil, err
	case !allowed:
		return nil, refusal(who, "create", api.TraceResource+"/"+api.LiveSubresource, "", api.LiveRole,
			" in namespace "+namespace, "a RoleBinding in it")
	}
	return h.prober.limits.enter(who.GetName())
}

// send has the pod's node send what the trace has planned, and compares. A probe that cannot be sent leaves the trace
// as it is.
func (p *prober) send(ctx context.Context, who user.Info, source api.TraceEnd, status *api.TraceStatus) {
	probe := status.Probe
	said, err := p.ask(ctx, who, source, probe)
	if err != nil {
		probe.Comparison, probe.Reason = api.ProbeUnknown, "it was not sent: "+err.Error()
		if said.NoAddress {
			probe.Remedy = noAddressRemedy
		}
		return
	}
	probe.Result, probe.After = said.Result, metav1.Duration{Duration: said.After}
	trace.Compare(status)
}

// ask gives an error if nothing was sent.
func (p *prober) ask(ctx context.Context, who user.Info, source api.TraceEnd, probe *api.TraceProbe) (
	said contract.ProbeReply, err error) {
	pod, err := podNamed(ctx, p.client, source.Namespace, source.Name)
	if err == nil {
		err = hasOwnNetwork(pod)
	}
	if err != nil {
		return said, err
	}
	request := contract.ProbeRequest{Pod: *referenceOf(pod), User: who.GetName(), Protocol: probe.Protocol}
	if request.Source, err = netip.ParseAddr(probe.Source); err != nil {
		return said, err
	}
	if request.Destination, err = netip.ParseAddrPort(probe.Destination); err != nil {
		return said, err
	}
	if err := contract.CheckProbe(request); err != nil {
		return said, err
	}
	conn, err := p.agents.open(ctx, pod.Spec.NodeName)
	if err != nil {
		return said, err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	said, err = exchange[contract.ProbeReply](conn, request)
	if err == nil {
		err = refusedByAgent(said.Error)
	}
	if err == nil && !contract.KnownProbeResult(said.Result) {
		err = fmt.Errorf("its agent answers with %.50q, which is no result of a probe; it is of another version",
			said.Result)
	}
	if err != nil {
		return said, fmt.Errorf("node %s: %w", pod.Spec.NodeName, err)
	}
	return said, nil
}
