package attach

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"time"

	"github.com/containernetworking/cni/pkg/types"
	types100 "github.com/containernetworking/cni/pkg/types/100"

	"github.com/weftnet/weft/cni"
	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/models/vswitch"
	"github.com/weftnet/weft/node/health"
	"github.com/weftnet/weft/node/nodeconfig"
	"github.com/weftnet/weft/node/openvswitch"
	"github.com/weftnet/weft/node/platform"
	"github.com/weftnet/weft/node/pods"
)

// cleanupTime bounds the removal of what a failed ADD made, and a DEL.
const cleanupTime = 20 * time.Second

// Add attaches a sandbox to its pod's logical port. It returns success only when traffic flows, and
// when the pod still has the addresses that it began with: a controller that is gone may have decided
// otherwise than the one that follows. After a failure nothing is left that was not there before.
func (a *Attacher) Add(ctx context.Context, call *cni.Call) (*types100.Result, error) {
	ctx, cancel := context.WithTimeout(ctx, a.config.CNITimeout)
	defer cancel()
	wanted := recordOf(call)
	unlock, err := a.sandboxes.lock(ctx, wanted.device())
	if err != nil {
		return nil, cni.TryAgain("another call works on sandbox "+call.Attachment.String(), err.Error())
	}
	defer unlock()
	if err := a.health.Problems().Blocking(); err != nil {
		return nil, cni.TryAgain("node "+a.config.NodeName+" is not ready for pods", err.Error())
	}
	mtu := a.mtu()
	if mtu == 0 {
		return nil, cni.TryAgain("node "+a.config.NodeName+" is not ready for pods", "the MTU of the uplink is not known yet")
	}
	observe := a.metrics.phase(phaseAddress)
	network, err := a.pods.Wait(ctx, call.Pod, a.podSubnets)
	if errors.Is(err, pods.ErrHostsNetwork) {
		return nil, types.NewError(types.ErrInvalidNetworkConfig, "pod "+call.Pod.String()+" is not weft's to attach",
			err.Error())
	}
	if err != nil {
		return nil, cni.TryAgain("pod "+call.Pod.String()+" has no address", err.Error())
	}
	observe()
	endpoint := wanted.endpoint(network, mtu)
	_, existed := a.ovs.AttachedDevice(call.Attachment)
	if err := a.records.write(wanted); err != nil { // a pod without one fares well until the database is lost
		slog.WarnContext(ctx, "cannot keep a record of the attachment", objectOf(call.Pod), "error", err)
	}
	err = a.attach(ctx, endpoint, externalIDs(wanted, network), existed)
	if err == nil {
		err = a.pods.Verify(call.Pod, network, a.podSubnets())
	}
	if err != nil {
		if !existed || errors.Is(err, pods.ErrReaddressed) {
			err = errors.Join(err, a.detach(context.WithoutCancel(ctx), call.Attachment))
		}
		return nil, asCNIError(call.Pod, err)
	}
	return result(endpoint, call.Config.DNS), nil
}

// attach makes the device, plugs it, and configures its sandbox while ovn-controller works. again says
// that an earlier call has plugged it.
func (a *Attacher) attach(ctx context.Context, e platform.Endpoint, ids map[string]string, again bool) error {
	observe := a.metrics.phase(phaseDevice)
	if err := a.platform.CreateEndpoint(ctx, e); err != nil {
		return err
	}
	observe()
	observe = a.metrics.phase(phasePlug)
	if err := a.ovs.Plug(ctx, e, ids); err != nil {
		return fmt.Errorf("plug device %s into %s: %w", e.Device, nodeconfig.IntegrationBridge, err)
	}
	observe()
	observe = a.metrics.phase(phaseConfigure)
	flows := a.metrics.phase(phaseFlows)
	if later, err := a.configure(ctx, e, again); err != nil || later {
		return err
	}
	observe()
	if err := a.ovs.AwaitFlows(ctx, e.Attachment); err != nil {
		return a.explain(ctx, e.Attachment, err)
	}
	flows()
	return nil
}

// configure finishes the endpoint whose device is there. Where that comes after ADD has returned, the
// rest is ReconcilePending' work; a sandbox's first call is not worth a look, which lists all adapters.
func (a *Attacher) configure(ctx context.Context, e platform.Endpoint, again bool) (later bool, err error) {
	if a.platform.PortType() == "" {
		return false, a.platform.ConfigureEndpoint(ctx, e)
	}
	here := false
	if again {
		if here, err = a.platform.EndpointArrived(ctx, e); err != nil {
			return false, err
		}
	}
	if !here {
		a.pending.await(e.Device)
		return true, nil
	}
	var device *vswitch.Interface
	if err := a.ovs.WaitFor(ctx, func() (attached bool) { // the replica may be behind
		device, attached = a.ovs.AttachedDevice(e.Attachment)
		return attached
	}); err != nil {
		return false, err
	}
	return false, a.complete(ctx, e, device)
}

// externalIDs are what the attachment's interface tells OVN, other people, and the agent later.
func externalIDs(r record, network *pods.Network) map[string]string {
	return map[string]string{
		"iface-id":             contract.PodPort(r.Pod.Namespace, r.Pod.Name),
		"iface-id-ver":         network.UID,
		openvswitch.MACKey:     network.MAC.String(),
		openvswitch.SandboxKey: r.Attachment.ContainerID,
		openvswitch.NetnsKey:   r.Sandbox,
		openvswitch.NetworkKey: r.Network,
	}
}

// detach removes an attachment; it is nil when there is nothing of it. The record goes first, so
// that nobody plugs in again what is being removed.
func (a *Attacher) detach(ctx context.Context, attachment cni.Attachment) error {
	ctx, cancel := context.WithTimeout(ctx, cleanupTime)
	defer cancel()
	device := cni.HostInterface(attachment)
	if err := a.records.remove(device); err != nil {
		return err
	}
	if err := a.ovs.Unplug(ctx, attachment); err != nil {
		return fmt.Errorf("unplug device %s: %w", device, err)
	}
	return a.platform.DeleteEndpoint(ctx, device)
}

// asCNIError gives an error of attach its code: what time may heal is to be tried again.
func asCNIError(pod cni.Pod, err error) error {
	switch {
	case errors.Is(err, platform.ErrNoSandbox):
		return types.NewError(types.ErrInvalidNetNS, "CNI_NETNS of pod "+pod.String()+" does not exist", err.Error())
	case errors.Is(err, pods.ErrReaddressed):
		return cni.TryAgain("pod "+pod.String()+" has another address by now", err.Error())
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled),
		errors.Is(err, openvswitch.ErrUnplugged):
		return cni.TryAgain("pod "+pod.String()+" could not be attached in time", err.Error())
	}
	return types.NewError(types.ErrInternal, "attach pod "+pod.String()+": "+err.Error(), "")
}

func result(e platform.Endpoint, dns types.DNS) *types100.Result {
	inSandbox := 1
	r := &types100.Result{
		CNIVersion: types100.ImplementedSpecVersion,
		Interfaces: []*types100.Interface{
			{Name: e.Device},
			{Name: e.Attachment.IfName, Mac: e.MAC.String(), Mtu: e.MTU, Sandbox: e.Sandbox},
		},
		DNS: dns,
	}
	for _, address := range e.Addresses {
		ip := &types100.IPConfig{Interface: &inSandbox, Address: ipNet(address)}
		for _, gateway := range e.Gateways {
			if gateway.Is4() == address.Addr().Is4() {
				ip.Gateway = gateway.AsSlice()
			}
		}
		r.IPs = append(r.IPs, ip)
	}
	for _, gateway := range e.Gateways {
		everywhere := netip.IPv6Unspecified()
		if gateway.Is4() {
			everywhere = netip.IPv4Unspecified()
		}
		r.Routes = append(r.Routes, &types.Route{Dst: ipNet(netip.PrefixFrom(everywhere, 0)), GW: gateway.AsSlice()})
	}
	return r
}

func ipNet(p netip.Prefix) net.IPNet {
	return net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}

// Del detaches a sandbox. It needs neither the pod nor the sandbox to exist still.
func (a *Attacher) Del(ctx context.Context, call *cni.Call) error {
	ctx, cancel := context.WithTimeout(ctx, a.config.CNITimeout)
	defer cancel()
	unlock, err := a.sandboxes.lock(ctx, cni.HostInterface(call.Attachment))
	if err != nil {
		return cni.TryAgain("another call works on sandbox "+call.Attachment.String(), err.Error())
	}
	defer unlock()
	if err := a.detach(ctx, call.Attachment); err != nil {
		return cni.TryAgain("sandbox "+call.Attachment.String()+" is not detached yet", err.Error())
	}
	return nil
}

// Check compares what ADD returned with what is there.
func (a *Attacher) Check(ctx context.Context, call *cni.Call) error {
	endpoint, err := previousEndpoint(call)
	if err != nil {
		return err
	}
	if err := a.platform.CheckEndpoint(ctx, endpoint); err != nil {
		return types.NewError(types.ErrInternal, "pod "+call.Pod.String()+": "+err.Error(), "")
	}
	device, attached := a.ovs.AttachedDevice(call.Attachment)
	if !attached {
		return types.NewError(types.ErrInternal,
			fmt.Sprintf("pod %s: device %s is not a port of %s", call.Pod, endpoint.Device, nodeconfig.IntegrationBridge), "")
	}
	if port := contract.PodPort(call.Pod.Namespace, call.Pod.Name); device.ExternalIDs["iface-id"] != port {
		return types.NewError(types.ErrInternal,
			fmt.Sprintf("pod %s: device %s has logical port %q instead of %q", call.Pod, device.Name,
				device.ExternalIDs["iface-id"], port), "")
	}
	if device.ExternalIDs[openvswitch.InstalledKey] != "true" {
		return types.NewError(types.ErrInternal,
			fmt.Sprintf("pod %s: OVN has no flows for device %s (%s)", call.Pod, device.Name,
				openvswitch.DeviceProblem(device)), "")
	}
	return nil
}

// previousEndpoint is the endpoint that an ADD returned.
func previousEndpoint(call *cni.Call) (platform.Endpoint, error) {
	invalid := func(what string) error {
		return types.NewError(types.ErrInvalidNetworkConfig, `"prevResult": `+what, "")
	}
	e := platform.Endpoint{Attachment: call.Attachment, Device: cni.HostInterface(call.Attachment), Sandbox: call.Netns,
		Label: call.Pod.String()}
	for _, i := range call.Config.Previous.Interfaces {
		if i.Sandbox == "" || i.Name != call.Attachment.IfName {
			continue
		}
		mac, err := net.ParseMAC(i.Mac)
		if err != nil {
			return e, invalid(fmt.Sprintf("interface %s has mac %q", i.Name, i.Mac))
		}
		e.MAC = mac
	}
	if e.MAC == nil {
		return e, invalid("no interface " + call.Attachment.IfName + " in a sandbox")
	}
	for _, ip := range call.Config.Previous.IPs {
		address, ok := netip.AddrFromSlice(ip.Address.IP)
		ones, bits := ip.Address.Mask.Size()
		if !ok || bits == 0 {
			return e, invalid(fmt.Sprintf("%v is not an address", ip.Address))
		}
		e.Addresses = append(e.Addresses, netip.PrefixFrom(address.Unmap(), ones))
		if gateway, ok := netip.AddrFromSlice(ip.Gateway); ok {
			e.Gateways = append(e.Gateways, gateway.Unmap())
		}
	}
	return e, nil
}

// Status says whether a pod that an ADD attaches now would work.
func (a *Attacher) Status(context.Context) error {
	problems := a.health.Lasting()
	err := problems.All()
	if err == nil {
		return nil
	}
	code := cni.ErrNotAvailable
	if problems[health.Database] != nil { // nobody can say how attached pods fare
		code = cni.ErrLimitedConnectivity
	}
	return types.NewError(code, "node "+a.config.NodeName+" is not ready for new pods", err.Error())
}
