package openvswitch

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"

	libovsdb "github.com/ovn-kubernetes/libovsdb/ovsdb"

	"github.com/weftnet/weft/cni"
	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/models/vswitch"
	"github.com/weftnet/weft/node/nodeconfig"
	"github.com/weftnet/weft/node/platform"
	"github.com/weftnet/weft/ovsdb"
)

// An attached pod is a port of br-int whose interface's external_ids hold all that the agent must
// know of it later. There is no other state but the [record], for the day when this one is lost.
const (
	sandboxOwner = "Sandbox/" // and container ID / interface name
	SandboxKey   = "sandbox"  // the container ID, as other OVN CNIs name it
	InstalledKey = "ovn-installed"
	MACKey       = "attached_mac" // as Open vSwitch names it
	// NetnsKey is the key in external_ids of an Interface of a pod: the pod's sandbox. On Linux this is the path of a
	// network namespace, and on Windows the ID of a namespace of HNS.
	NetnsKey = "weft.net/ns"
	// NetworkKey is the key in external_ids of an Interface of a pod: the name in the network configuration of the ADD.
	NetworkKey = "weft.net/network"
)

// AttachedKey is the key in external_ids of an Interface of a pod: the agent has configured a device that came after
// the ADD, as on Windows.
const AttachedKey = "weft.net/attached"

func attachmentOwner(a cni.Attachment) ovsdb.Owner { return ovsdb.Owner(sandboxOwner + a.String()) }

// AttachmentOf reads back what attachmentOwner wrote.
func AttachmentOf(device *vswitch.Interface) (cni.Attachment, bool) {
	rest, ours := strings.CutPrefix(device.ExternalIDs[ovsdb.OwnerMark], sandboxOwner)
	id, name, whole := strings.Cut(rest, "/")
	return cni.Attachment{ContainerID: id, IfName: name}, ours && whole
}

// Attached lists the interfaces of pods.
func (o *Database) Attached() []*vswitch.Interface {
	return ovsdb.List(o.Client, func(i *vswitch.Interface) bool {
		_, ours := AttachmentOf(i)
		return ours
	})
}

func (o *Database) AttachedDevice(a cni.Attachment) (*vswitch.Interface, bool) {
	return ovsdb.Get[vswitch.Interface](o.Client, attachmentUUID(vswitch.InterfaceTable, a))
}

// HolderOf is the interface that has a logical port.
func (o *Database) HolderOf(logicalPort string) *vswitch.Interface {
	return first(ovsdb.List(o.Client, func(i *vswitch.Interface) bool { return i.ExternalIDs["iface-id"] == logicalPort }))
}

func attachmentUUID(table string, a cni.Attachment) string {
	return ovsdb.ID(table, attachmentOwner(a), cni.HostInterface(a))
}

// InterfaceOf is a pod's interface, nil if there is none. Its name is that of the host's end.
func (o *Database) InterfaceOf(pod cni.Pod) *vswitch.Interface {
	if pod.UID == "" {
		return nil
	}
	port := contract.PodPort(pod.Namespace, pod.Name)
	for _, i := range o.Attached() {
		if i.ExternalIDs["iface-id"] == port && i.ExternalIDs["iface-id-ver"] == pod.UID {
			return i
		}
	}
	return nil
}

// DeviceOf is the host's end of a pod's interface.
func (o *Database) DeviceOf(pod cni.Pod) (device string, attached bool) {
	if i := o.InterfaceOf(pod); i != nil {
		return i.Name, true
	}
	return "", false
}

// MACOf is the address that a pod has by its interface.
func MACOf(i *vswitch.Interface) (net.HardwareAddr, error) {
	return net.ParseMAC(i.ExternalIDs[MACKey])
}

// PodOf is the pod that an attachment's interface tells of. Its UID is the API's.
func PodOf(ids map[string]string) cni.Pod {
	namespace, name, _ := strings.Cut(ids["iface-id"], "_") // see contract.PodPort
	return cni.Pod{Namespace: namespace, Name: name, UID: ids["iface-id-ver"]}
}

// Leaving takes back that a port's device is there.
func Leaving(device *vswitch.Interface) []libovsdb.Operation {
	var operations []libovsdb.Operation
	if device.Type != "" {
		operations = append(operations, UpdateRow(vswitch.InterfaceTable, device.UUID, libovsdb.Row{"type": ""}))
	}
	if mutations := SetKeys("external_ids", device.ExternalIDs, map[string]string{AttachedKey: ""}); len(mutations) > 0 {
		operations = append(operations, MutateRow(vswitch.InterfaceTable, device.UUID, mutations...))
	}
	return operations
}

// Plug makes the endpoint's device a port of br-int, and takes the logical port from any other
// sandbox that still has it: OVN binds it to one interface, and the latest sandbox is the pod's.
func (o *Database) Plug(ctx context.Context, e platform.Endpoint, externalIDs map[string]string) error {
	for {
		changed := o.Changed()
		operations, err := o.plugging(e, externalIDs)
		if err == nil {
			err = o.Apply(ctx, operations)
		}
		var refused *ovsdb.OperationError
		switch {
		case err == nil:
			return nil
		case errors.Is(err, ovsdb.ErrDisconnected) && ctx.Err() == nil:
			continue // it may have been done: the next look tells
		case errors.As(err, &refused) && refused.Kind == "constraint violation":
		case errors.Is(err, errNoBridge):
		default:
			return err
		}
		select { // the replica lags behind what the server knows
		case <-changed:
		case <-ctx.Done():
			return err
		}
	}
}

var errNoBridge = errors.New("there is no bridge " + nodeconfig.IntegrationBridge)

func (o *Database) plugging(e platform.Endpoint, externalIDs map[string]string) ([]libovsdb.Operation, error) {
	bridge := o.Bridge(nodeconfig.IntegrationBridge)
	if bridge == nil {
		return nil, errNoBridge
	}
	owner, name := attachmentOwner(e.Attachment), e.Device
	var operations []libovsdb.Operation
	for _, other := range o.Attached() {
		if other.ExternalIDs["iface-id"] == externalIDs["iface-id"] && other.Name != name {
			operations = append(operations, o.unplugging(bridge, other)...)
		}
	}
	device, exists := o.AttachedDevice(e.Attachment)
	port := attachmentUUID(vswitch.PortTable, e.Attachment)
	if !exists {
		return append(append(operations, InsertPort(owner, name, DeviceSettings{ExternalIDs: externalIDs})...),
			MutateRow(vswitch.BridgeTable, bridge.UUID, AddTo("ports", port))), nil
	}
	if mutations := SetKeys("external_ids", device.ExternalIDs, externalIDs); len(mutations) > 0 {
		operations = append(operations, MutateRow(vswitch.InterfaceTable, device.UUID, mutations...))
	}
	return operations, nil
}

// unplugging removes the port of an interface; rows that nothing refers to go by themselves.
func (o *Database) unplugging(bridge *vswitch.Bridge, device *vswitch.Interface) []libovsdb.Operation {
	port := o.Port(device.Name)
	if port == nil {
		return nil
	}
	return []libovsdb.Operation{MutateRow(vswitch.BridgeTable, bridge.UUID, RemoveFrom("ports", port.UUID))}
}

// Unplug removes an attachment's port whether the replica shows it or not: a plug whose answer was
// lost may be on the server only.
func (o *Database) Unplug(ctx context.Context, a cni.Attachment) error {
	for {
		bridge := o.Bridge(nodeconfig.IntegrationBridge)
		if bridge == nil {
			if !o.Connected() {
				return ovsdb.ErrDisconnected
			}
			return nil
		}
		_, err := o.Transact(ctx, MutateRow(vswitch.BridgeTable, bridge.UUID,
			RemoveFrom("ports", attachmentUUID(vswitch.PortTable, a))))
		if !errors.Is(err, ovsdb.ErrDisconnected) || ctx.Err() != nil {
			return err
		}
	}
}

// ErrUnplugged: while an ADD waited, its port was removed, by a DEL or by a later sandbox's ADD.
var ErrUnplugged = errors.New("the port was removed while it waited for its flows")

// MissingFlows says why a port may have no flows.
func MissingFlows(device *vswitch.Interface) string {
	if device.Ofport == nil || *device.Ofport <= 0 {
		return fmt.Sprintf("Open vSwitch cannot use device %s: %s", device.Name, DeviceProblem(device))
	}
	return fmt.Sprintf("ovn-controller has not installed the flows of logical port %s: see its log, and whether the "+
		"Northbound has the port for this chassis", device.ExternalIDs["iface-id"])
}

// AwaitFlows returns when ovn-controller has installed the flows of an attachment's port.
func (o *Database) AwaitFlows(ctx context.Context, a cni.Attachment) error {
	seen, lost := false, false
	problem := "Open vSwitch has not confirmed the port"
	err := o.WaitFor(ctx, func() bool {
		device, exists := o.AttachedDevice(a)
		if !exists {
			lost = seen
			return lost
		}
		seen = true
		if device.ExternalIDs[InstalledKey] == "true" {
			return true
		}
		problem = MissingFlows(device)
		return false
	})
	switch {
	case lost:
		return ErrUnplugged
	case err != nil:
		return fmt.Errorf("%s: %w", problem, err)
	}
	return nil
}
