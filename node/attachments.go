package node

import (
	"context"
	"errors"
	"fmt"
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
	sandboxOwner = "Sandbox/"         // and container ID / interface name
	sandboxKey   = "sandbox"          // the container ID, as other OVN CNIs name it
	netnsKey     = "weft.net/ns"      // the sandbox's path
	networkKey   = "weft.net/network" // the name in the network configuration of the ADD
	installedKey = "ovn-installed"
)

// attachedKey in an interface's external_ids: the device that arrived was configured.
const attachedKey = "weft.net/attached"

func attachmentOwner(a cni.Attachment) ovsdb.Owner { return ovsdb.Owner(sandboxOwner + a.String()) }

// attachmentOf reads back what attachmentOwner wrote.
func attachmentOf(device *vswitch.Interface) (cni.Attachment, bool) {
	rest, ours := strings.CutPrefix(device.ExternalIDs[ovsdb.OwnerMark], sandboxOwner)
	id, name, whole := strings.Cut(rest, "/")
	return cni.Attachment{ContainerID: id, IfName: name}, ours && whole
}

// attached lists the interfaces of pods.
func (o *openVSwitch) attached() []*vswitch.Interface {
	return ovsdb.List(o.Client, func(i *vswitch.Interface) bool {
		_, ours := attachmentOf(i)
		return ours
	})
}

func (o *openVSwitch) attachedDevice(a cni.Attachment) (*vswitch.Interface, bool) {
	return ovsdb.Get[vswitch.Interface](o.Client, attachmentUUID(vswitch.InterfaceTable, a))
}

// holder is the interface that has a logical port.
func (o *openVSwitch) holder(logicalPort string) *vswitch.Interface {
	return first(ovsdb.List(o.Client, func(i *vswitch.Interface) bool { return i.ExternalIDs["iface-id"] == logicalPort }))
}

func attachmentUUID(table string, a cni.Attachment) string {
	return ovsdb.ID(table, attachmentOwner(a), cni.HostInterface(a))
}

// deviceOf is the host's end of a pod's interface.
func (o *openVSwitch) deviceOf(pod cni.Pod) (device string, attached bool) {
	if pod.UID == "" {
		return "", false
	}
	port := contract.PodPort(pod.Namespace, pod.Name)
	for _, i := range o.attached() {
		if i.ExternalIDs["iface-id"] == port && i.ExternalIDs["iface-id-ver"] == pod.UID {
			return i.Name, true
		}
	}
	return "", false
}

// podOf reads back which pod externalIDs wrote. Its UID is the API's.
func podOf(ids map[string]string) cni.Pod {
	namespace, name, _ := strings.Cut(ids["iface-id"], "_") // see contract.PodPort
	return cni.Pod{Namespace: namespace, Name: name, UID: ids["iface-id-ver"]}
}

// leaving takes back that a port's device is there.
func leaving(device *vswitch.Interface) []libovsdb.Operation {
	var operations []libovsdb.Operation
	if device.Type != "" {
		operations = append(operations, updateRow(vswitch.InterfaceTable, device.UUID, libovsdb.Row{"type": ""}))
	}
	if mutations := setKeys("external_ids", device.ExternalIDs, map[string]string{attachedKey: ""}); len(mutations) > 0 {
		operations = append(operations, mutateRow(vswitch.InterfaceTable, device.UUID, mutations...))
	}
	return operations
}

// plug makes the endpoint's device a port of br-int, and takes the logical port from any other
// sandbox that still has it: OVN binds it to one interface, and the latest sandbox is the pod's.
func (o *openVSwitch) plug(ctx context.Context, e platform.Endpoint, externalIDs map[string]string) error {
	for {
		changed := o.Changed()
		operations, err := o.plugging(e, externalIDs)
		if err == nil {
			err = o.apply(ctx, operations)
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

func (o *openVSwitch) plugging(e platform.Endpoint, externalIDs map[string]string) ([]libovsdb.Operation, error) {
	bridge := o.bridge(nodeconfig.IntegrationBridge)
	if bridge == nil {
		return nil, errNoBridge
	}
	owner, name := attachmentOwner(e.Attachment), e.Device
	var operations []libovsdb.Operation
	for _, other := range o.attached() {
		if other.ExternalIDs["iface-id"] == externalIDs["iface-id"] && other.Name != name {
			operations = append(operations, o.unplugging(bridge, other)...)
		}
	}
	device, exists := o.attachedDevice(e.Attachment)
	port := attachmentUUID(vswitch.PortTable, e.Attachment)
	if !exists {
		return append(append(operations, insertPort(owner, name, deviceSettings{externalIDs: externalIDs})...),
			mutateRow(vswitch.BridgeTable, bridge.UUID, addTo("ports", port))), nil
	}
	if mutations := setKeys("external_ids", device.ExternalIDs, externalIDs); len(mutations) > 0 {
		operations = append(operations, mutateRow(vswitch.InterfaceTable, device.UUID, mutations...))
	}
	return operations, nil
}

// unplugging removes the port of an interface; rows that nothing refers to go by themselves.
func (o *openVSwitch) unplugging(bridge *vswitch.Bridge, device *vswitch.Interface) []libovsdb.Operation {
	port := o.port(device.Name)
	if port == nil {
		return nil
	}
	return []libovsdb.Operation{mutateRow(vswitch.BridgeTable, bridge.UUID, removeFrom("ports", port.UUID))}
}

// unplug removes an attachment's port whether the replica shows it or not: a plug whose answer was
// lost may be on the server only.
func (o *openVSwitch) unplug(ctx context.Context, a cni.Attachment) error {
	for {
		bridge := o.bridge(nodeconfig.IntegrationBridge)
		if bridge == nil {
			if !o.Connected() {
				return ovsdb.ErrDisconnected
			}
			return nil
		}
		_, err := o.Transact(ctx, mutateRow(vswitch.BridgeTable, bridge.UUID, removeFrom("ports", attachmentUUID(vswitch.PortTable, a))))
		if !errors.Is(err, ovsdb.ErrDisconnected) || ctx.Err() != nil {
			return err
		}
	}
}

// errUnplugged: while an ADD waited, its port was removed, by a DEL or by a later sandbox's ADD.
var errUnplugged = errors.New("the port was removed while it waited for its flows")

// missingFlows says why a port may have no flows.
func missingFlows(device *vswitch.Interface) string {
	if device.Ofport == nil || *device.Ofport <= 0 {
		return fmt.Sprintf("Open vSwitch cannot use device %s: %s", device.Name, broken(device))
	}
	return fmt.Sprintf("ovn-controller has not installed the flows of logical port %s: see its log, and whether the Northbound has the port for this chassis", device.ExternalIDs["iface-id"])
}

// awaitFlows returns when ovn-controller has installed the flows of an attachment's port.
func (o *openVSwitch) awaitFlows(ctx context.Context, a cni.Attachment) error {
	seen, lost := false, false
	problem := "Open vSwitch has not confirmed the port"
	err := o.WaitFor(ctx, func() bool {
		device, exists := o.attachedDevice(a)
		if !exists {
			lost = seen
			return lost
		}
		seen = true
		if device.ExternalIDs[installedKey] == "true" {
			return true
		}
		problem = missingFlows(device)
		return false
	})
	switch {
	case lost:
		return errUnplugged
	case err != nil:
		return fmt.Errorf("%s: %w", problem, err)
	}
	return nil
}
