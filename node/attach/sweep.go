package attach

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/weftnet/weft/cni"
	"github.com/weftnet/weft/models/vswitch"
	"github.com/weftnet/weft/node/openvswitch"
)

// Reasons of removing an attachment that nobody asked to delete, as the metric names them.
const (
	sweptByGC      = "gc"
	sweptNoSandbox = "sandbox gone"
	sweptPortless  = "no port"
)

const (
	sweepPeriod = time.Minute
	// plugTime bounds plugging in again; a server that does not answer is asked by the next sweep.
	plugTime = 5 * time.Second
)

// portlessTime is how long a device may be without a port: far longer than any ADD takes.
const portlessTime = 10 * time.Minute

// GC removes the attachments of a network but the valid ones. Attachments of other networks are
// another list's, which this call does not have.
//
// One that was added after the runtime made its list would be taken for stale. The specification
// rules that out ("The runtime must exclusively execute either gc or add and delete", CNI 1.1.0,
// Lifecycle & Ordering), so an attachment's age does not count here: one whose sandbox the
// runtime has just given up is as stale as an old one. A call under way is left alone all the same.
func (a *Attacher) GC(ctx context.Context, network string, valid map[cni.Attachment]bool) error {
	var problems []error
	for _, device := range a.ovs.Attached() {
		attachment, _ := openvswitch.AttachmentOf(device)
		if device.ExternalIDs[openvswitch.NetworkKey] == network && !valid[attachment] {
			problems = append(problems, a.collect(ctx, attachment, sweptByGC))
		}
	}
	records, err := a.records.list() // of devices that an ADD left without a port
	problems = append(problems, err)
	for _, one := range records {
		if one.Network == network && !valid[one.Attachment] && a.ovs.Port(one.device()) == nil {
			problems = append(problems, a.collect(ctx, one.Attachment, sweptByGC))
		}
	}
	if err := errors.Join(problems...); err != nil {
		return cni.TryAgain("not all stale attachments could be removed", err.Error())
	}
	return nil
}

// collect removes an attachment that nobody will ask to delete, unless a call works on it.
func (a *Attacher) collect(ctx context.Context, attachment cni.Attachment, reason string) error {
	unlock, err := a.sandboxes.lockIdle(ctx, cni.HostInterface(attachment))
	if unlock == nil {
		return err
	}
	defer unlock()
	if err := a.detach(ctx, attachment); err != nil {
		return err
	}
	a.metrics.swept.WithLabelValues(reason).Inc()
	slog.InfoContext(ctx, "removed a stale attachment", "container", attachment.ContainerID, "interface",
		attachment.IfName, "reason", reason)
	return nil
}

// SweepSoon asks for a sweep before its time.
func (a *Attacher) SweepSoon() { a.untidy.Set() }

func (a *Attacher) SweepPeriodically(ctx context.Context) error {
	tick := time.NewTicker(sweepPeriod)
	defer tick.Stop()
	for {
		a.rounds.Do("sweep", func() {
			if err := errors.Join(a.sweep(ctx), a.results.sweep(ctx)); err != nil {
				slog.ErrorContext(ctx, "sweep stale attachments", "error", err)
			}
		})
		select {
		case <-a.untidy:
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// sweep makes devices and ports of pods agree, whether or not a runtime ever calls GC: ports whose
// sandbox is gone go (after a reboot nobody asks to delete them), devices that have lost their port
// get it back, and devices that are nobody's go.
func (a *Attacher) sweep(ctx context.Context) error {
	if !a.ovs.Connected() {
		return nil // what is known of the ports may be out of date; a new connection calls again
	}
	var problems []error
	for _, device := range a.ovs.Attached() {
		attachment, _ := openvswitch.AttachmentOf(device)
		exists, err := a.platform.SandboxExists(device.ExternalIDs[openvswitch.NetnsKey])
		switch {
		case err != nil:
			problems = append(problems, err)
		case exists:
			problems = append(problems, a.keepRecord(ctx, device))
		default:
			problems = append(problems, a.collect(ctx, attachment, sweptNoSandbox))
		}
	}
	return errors.Join(append(problems, a.sweepPortless(ctx))...)
}

// keepRecord writes the record of a running pod that has none any more.
func (a *Attacher) keepRecord(ctx context.Context, device *vswitch.Interface) error {
	unlock, err := a.sandboxes.lockIdle(ctx, device.Name)
	if unlock == nil {
		return err
	}
	defer unlock()
	attachment, _ := openvswitch.AttachmentOf(device)
	_, err = a.records.read(device.Name)
	_, attached := a.ovs.AttachedDevice(attachment)
	if err == nil || !attached {
		return nil
	}
	ids := device.ExternalIDs
	return a.records.write(record{Attachment: attachment, Pod: openvswitch.PodOf(ids),
		Sandbox: ids[openvswitch.NetnsKey], Network: ids[openvswitch.NetworkKey]})
}

func (a *Attacher) sweepPortless(ctx context.Context) error {
	devices, err := a.platform.Endpoints()
	if err != nil {
		return err
	}
	records, err := a.records.list()
	if err != nil {
		return err
	}
	a.notePortless(ctx, devices, records)
	var problems []error
	for _, one := range records {
		if a.portless[one.device()].IsZero() {
			if a.ovs.Port(one.device()) == nil {
				problems = append(problems, a.collectRecord(ctx, one))
			}
			continue
		}
		exists, err := a.platform.SandboxExists(one.Sandbox)
		switch {
		case err != nil:
			problems = append(problems, err)
		case !exists:
			problems = append(problems, a.collect(ctx, one.Attachment, sweptNoSandbox))
			delete(a.portless, one.device())
		case a.rescue(ctx, one):
			delete(a.portless, one.device())
		}
	}
	for device, since := range a.portless {
		if time.Since(since) >= a.portlessTime {
			problems = append(problems, a.collectDevice(ctx, device))
		}
	}
	return errors.Join(problems...)
}

// notePortless keeps since when each device without a port has had none.
func (a *Attacher) notePortless(ctx context.Context, devices []string, records []record) {
	recorded := map[string]bool{}
	for _, one := range records {
		recorded[one.device()] = true
	}
	since := map[string]time.Time{}
	for _, device := range devices {
		if a.ovs.Port(device) != nil {
			continue
		}
		since[device] = a.portless[device]
		if !since[device].IsZero() {
			continue
		}
		since[device] = time.Now()
		if !recorded[device] {
			slog.WarnContext(ctx, "a device has neither port nor record; its pod (on Linux the alias that `ip link` shows), "+
				"if it still runs, has to be deleted", "device", device)
		}
	}
	a.portless = since
}

// rescue plugs a device in again whose port is gone while its pod runs: the database was lost, or
// somebody removed the port. It is left out while a call works on it, and where the pod has a newer
// sandbox. The agent's own work on it is waited for: that may have found no port, and gives none. A device that
// cannot be rescued stays until it is old: the reason may pass, and a database may come back from a backup.
func (a *Attacher) rescue(ctx context.Context, one record) (rescued bool) {
	unlock, err := a.sandboxes.lockIdle(ctx, one.device())
	if err == nil && unlock == nil {
		return true // the call sees to it
	}
	if err == nil {
		defer unlock()
		if a.ovs.Port(one.device()) != nil {
			return true // a call has seen to it meanwhile
		}
		err = a.plugAgain(ctx, one)
	}
	if err != nil {
		slog.WarnContext(ctx, "a device has no port and does not get it back", "device", one.device(),
			objectOf(one.Pod), "reason", err)
		return false
	}
	slog.WarnContext(ctx, "plugged in a device again whose port was gone", "device", one.device(),
		objectOf(one.Pod))
	return true
}

func (a *Attacher) plugAgain(ctx context.Context, one record) error {
	ctx, cancel := context.WithTimeout(ctx, plugTime)
	defer cancel()
	if err := a.health.Problems().Blocking(); err != nil {
		return err
	}
	network, err := a.pods.LookUp(one.Pod, a.podSubnets())
	if err != nil {
		return err
	}
	ids := externalIDs(one, network)
	if other := a.ovs.HolderOf(ids["iface-id"]); other != nil {
		return fmt.Errorf("device %s has its logical port %s", other.Name, ids["iface-id"])
	}
	e := one.endpoint(network, a.mtu())
	if a.platform.PortType() == "" {
		err = a.platform.CheckEndpoint(ctx, e)
	} else { // its device may not have come yet
		err = a.platform.CreateEndpoint(ctx, e)
	}
	if err != nil {
		return err
	}
	return a.ovs.Plug(ctx, e, ids)
}

// collectRecord removes the record of a device that is gone. It looks again, since an ADD may have ended meanwhile:
// without its record the pod's device is not plugged in again when the database is lost.
func (a *Attacher) collectRecord(ctx context.Context, one record) error {
	unlock, err := a.sandboxes.lockIdle(ctx, one.device())
	if unlock == nil {
		return err
	}
	defer unlock()
	if a.ovs.Port(one.device()) != nil {
		return nil
	}
	return a.records.remove(one.device())
}

// collectDevice removes a device that has had no port for long. It looks again, since an ADD may
// have been at work meanwhile. The agent's own work is waited for: it gives no port, and a device
// must not stay for ever because each sweep finds it at work.
func (a *Attacher) collectDevice(ctx context.Context, device string) error {
	unlock, err := a.sandboxes.lockIdle(ctx, device)
	if err != nil {
		return err
	}
	if unlock == nil {
		delete(a.portless, device) // its time begins again
		return nil
	}
	defer unlock()
	if a.ovs.Port(device) != nil {
		return nil
	}
	if err := errors.Join(a.records.remove(device), a.platform.DeleteEndpoint(ctx, device)); err != nil {
		return err
	}
	a.metrics.swept.WithLabelValues(sweptPortless).Inc()
	slog.InfoContext(ctx, "removed a device that had no port", "device", device)
	return nil
}
