package openvswitch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	libovsdb "github.com/ovn-kubernetes/libovsdb/ovsdb"

	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/models/vswitch"
	"github.com/weftnet/weft/node/nodeconfig"
	"github.com/weftnet/weft/node/platform"
	"github.com/weftnet/weft/ovsdb"
)

// SetUp: ovn-controller finds its settings and bridges in the node's Open vSwitch. It says whether something had to be
// written for that; the error also tells what cannot be as it must be. The uplink is asked for when nobody else works
// on the bridges.
func (o *Database) SetUp(
	ctx context.Context, c nodeconfig.Config, uplink func() platform.Uplink,
) (written bool, err error) {
	o.changing.Lock()
	defer o.changing.Unlock()
	operations, problem := o.settingUp(c, uplink())
	if err := o.Apply(ctx, operations); err != nil {
		return true, fmt.Errorf("set up Open vSwitch: %w", err)
	}
	// Another program may undo it at once, and often.
	if len(operations) > 0 && time.Since(o.told) >= time.Minute {
		o.told = time.Now()
		slog.Info("Open vSwitch is set up; what is changed within the next minute is not logged", "changes",
			changed(operations))
	}
	return len(operations) > 0, problem
}

// settingUp returns what has to be changed for SetUp, nothing when all is as it must be. The bridges are made at once:
// where the host shares its adapter, what it has on the new switch passes only by the uplink's bridge.
func (o *Database) settingUp(c nodeconfig.Config, uplink platform.Uplink) ([]libovsdb.Operation, error) {
	root, err := o.Root()
	if err != nil {
		return nil, err
	}
	var operations []libovsdb.Operation
	if mutations := SetKeys("external_ids", root.ExternalIDs,
		chassisSettings(c, uplink, root.ExternalIDs)); len(mutations) > 0 {
		operations = append(operations, MutateRow(vswitch.OpenvSwitchTable, root.UUID, mutations...))
	}
	if c.SharesAdapter() && uplink == (platform.Uplink{}) {
		if o.Bridge(nodeconfig.IntegrationBridge) == nil {
			err = ErrAwaitsUplink
		}
		return operations, err
	}
	operations = append(operations, o.EnsureBridge(root, BridgeSettings{
		Owner: c.Owner(), Name: nodeconfig.IntegrationBridge, datapath: c.DatapathType,
		FailMode: vswitch.BridgeFailModeSecure,
		config:   map[string]string{"disable-in-band": "true"},
	})...)
	if uplink != (platform.Uplink{}) {
		joined, err := UplinkBridge{ovs: o, config: c}.setUp(root, uplink)
		return append(operations, joined...), err
	}
	if !c.OwnGateway() {
		return operations, nil
	}
	operations = append(operations, o.EnsureBridge(root, BridgeSettings{
		Owner: c.Owner(), Name: c.GatewayBridge, datapath: c.DatapathType, FailMode: vswitch.BridgeFailModeStandalone,
	})...)
	if c.GatewayInterface == "" {
		return operations, nil
	}
	port, err := o.ensurePort(c.Owner(), c.GatewayBridge, c.GatewayInterface, DeviceSettings{})
	return append(operations, port...), err
}

var ErrAwaitsUplink = errors.New("the bridges wait for the uplink")

// chassisSettings are the keys that ovn-controller reads. A chassis keeps the name that it has:
// another one would be a second chassis in the Southbound. A chassis host gives it the node's name, and
// takes no other.
func chassisSettings(c nodeconfig.Config, uplink platform.Uplink, now map[string]string) map[string]string {
	want := map[string]string{
		"hostname":                    c.NodeName,
		"ovn-remote":                  c.OVNSouthbound,
		"ovn-encap-type":              c.EncapType,
		"ovn-encap-ip":                c.EncapAddress.String(),
		"ovn-bridge":                  nodeconfig.IntegrationBridge,
		"ovn-bridge-datapath-type":    c.DatapathType,
		"ovn-monitor-all":             strconv.FormatBool(c.MonitorAll),
		waitBeforeClear:               "0",
		"ovn-remote-probe-interval":   "3000", // a central host that is lost is left after twice that
		"ovn-openflow-probe-interval": "180",
		"ovn-enable-lflow-cache":      "true",
		"ovn-is-interconn":            "true", // so that it makes tunnels to nodes of other zones, if there are zones
	}
	if now["system-id"] == "" || c.Chassis == nodeconfig.ChassisHosted {
		want["system-id"] = c.NodeName
	}
	if !c.MonitorAll {
		want[waitBeforeClear] = partsTime
	}
	if c.Encrypts() { // what pods send that have the MTU of the time before goes in fragments
		want["ovn-encap-df_default"] = "false"
	}
	mappings := map[string]string{}
	for _, m := range c.BridgeMappings {
		mappings[m.Network] = m.Bridge
	}
	if c.OwnGateway() {
		bridge := cmp.Or(uplink.Host, c.GatewayBridge)
		if bridge == "" { // it has the uplink's name, which is not known yet
			return want
		}
		mappings[c.GatewayNetwork] = bridge
	}
	want[bridgeMappings], want[mappingsKey] = withMappings(now[bridgeMappings], now[mappingsKey], mappings)
	return want
}

// waitBeforeClear is for how many milliseconds an ovn-controller that starts leaves the flows that there are, unless it
// is of OVN 25.09 or later, which knows when it has all that it needs. One that monitors all reads that at once, and
// replaces the flows in one bundle. With conditions it knows its switches and routers first, then asks for their flows:
// before 25.09 it would replace the flows with few, and packets would be lost until it has the others.
const (
	waitBeforeClear = "ovn-ofctrl-wait-before-clear"
	partsTime       = "10000"
)

// bridgeMappings is the key in external_ids of the row of Open_vSwitch by which ovn-controller finds the bridge of each
// network outside.
const bridgeMappings = "ovn-bridge-mappings"

// mappingsKey is the key in external_ids of the row of Open_vSwitch: the part of ovn-bridge-mappings that the agent has
// written. When the agent removes it, networks of others stay.
const mappingsKey = "weft.net/bridge-mappings"

// withMappings changes a list like "external:br-ex,storage:br-st" so that each wanted network has its
// bridge, and those that were the agent's are gone where they are not wanted any more. It returns the list
// and what of it is the agent's.
func withMappings(list, ours string, want map[string]string) (all, mine string) {
	owned := splitMappings(ours)
	kept, own := []string{}, []string{}
	for _, mapping := range splitMappings(list) {
		network, _, _ := strings.Cut(mapping, ":")
		if _, wanted := want[network]; !wanted && !slices.Contains(owned, mapping) {
			kept = append(kept, mapping)
		}
	}
	for _, network := range slices.Sorted(maps.Keys(want)) {
		mapping := network + ":" + want[network]
		kept = append(kept, mapping)
		if !slices.Contains(splitMappings(list), mapping) || slices.Contains(owned, mapping) {
			own = append(own, mapping)
		}
	}
	slices.Sort(kept)
	return strings.Join(kept, ","), strings.Join(own, ",")
}

func splitMappings(list string) []string {
	return slices.DeleteFunc(strings.Split(list, ","), func(m string) bool { return strings.TrimSpace(m) == "" })
}

// Unmapped names the bridges of the key bridge-mappings that nobody has made.
func (o *Database) Unmapped(c nodeconfig.Config) error {
	var errs []error
	for _, m := range c.BridgeMappings {
		if o.Bridge(m.Bridge) == nil {
			errs = append(errs, fmt.Errorf("bridge-mappings: %s: this node's Open vSwitch has no bridge %s, so that pods "+
				"here do not reach network %s; make it (ovs-vsctl add-br %s) with a device that leads there, or remove the entry",
				m, m.Bridge, m.Network, m.Bridge))
		}
	}
	return errors.Join(errs...)
}

type BridgeSettings struct {
	Owner          ovsdb.Owner
	Name, datapath string
	FailMode       vswitch.BridgeFailMode
	config         map[string]string
	IDs            map[string]string
	Device         string // a port that the bridge has from its first moment
	mtu            int    // of the bridge's own port
}

func (o *Database) EnsureBridge(root *vswitch.OpenvSwitch, want BridgeSettings) []libovsdb.Operation {
	bridge := o.Bridge(want.Name)
	if bridge == nil {
		uuid := ovsdb.ID(vswitch.BridgeTable, want.Owner, want.Name)
		port := ovsdb.ID(vswitch.PortTable, want.Owner, want.Name)
		operations, ports := InsertPort(want.Owner, want.Name,
			DeviceSettings{kind: TypeInternal, mtu: want.mtu}), []string{port}
		if want.Device != "" {
			operations = append(operations, InsertPort(want.Owner, want.Device, DeviceSettings{})...)
			ports = append(ports, ovsdb.ID(vswitch.PortTable, want.Owner, want.Device))
		}
		ids := marks(want.Owner, want.Name)
		maps.Copy(ids, want.IDs)
		return append(operations,
			InsertRow(vswitch.BridgeTable, uuid, libovsdb.Row{
				"name": want.Name, "datapath_type": want.datapath, "fail_mode": want.FailMode, "ports": References(ports...),
				"other_config": StringMap(want.config), "external_ids": StringMap(ids),
			}),
			MutateRow(vswitch.OpenvSwitchTable, root.UUID, AddTo("bridges", uuid)),
		)
	}
	row := libovsdb.Row{}
	if bridge.DatapathType != want.datapath {
		row["datapath_type"] = want.datapath
	}
	if bridge.FailMode == nil || *bridge.FailMode != want.FailMode {
		row["fail_mode"] = want.FailMode
	}
	var operations []libovsdb.Operation
	if len(row) > 0 {
		operations = append(operations, UpdateRow(vswitch.BridgeTable, bridge.UUID, row))
	}
	if mutations := SetKeys("other_config", bridge.OtherConfig, want.config); len(mutations) > 0 {
		operations = append(operations, MutateRow(vswitch.BridgeTable, bridge.UUID, mutations...))
	}
	if mutations := SetKeys("external_ids", bridge.ExternalIDs, want.IDs); len(mutations) > 0 &&
		bridge.ExternalIDs[ovsdb.OwnerMark] == string(want.Owner) {
		operations = append(operations, MutateRow(vswitch.BridgeTable, bridge.UUID, mutations...))
	}
	return operations
}

// DeviceSettings are the columns of a port's only interface.
type DeviceSettings struct {
	kind        string
	mac         string
	mtu         int
	ExternalIDs map[string]string
}

func marks(owner ovsdb.Owner, key string) map[string]string {
	return map[string]string{ovsdb.OwnerMark: string(owner), ovsdb.KeyMark: key}
}

// InsertPort makes a port and its interface, not yet in any bridge.
func InsertPort(owner ovsdb.Owner, name string, want DeviceSettings) []libovsdb.Operation {
	device := ovsdb.ID(vswitch.InterfaceTable, owner, name)
	ids := marks(owner, name)
	for key, value := range want.ExternalIDs {
		ids[key] = value
	}
	row := libovsdb.Row{"name": name, "type": want.kind, "external_ids": StringMap(ids)}
	if want.mac != "" {
		row["mac"] = want.mac
	}
	if want.mtu != 0 {
		row["mtu_request"] = want.mtu
	}
	return []libovsdb.Operation{
		InsertRow(vswitch.InterfaceTable, device, row),
		InsertRow(vswitch.PortTable, ovsdb.ID(vswitch.PortTable, owner, name), libovsdb.Row{
			"name": name, "interfaces": References(device), "external_ids": StringMap(marks(owner, name)),
		}),
	}
}

// ensurePort returns what makes a bridge have a port of that name with one interface as wanted. A
// port of another bridge is not taken from it.
func (o *Database) ensurePort(
	owner ovsdb.Owner, bridgeName, name string, want DeviceSettings,
) ([]libovsdb.Operation, error) {
	bridge := o.Bridge(bridgeName)
	if bridge == nil {
		return nil, nil // it is being made; its appearance calls us again
	}
	port := o.Port(name)
	if port == nil {
		uuid := ovsdb.ID(vswitch.PortTable, owner, name)
		return append(InsertPort(owner, name, want), MutateRow(vswitch.BridgeTable, bridge.UUID, AddTo("ports", uuid))), nil
	}
	if holder := o.BridgeOf(port.UUID); holder != nil && holder.UUID != bridge.UUID {
		return nil, fmt.Errorf("device %s is a port of bridge %s; run `ovs-vsctl del-port %s %s` if weft is to have it "+
			"for %s", name, holder.Name, holder.Name, name, bridgeName)
	}
	device := o.Device(name)
	if device == nil {
		return nil, fmt.Errorf("port %s of bridge %s has no interface of its name; run `ovs-vsctl del-port %s`", name,
			bridgeName, name)
	}
	row := libovsdb.Row{}
	if want.kind != "" && device.Type != want.kind { // a gateway's device may be of any type
		row["type"] = want.kind
	}
	if want.mac != "" && (device.MAC == nil || *device.MAC != want.mac) {
		row["mac"] = want.mac
	}
	if want.mtu != 0 && (device.MTURequest == nil || *device.MTURequest != want.mtu) {
		row["mtu_request"] = want.mtu
	}
	var operations []libovsdb.Operation
	if len(row) > 0 {
		operations = append(operations, UpdateRow(vswitch.InterfaceTable, device.UUID, row))
	}
	if mutations := SetKeys("external_ids", device.ExternalIDs, want.ExternalIDs); len(mutations) > 0 {
		operations = append(operations, MutateRow(vswitch.InterfaceTable, device.UUID, mutations...))
	}
	return operations, nil
}

// ManagementPort returns what is missing of the host's port on br-int.
func (o *Database) ManagementPort(c nodeconfig.Config, m platform.Management) ([]libovsdb.Operation, error) {
	return o.ensurePort(c.Owner(), nodeconfig.IntegrationBridge, m.Device, DeviceSettings{
		kind: TypeInternal, mac: m.MAC.String(), mtu: m.MTU,
		ExternalIDs: map[string]string{"iface-id": contract.ManagementPort(c.NodeName)},
	})
}

// OnlyDevice is the one device by which a bridge leads outside that somebody else has given it; empty
// where there are several.
func (o *Database) OnlyDevice(name string) string {
	bridge := o.Bridge(name)
	if bridge == nil {
		return ""
	}
	devices := []string{}
	for _, uuid := range bridge.Ports {
		port, ok := ovsdb.Get[vswitch.Port](o.Client, uuid)
		if !ok {
			continue
		}
		for _, uuid := range port.Interfaces {
			device, ok := ovsdb.Get[vswitch.Interface](o.Client, uuid)
			if ok && device.Name != name && device.Type != TypeInternal && device.Type != "patch" {
				devices = append(devices, device.Name)
			}
		}
	}
	if len(devices) != 1 {
		return ""
	}
	return devices[0]
}

// DeviceProblem describes a device that Open vSwitch could not open.
func DeviceProblem(device *vswitch.Interface) string {
	if device.Error != nil && *device.Error != "" {
		return *device.Error
	}
	if device.Ofport == nil {
		return "ovs-vswitchd has not taken it up; is it running?"
	}
	return "it has OpenFlow port " + strconv.Itoa(*device.Ofport)
}
