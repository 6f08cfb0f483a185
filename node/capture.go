package node

import (
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/weftnet/weft/cni"
	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/node/capture"
	"github.com/weftnet/weft/node/nodeconfig"
	"github.com/weftnet/weft/node/openvswitch"
)

// captured finds what a request may capture on this node.
type captured struct {
	config nodeconfig.Config
	ovs    *openvswitch.Database
}

// find goes by what the agent knows itself: a caller names a pod, and never a device.
func (c captured) find(request contract.CaptureRequest) (capture.Device, error) {
	if c.config.Capture == nodeconfig.CaptureOff {
		return capture.Device{}, fmt.Errorf("captures are off on node %s: an administrator sets the key capture of its "+
			"weft node to %q, or to %q", c.config.NodeName, nodeconfig.CapturePods, nodeconfig.CaptureAll)
	}
	if request.Pod != nil {
		return c.pod(cni.Pod(*request.Pod))
	}
	if c.config.Capture != nodeconfig.CaptureAll {
		return capture.Device{}, fmt.Errorf("only pods are captured on node %s: an administrator sets the key capture of "+
			"its weft node to %q", c.config.NodeName, nodeconfig.CaptureAll)
	}
	return c.tunnels()
}

// pod is the host's end of a pod's interface, as the node's database has it for exactly this pod.
func (c captured) pod(pod cni.Pod) (capture.Device, error) {
	device := c.ovs.InterfaceOf(pod)
	if device == nil || !cni.IsHostInterface(device.Name) {
		return capture.Device{}, notAttached(pod, c.config.NodeName)
	}
	mac, err := openvswitch.MACOf(device)
	if err != nil {
		return capture.Device{}, fmt.Errorf("pod %v: interface %s in the database of node %s: %w; delete the pod to have it "+
			"attached anew", pod, device.Name, c.config.NodeName, err)
	}
	return capture.Device{Name: device.Name, MAC: [6]byte(mac),
		Comment: fmt.Sprintf("pod %v on node %s", pod, c.config.NodeName)}, nil
}

// notAttached says that a pod has no interface, to those who ask for its packets or for a probe.
func notAttached(pod cni.Pod, node string) error {
	return fmt.Errorf("pod %v of UID %s has no interface on node %s: it has gone, or is not attached yet; see its events",
		pod, pod.UID, node)
}

// tunnels are where GENEVE packets of the node pass. A datapath in userspace takes them off its bridge's port before
// the host's own interface sees them.
func (c captured) tunnels() (capture.Device, error) {
	host, err := interfaceOf(c.config.EncapAddress)
	if err != nil {
		return capture.Device{}, fmt.Errorf("find where the tunnels of node %s end: %w", c.config.NodeName, err)
	}
	device := host.Name
	if c.config.DatapathType == nodeconfig.DatapathNetdev && c.ovs.Bridge(device) != nil {
		if device = c.ovs.OnlyDevice(device); device == "" {
			return capture.Device{}, errors.New("the bridge that has encap-address leads outside by several devices, or by " +
				"none: which of them has the tunnels is not known")
		}
	}
	found := capture.Device{Name: device, Tunnels: true, Comment: "tunnels of node " + c.config.NodeName}
	copy(found.MAC[:], host.HardwareAddr)
	return found, nil
}

// interfaceOf is the host's interface that has an address.
func interfaceOf(address netip.Addr) (*net.Interface, error) {
	links, err := net.Interfaces()
	if err != nil {
		return nil, err
	}
	for _, link := range links {
		prefixes, err := link.Addrs()
		if err != nil {
			return nil, fmt.Errorf("read the addresses of %s: %w", link.Name, err)
		}
		for _, p := range prefixes {
			if network, ok := p.(*net.IPNet); ok && network.IP.Equal(address.AsSlice()) {
				return &link, nil
			}
		}
	}
	return nil, fmt.Errorf("no interface has encap-address %v", address)
}
