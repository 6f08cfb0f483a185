package node

import (
	"context"
	"io"
	"net/netip"

	"k8s.io/client-go/dynamic"

	"github.com/weftnet/weft/cni"
	"github.com/weftnet/weft/node/domains"
)

// answerWatcher is a [Platform] that can see what DNS servers on the node answer. Windows cannot: there the
// system shows no program the frames of a Hyper-V switch.
type answerWatcher interface {
	// OpenFrames captures the frames of a source.
	OpenFrames(domains.Source) (io.ReadCloser, error)
	// AnswerDevices are those by which the host itself sends answers from an address of its own; none if
	// the host does not have the address.
	AnswerDevices(netip.Addr) []string
}

// watchNames prepares to watch the node's DNS servers, where the platform can.
func (a *agent) watchNames(own dynamic.Interface) (err error) {
	system, can := a.platform.(answerWatcher)
	if !can || len(a.config.DNSServices) == 0 {
		return nil
	}
	a.domains, err = domains.New(domains.Config{
		Client: a.node.client, Own: own, Node: a.config.NodeName, Services: a.config.DNSServices, NodeUID: a.node.uid,
		PodDevice:   func(p domains.Pod) (string, bool) { return a.ovs.DeviceOf(cni.Pod(p)) },
		HostDevices: system.AnswerDevices, Open: system.OpenFrames,
	})
	if err == nil {
		a.registry.MustRegister(a.domains.Collectors()...)
	}
	return err
}

// watchServers has the watcher look again when pods have been attached.
func (a *agent) watchServers(ctx context.Context) error {
	for {
		changed := a.ovs.Changed()
		a.domains.Enqueue()
		select {
		case <-changed:
		case <-ctx.Done():
			return nil
		}
	}
}
