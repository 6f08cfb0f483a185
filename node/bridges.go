package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	libovsdb "github.com/ovn-kubernetes/libovsdb/ovsdb"

	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/models/vswitch"
	"github.com/weftnet/weft/node/nodeconfig"
	"github.com/weftnet/weft/node/platform"
	"github.com/weftnet/weft/ovsdb"
)

// setUp: ovn-controller finds its settings and bridges in the node's Open vSwitch. It says whether something had to be
// written for that; the error also tells what cannot be as it shall be. The uplink is asked for when nobody else works
// on the bridges.
func (o *openVSwitch) setUp(ctx context.Context, c nodeconfig.Config, uplink func() platform.Uplink) (written bool, err error) {
	o.bridges.Lock()
	defer o.bridges.Unlock()
	operations, problem := o.settingUp(c, uplink())
	if err := o.apply(ctx, operations); err != nil {
		return true, fmt.Errorf("set up Open vSwitch: %w", err)
	}
	return len(operations) > 0, problem
}

// settingUp returns what has to be changed for setUp, nothing when all is as it shall be. The bridges are made at once:
// where the host shares its adapter, what it has on the new switch passes only by the uplink's bridge.
func (o *openVSwitch) settingUp(c nodeconfig.Config, uplink platform.Uplink) ([]libovsdb.Operation, error) {
	root, err := o.root()
	if err != nil {
		return nil, err
	}
	var operations []libovsdb.Operation
	if mutations := setKeys("external_ids", root.ExternalIDs, chassisSettings(c, uplink, root.ExternalIDs)); len(mutations) > 0 {
		operations = append(operations, mutateRow(vswitch.OpenvSwitchTable, root.UUID, mutations...))
	}
	if c.SharesAdapter() && uplink == (platform.Uplink{}) {
		if o.bridge(nodeconfig.IntegrationBridge) == nil {
			err = errNoUplink
		}
		return operations, err
	}
	operations = append(operations, o.ensureBridge(root, bridgeSettings{
		owner: c.Owner(), name: nodeconfig.IntegrationBridge, datapath: c.DatapathType, failMode: vswitch.BridgeFailModeSecure,
		config: map[string]string{"disable-in-band": "true"},
	})...)
	if uplink != (platform.Uplink{}) {
		joined, err := o.setUpUplink(c, root, uplink)
		return append(operations, joined...), err
	}
	if !c.OwnGateway() {
		return operations, nil
	}
	operations = append(operations, o.ensureBridge(root, bridgeSettings{
		owner: c.Owner(), name: c.GatewayBridge, datapath: c.DatapathType, failMode: vswitch.BridgeFailModeStandalone,
	})...)
	if c.GatewayInterface == "" {
		return operations, nil
	}
	port, err := o.ensurePort(c.Owner(), c.GatewayBridge, c.GatewayInterface, deviceSettings{})
	return append(operations, port...), err
}

var errNoUplink = errors.New("the bridges wait for the uplink")

// setUpUplink returns what is missing of the bridge that has the adapter and the host's interface. It
// passes packets as a learning switch does without any controller: the host depends on it.
func (o *openVSwitch) setUpUplink(c nodeconfig.Config, root *vswitch.OpenvSwitch, uplink platform.Uplink) ([]libovsdb.Operation, error) {
	existed := o.bridge(uplink.Host) != nil
	settings := uplinkBridgeSettings(c, uplink)
	settings.device = uplink.Adapter
	operations := o.ensureBridge(root, settings)
	if !existed {
		return operations, nil
	}
	port, err := o.ensurePort(c.Owner(), uplink.Host, uplink.Adapter, deviceSettings{})
	if err != nil || uplink.MTU == 0 {
		return append(operations, port...), err
	}
	own, err := o.ensurePort(c.Owner(), uplink.Host, uplink.Host, deviceSettings{kind: typeInternal, mtu: uplink.MTU})
	return slices.Concat(operations, port, own), err
}

func uplinkBridgeSettings(c nodeconfig.Config, uplink platform.Uplink) bridgeSettings {
	settings := bridgeSettings{
		owner: c.Owner(), name: uplink.Host, datapath: c.DatapathType, failMode: vswitch.BridgeFailModeStandalone,
		ids: map[string]string{switchKey: uplink.Switch}, mtu: uplink.MTU,
	}
	if uplink.MAC != "" {
		settings.config = map[string]string{"hwaddr": uplink.MAC}
	}
	return settings
}

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
		"ovn-monitor-all":             "true",
		"ovn-remote-probe-interval":   "3000", // a central host that is lost is left after twice that
		"ovn-openflow-probe-interval": "180",
		"ovn-enable-lflow-cache":      "true",
	}
	if now["system-id"] == "" || c.Chassis == nodeconfig.ChassisHosted {
		want["system-id"] = c.NodeName
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
	want["ovn-bridge-mappings"], want[mappingsKey] = withMappings(now["ovn-bridge-mappings"], now[mappingsKey], mappings)
	return want
}

// mappingsKey remembers what of ovn-bridge-mappings is the agent's: others may have networks of their own
// there, which stay when the agent's go.
const mappingsKey = "weft.net/bridge-mappings"

// withMappings changes a list like "external:br-ex,storage:br-st" so that each wanted network has its
// bridge, and those that were the agent's are gone where they are not wanted any more. It returns the list
// and what of it is the agent's.
func withMappings(list, ours string, want map[string]string) (all, mine string) {
	split := func(list string) []string {
		return slices.DeleteFunc(strings.Split(list, ","), func(m string) bool { return strings.TrimSpace(m) == "" })
	}
	owned := split(ours)
	kept, own := []string{}, []string{}
	for _, mapping := range split(list) {
		network, _, _ := strings.Cut(mapping, ":")
		if _, wanted := want[network]; !wanted && !slices.Contains(owned, mapping) {
			kept = append(kept, mapping)
		}
	}
	for _, network := range slices.Sorted(maps.Keys(want)) {
		mapping := network + ":" + want[network]
		kept = append(kept, mapping)
		if !slices.Contains(split(list), mapping) || slices.Contains(owned, mapping) {
			own = append(own, mapping)
		}
	}
	slices.Sort(kept)
	return strings.Join(kept, ","), strings.Join(own, ",")
}

// unmapped names the bridges of the key bridge-mappings that nobody has made.
func (o *openVSwitch) unmapped(c nodeconfig.Config) error {
	var errs []error
	for _, m := range c.BridgeMappings {
		if o.bridge(m.Bridge) == nil {
			errs = append(errs, fmt.Errorf("bridge-mappings: %s: this node's Open vSwitch has no bridge %s, so that pods here do not reach network %s; make it (ovs-vsctl add-br %s) with a device that leads there, or remove the entry",
				m, m.Bridge, m.Network, m.Bridge))
		}
	}
	return errors.Join(errs...)
}

type bridgeSettings struct {
	owner          ovsdb.Owner
	name, datapath string
	failMode       vswitch.BridgeFailMode
	config         map[string]string
	ids            map[string]string
	device         string // a port that the bridge has from its first moment
	mtu            int    // of the bridge's own port
}

func (o *openVSwitch) ensureBridge(root *vswitch.OpenvSwitch, want bridgeSettings) []libovsdb.Operation {
	bridge := o.bridge(want.name)
	if bridge == nil {
		uuid := ovsdb.ID(vswitch.BridgeTable, want.owner, want.name)
		port := ovsdb.ID(vswitch.PortTable, want.owner, want.name)
		operations, ports := insertPort(want.owner, want.name, deviceSettings{kind: typeInternal, mtu: want.mtu}), []string{port}
		if want.device != "" {
			operations = append(operations, insertPort(want.owner, want.device, deviceSettings{})...)
			ports = append(ports, ovsdb.ID(vswitch.PortTable, want.owner, want.device))
		}
		ids := marks(want.owner, want.name)
		maps.Copy(ids, want.ids)
		return append(operations,
			insertRow(vswitch.BridgeTable, uuid, libovsdb.Row{
				"name": want.name, "datapath_type": want.datapath, "fail_mode": want.failMode, "ports": references(ports...),
				"other_config": stringMap(want.config), "external_ids": stringMap(ids),
			}),
			mutateRow(vswitch.OpenvSwitchTable, root.UUID, addTo("bridges", uuid)),
		)
	}
	row := libovsdb.Row{}
	if bridge.DatapathType != want.datapath {
		row["datapath_type"] = want.datapath
	}
	if bridge.FailMode == nil || *bridge.FailMode != want.failMode {
		row["fail_mode"] = want.failMode
	}
	var operations []libovsdb.Operation
	if len(row) > 0 {
		operations = append(operations, updateRow(vswitch.BridgeTable, bridge.UUID, row))
	}
	if mutations := setKeys("other_config", bridge.OtherConfig, want.config); len(mutations) > 0 {
		operations = append(operations, mutateRow(vswitch.BridgeTable, bridge.UUID, mutations...))
	}
	if mutations := setKeys("external_ids", bridge.ExternalIDs, want.ids); len(mutations) > 0 && bridge.ExternalIDs[ovsdb.OwnerMark] == string(want.owner) {
		operations = append(operations, mutateRow(vswitch.BridgeTable, bridge.UUID, mutations...))
	}
	return operations
}

// deviceSettings are the columns of a port's only interface.
type deviceSettings struct {
	kind        string
	mac         string
	mtu         int
	externalIDs map[string]string
}

func marks(owner ovsdb.Owner, key string) map[string]string {
	return map[string]string{ovsdb.OwnerMark: string(owner), ovsdb.KeyMark: key}
}

// insertPort makes a port and its interface, not yet in any bridge.
func insertPort(owner ovsdb.Owner, name string, want deviceSettings) []libovsdb.Operation {
	device := ovsdb.ID(vswitch.InterfaceTable, owner, name)
	ids := marks(owner, name)
	for key, value := range want.externalIDs {
		ids[key] = value
	}
	row := libovsdb.Row{"name": name, "type": want.kind, "external_ids": stringMap(ids)}
	if want.mac != "" {
		row["mac"] = want.mac
	}
	if want.mtu != 0 {
		row["mtu_request"] = want.mtu
	}
	return []libovsdb.Operation{
		insertRow(vswitch.InterfaceTable, device, row),
		insertRow(vswitch.PortTable, ovsdb.ID(vswitch.PortTable, owner, name), libovsdb.Row{
			"name": name, "interfaces": references(device), "external_ids": stringMap(marks(owner, name)),
		}),
	}
}

// ensurePort returns what makes a bridge have a port of that name with one interface as wanted. A
// port of another bridge is not taken from it.
func (o *openVSwitch) ensurePort(owner ovsdb.Owner, bridgeName, name string, want deviceSettings) ([]libovsdb.Operation, error) {
	bridge := o.bridge(bridgeName)
	if bridge == nil {
		return nil, nil // it is being made; its appearance calls us again
	}
	port := o.port(name)
	if port == nil {
		uuid := ovsdb.ID(vswitch.PortTable, owner, name)
		return append(insertPort(owner, name, want), mutateRow(vswitch.BridgeTable, bridge.UUID, addTo("ports", uuid))), nil
	}
	if holder := o.bridgeOf(port.UUID); holder != nil && holder.UUID != bridge.UUID {
		return nil, fmt.Errorf("device %s is a port of bridge %s; run `ovs-vsctl del-port %s %s` if weft shall have it for %s", name, holder.Name, holder.Name, name, bridgeName)
	}
	device := o.device(name)
	if device == nil {
		return nil, fmt.Errorf("port %s of bridge %s has no interface of its name; run `ovs-vsctl del-port %s`", name, bridgeName, name)
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
		operations = append(operations, updateRow(vswitch.InterfaceTable, device.UUID, row))
	}
	if mutations := setKeys("external_ids", device.ExternalIDs, want.externalIDs); len(mutations) > 0 {
		operations = append(operations, mutateRow(vswitch.InterfaceTable, device.UUID, mutations...))
	}
	return operations, nil
}

// managementPort returns what is missing of the host's port on br-int.
func (o *openVSwitch) managementPort(c nodeconfig.Config, m platform.Management) ([]libovsdb.Operation, error) {
	return o.ensurePort(c.Owner(), nodeconfig.IntegrationBridge, m.Device, deviceSettings{
		kind: typeInternal, mac: m.MAC.String(), mtu: m.MTU,
		externalIDs: map[string]string{"iface-id": contract.ManagementPort(c.NodeName)},
	})
}

// onlyDevice is the one device by which a bridge leads outside that somebody else has given it; empty
// where there are several.
func (o *openVSwitch) onlyDevice(name string) string {
	bridge := o.bridge(name)
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
			if ok && device.Name != name && device.Type != typeInternal && device.Type != "patch" {
				devices = append(devices, device.Name)
			}
		}
	}
	if len(devices) != 1 {
		return ""
	}
	return devices[0]
}

// broken describes a device that Open vSwitch could not open.
func broken(device *vswitch.Interface) string {
	if device.Error != nil && *device.Error != "" {
		return *device.Error
	}
	if device.Ofport == nil {
		return "ovs-vswitchd has not taken it up; is it running?"
	}
	return "it has OpenFlow port " + strconv.Itoa(*device.Ofport)
}
