package attach

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	libovsdb "github.com/ovn-kubernetes/libovsdb/ovsdb"

	"github.com/weftnet/weft/cni"
	"github.com/weftnet/weft/models/signal"
	"github.com/weftnet/weft/models/vswitch"
	"github.com/weftnet/weft/node/openvswitch"
	"github.com/weftnet/weft/node/platform"
	"github.com/weftnet/weft/node/pods"
)

// On Windows a pod's device comes with its sandbox's first container, after ADD has returned. Open
// vSwitch makes an adapter of its own for a port of type "internal" whose device is missing, so
// ADD leaves the type empty, and here it is set when the device is there and taken back when it has
// gone. What is to be done stands in the interface's row: an agent that starts goes on.

const (
	arrivalPoll  = 100 * time.Millisecond
	reportedPoll = 2 * time.Second // of a device whose pod has been told
	// checkPeriod is for changes that nobody has told of.
	checkPeriod = 30 * time.Second
	// finishTime bounds one step for one device.
	finishTime = 15 * time.Second
	// recreateRest is the pause between attempts to make an endpoint whose device does not come.
	recreateRest = 5 * time.Second
)

// pendingPorts is what the agent remembers of devices that it waits for.
type pendingPorts struct {
	wanted signal.Signal // devices may have come or gone

	mu      sync.Mutex
	waiting map[string]*pendingPort // by device
}

// pendingPort is one device between ADD and its flows.
type pendingPort struct {
	since    time.Time
	made     time.Time // when its endpoint was last made or found
	problem  error     // the last one
	stepped  time.Time // when its last step began
	waited   bool      // a step has left something to do
	reported bool
	busy     bool
}

func newPendingPorts() *pendingPorts {
	return &pendingPorts{wanted: signal.New(), waiting: map[string]*pendingPort{}}
}

// enter returns a device's arrival unless a step for it is under way.
func (w *pendingPorts) enter(device string) *pendingPort {
	w.mu.Lock()
	defer w.mu.Unlock()
	one := w.waiting[device]
	if one == nil {
		one = &pendingPort{since: time.Now()}
		w.waiting[device] = one
	}
	if one.busy {
		return nil
	}
	one.busy, one.stepped = true, time.Now()
	return one
}

// await notes that ADD has made a device's endpoint.
func (w *pendingPorts) await(device string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if one := w.waiting[device]; one == nil || !one.busy {
		w.waiting[device] = &pendingPort{since: time.Now(), made: time.Now()}
	}
	w.wanted.Set()
}

// due says whether a device that is waited for is to be looked at: one whose pod has been told is not
// worth every poll.
func (w *pendingPorts) due(device string) (waiting, due bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	one := w.waiting[device]
	if one == nil || one.busy {
		return one != nil, false
	}
	return true, !one.reported || time.Since(one.stepped) > reportedPoll
}

func (w *pendingPorts) leave(device string, finished bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if one := w.waiting[device]; one != nil {
		one.busy = false
		if finished {
			delete(w.waiting, device)
		}
	}
}

// keepOnly forgets devices that are no ports any more.
func (w *pendingPorts) keepOnly(ports map[string]bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for device, one := range w.waiting {
		if !ports[device] && !one.busy {
			delete(w.waiting, device)
		}
	}
}

func (w *pendingPorts) count() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.waiting)
}

// ReconcilePending attends to late devices until ctx ends: to those it waits for at each poll, to the
// others whenever devices of the host may have changed.
func (a *Attacher) ReconcilePending(ctx context.Context) error {
	if a.platform.PortType() == "" {
		return nil
	}
	var steps sync.WaitGroup
	defer steps.Wait()
	check := time.NewTicker(checkPeriod)
	defer check.Stop()
	all := true
	for ctx.Err() == nil {
		changed := a.ovs.Changed()
		for _, device := range a.unfinishedPorts(all) {
			if one := a.pending.enter(device.Name); one != nil {
				steps.Go(func() { a.advance(ctx, device, one) })
			}
		}
		all = false
		var poll <-chan time.Time
		if a.pending.count() > 0 {
			poll = time.After(arrivalPoll)
		}
		select {
		case <-poll:
		case <-changed:
			select {
			case <-time.After(arrivalPoll / 4): // many pods at once change it many times
			case <-ctx.Done():
			}
		case <-a.pending.wanted:
			all = true
		case <-check.C:
			all = true
		case <-ctx.Done():
		}
	}
	return nil
}

// unfinishedPorts lists the ports that need something, or all of them.
func (a *Attacher) unfinishedPorts(all bool) []*vswitch.Interface {
	if !a.ovs.Connected() {
		return nil
	}
	ports := map[string]bool{}
	var list []*vswitch.Interface
	for _, device := range a.ovs.Attached() {
		ports[device.Name] = true
		waiting, due := a.pending.due(device.Name)
		if all || due || !waiting && !a.finished(device) {
			list = append(list, device)
		}
	}
	a.pending.keepOnly(ports)
	return list
}

func (a *Attacher) arrived(device *vswitch.Interface) bool {
	return device.Type == a.platform.PortType() && device.ExternalIDs[openvswitch.AttachedKey] == "true"
}

func (a *Attacher) finished(device *vswitch.Interface) bool {
	return a.arrived(device) && device.ExternalIDs[openvswitch.InstalledKey] == "true"
}

// advance does for one port, seen as it was, what can be done now, and tells the pod when that has not been enough for
// long.
func (a *Attacher) advance(ctx context.Context, seen *vswitch.Interface, one *pendingPort) {
	name := seen.Name
	attachment, _ := openvswitch.AttachmentOf(seen)
	finished := false
	defer func() { a.pending.leave(name, finished) }()
	unlock, _ := a.sandboxes.try(name)
	if unlock == nil {
		return // an ADD or a DEL is at work
	}
	defer unlock()
	ctx, cancel := context.WithTimeout(ctx, finishTime)
	defer cancel()
	device, attached := a.ovs.AttachedDevice(attachment)
	if !attached {
		return
	}
	endpoint, err := a.endpointOf(device)
	if errors.Is(err, pods.ErrGone) {
		return // its DEL is on the way, or the sweep finds it
	}
	if err == nil {
		finished, err = a.finish(ctx, one, endpoint, device)
	}
	one.problem, one.waited = err, one.waited || !finished
	switch pod := openvswitch.PodOf(device.ExternalIDs); {
	case finished && !one.waited: // nothing was wrong with it
	case finished:
		a.metrics.pendingTime.Observe(time.Since(one.since).Seconds())
		if one.reported {
			a.report(pod, networkAttached,
				fmt.Sprintf("device %s is attached after %v", name, time.Since(one.since).Round(time.Second)))
		}
	case time.Since(one.since) >= a.config.VNICTimeout && !one.reported && !a.pods.Leaving(pod):
		one.reported = true
		a.metrics.overdue.Inc()
		a.report(pod, networkNotAttached, a.whyPending(ctx, name, attachment, one))
	}
}

// whyPending says what is missing, and what to do about it.
func (a *Attacher) whyPending(
	ctx context.Context, name string, attachment cni.Attachment, one *pendingPort,
) string {
	took := time.Since(one.since).Round(time.Second)
	device, _ := a.ovs.AttachedDevice(attachment)
	switch {
	case one.problem != nil:
		return fmt.Sprintf("device %s is not attached after %v: %v", name, took, one.problem)
	case device != nil && a.arrived(device):
		err := a.explain(ctx, attachment, fmt.Errorf("%s: %w", openvswitch.MissingFlows(device), context.DeadlineExceeded))
		return fmt.Sprintf("device %s has no flows after %v: %v", name, took, err)
	}
	return fmt.Sprintf("device %s has not appeared after %v although the sandbox has its endpoint: see whether the "+
		"pod's containers start, and the node's HNS and Hyper-V switch events; if they run, delete the pod", name, took)
}

// finish brings a port and its device together. The attachment is locked.
func (a *Attacher) finish(
	ctx context.Context, one *pendingPort, e platform.Endpoint, device *vswitch.Interface,
) (bool, error) {
	here, err := a.platform.EndpointArrived(ctx, e)
	if err != nil {
		return false, err
	}
	if here {
		if a.finished(device) {
			return true, nil
		}
		if a.arrived(device) {
			return false, nil // ovn-controller's turn
		}
		return false, a.complete(ctx, e, device)
	}
	pod := openvswitch.PodOf(device.ExternalIDs)
	ends := a.pods.Leaving(pod) // then its device goes before its DEL comes
	if operations := openvswitch.Leaving(device); len(operations) > 0 {
		if !ends {
			slog.WarnContext(ctx, "a pod's device has gone", "device", device.Name, objectOf(pod))
			a.metrics.vanished.Inc()
		}
		if err := a.ovs.Apply(ctx, operations); err != nil {
			return false, err
		}
	}
	if ends {
		return false, nil
	}
	if time.Since(one.made) < recreateRest {
		return false, one.problem
	}
	one.made = time.Now()
	if exists, err := a.platform.SandboxExists(e.Sandbox); err != nil || !exists {
		return false, err // without one the sweep removes the port
	}
	return false, a.platform.CreateEndpoint(ctx, e)
}

// complete makes the port of a device that is there, or finds it made.
func (a *Attacher) complete(ctx context.Context, e platform.Endpoint, device *vswitch.Interface) error {
	if kind := a.platform.PortType(); device.Type != kind {
		if err := a.ovs.Apply(ctx, []libovsdb.Operation{openvswitch.UpdateRow(vswitch.InterfaceTable, device.UUID,
			libovsdb.Row{"type": kind})}); err != nil {
			return fmt.Errorf("set the type of device %s: %w", device.Name, err)
		}
	}
	if err := a.platform.ConfigureEndpoint(ctx, e); err != nil {
		return err
	}
	mutations := openvswitch.SetKeys("external_ids", device.ExternalIDs,
		map[string]string{openvswitch.AttachedKey: "true"})
	if len(mutations) == 0 {
		return nil
	}
	if err := a.ovs.Apply(ctx, []libovsdb.Operation{openvswitch.MutateRow(vswitch.InterfaceTable, device.UUID,
		mutations...)}); err != nil {
		return fmt.Errorf("note that device %s is attached: %w", device.Name, err)
	}
	return nil
}

// endpointOf is the endpoint of a port, as the record, the port and the pod's annotation have it.
func (a *Attacher) endpointOf(device *vswitch.Interface) (platform.Endpoint, error) {
	attachment, _ := openvswitch.AttachmentOf(device)
	one, err := a.records.read(device.Name)
	if err != nil { // lost: what the port knows is enough except for DNS
		one = record{Attachment: attachment, Pod: openvswitch.PodOf(device.ExternalIDs),
			Sandbox: device.ExternalIDs[openvswitch.NetnsKey], Network: device.ExternalIDs[openvswitch.NetworkKey]}
	}
	network, err := a.pods.LookUp(one.Pod, a.podSubnets())
	if err != nil {
		return platform.Endpoint{}, err
	}
	return one.endpoint(network, a.mtu()), nil
}
