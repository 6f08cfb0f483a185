package trace

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"strings"

	libovsdb "github.com/ovn-kubernetes/libovsdb/ovsdb"

	"github.com/weftnet/weft/models/sb"
	"github.com/weftnet/weft/ovn/ovntrace"
	"github.com/weftnet/weft/ovsdb"
)

// southboundServer is the database's server for one trace. No replica is kept: each question reads the rows that it is
// about.
type southboundServer struct{ *ovsdb.Client }

// port is a logical port.
type port struct {
	name, kind string // kind is "" of a pod or a host
	datapath   string // UUID
	mac        net.HardwareAddr
	addresses  []netip.Prefix // whole ones of a pod or a host
	chassis    string         // UUID; "" of one that no chassis has
	owner      string         // of the Northbound's row, as Pod/shop/web
	peer       string
	redirected string // the port that binds it to a chassis
}

// portColumns are those that a port is read from.
var portColumns = []string{"logical_port", "type", "datapath", "mac", "chassis", "external_ids", "options"}

// ports are those of some names. One that is not there is not in the result.
func (s *southboundServer) ports(ctx context.Context, names ...string) (map[string]port, error) {
	var operations []libovsdb.Operation
	for _, name := range names {
		operations = append(operations, selectPorts(libovsdb.NewCondition("logical_port", libovsdb.ConditionEqual, name)))
	}
	rows, err := rowsOf(ctx, s.Client, operations...)
	found := map[string]port{}
	for _, row := range rows {
		p := portOf(row)
		found[p.name] = p
	}
	return found, err
}

// portsOfSwitch are those of a datapath that have a type.
func (s *southboundServer) portsOfSwitch(ctx context.Context, datapath, kind string) (ports []port, err error) {
	rows, err := rowsOf(ctx, s.Client, selectPorts(
		libovsdb.NewCondition("datapath", libovsdb.ConditionEqual, libovsdb.UUID{GoUUID: datapath}),
		libovsdb.NewCondition("type", libovsdb.ConditionEqual, kind)))
	for _, row := range rows {
		ports = append(ports, portOf(row))
	}
	return ports, err
}

func selectPorts(where ...libovsdb.Condition) libovsdb.Operation {
	return libovsdb.Operation{Op: libovsdb.OperationSelect, Table: sb.PortBindingTable, Columns: portColumns, Where: where}
}

func portOf(row libovsdb.Row) port {
	ids, options := ovsdb.TextMap(row["external_ids"]), ovsdb.TextMap(row["options"])
	p := port{owner: ids[ovsdb.OwnerMark], peer: options["peer"], redirected: options["chassis-redirect-port"]}
	p.name, _ = row["logical_port"].(string)
	p.kind, _ = row["type"].(string)
	p.datapath, p.chassis = ovsdb.TextUUID(row["datapath"]), ovsdb.TextUUID(row["chassis"])
	for _, text := range ovsdb.Texts(row["mac"]) {
		words := strings.Fields(text)
		if mac, err := net.ParseMAC(words[0]); err == nil {
			p.mac, p.addresses = mac, prefixes(words[1:])
		}
	}
	return p
}

// prefixes reads addresses; one without a length is whole.
func prefixes(words []string) (list []netip.Prefix) {
	for _, word := range words {
		if prefix, err := netip.ParsePrefix(word); err == nil {
			list = append(list, prefix)
		} else if addr, err := netip.ParseAddr(word); err == nil {
			list = append(list, netip.PrefixFrom(addr, addr.BitLen()))
		}
	}
	return list
}

// has says whether an address is one of the port's own.
func (p *port) has(addr netip.Addr) bool {
	for _, own := range p.addresses {
		if own.Addr() == addr {
			return true
		}
	}
	return false
}

func familyOf(addr netip.Addr) string {
	if addr.Is4() {
		return ipv4
	}
	return ipv6
}

// chassis is where logical ports may be bound.
type chassis struct {
	name   string
	tunnel string // the address at which its tunnels end
}

// allChassis are those of the Southbound, by UUID.
func (s *southboundServer) allChassis(ctx context.Context) (map[string]chassis, error) {
	all := func(table string, columns ...string) libovsdb.Operation {
		return libovsdb.Operation{Op: libovsdb.OperationSelect, Table: table, Columns: columns, Where: []libovsdb.Condition{}}
	}
	results, err := s.Transact(ctx, all(sb.ChassisTable, "_uuid", "name"), all(sb.EncapTable, "chassis_name", "ip",
		"type"))
	if err != nil {
		return nil, err
	}
	tunnels := map[string]string{}
	for _, row := range results[1].Rows {
		if name, _ := row["chassis_name"].(string); row["type"] == sb.EncapTypeGeneve {
			tunnels[name], _ = row["ip"].(string)
		}
	}
	found := map[string]chassis{}
	for _, row := range results[0].Rows {
		name, _ := row["name"].(string)
		found[ovsdb.TextUUID(row["_uuid"])] = chassis{name, tunnels[name]}
	}
	return found, nil
}

// variables are those of a chassis, by its name.
func (s *southboundServer) variables(ctx context.Context, chassis string) (ovntrace.Variables, error) {
	rows, err := rowsOf(ctx, s.Client, libovsdb.Operation{Op: libovsdb.OperationSelect, Table: sb.ChassisTemplateVarTable,
		Columns: []string{"variables"}, Where: []libovsdb.Condition{
			libovsdb.NewCondition("chassis", libovsdb.ConditionEqual, chassis)}})
	found := ovntrace.Variables{}
	for _, row := range rows {
		for name, text := range ovsdb.TextMap(row["variables"]) {
			if addr, err := netip.ParseAddr(text); err == nil {
				found[name] = addr
			}
		}
	}
	return found, err
}

// flow is a logical flow as ovn-trace shows it.
type flow struct {
	matches  []string // as it may have its match: ovn-trace may have shown it with variables expanded
	priority int
	uuid     string // the first 32 bits, as eight digits
}

// hints are the first 32 bits of the UUIDs of the Northbound's rows that flows are made of, by those of the flows.
func (s *southboundServer) hints(ctx context.Context, flows []flow) (map[string]string, error) {
	var operations []libovsdb.Operation
	for _, f := range flows {
		for _, match := range f.matches {
			operations = append(operations, libovsdb.Operation{Op: libovsdb.OperationSelect, Table: sb.LogicalFlowTable,
				Columns: []string{"_uuid", "external_ids"}, Where: []libovsdb.Condition{
					libovsdb.NewCondition("match", libovsdb.ConditionEqual, match),
					libovsdb.NewCondition("priority", libovsdb.ConditionEqual, f.priority)}})
		}
	}
	rows, err := rowsOf(ctx, s.Client, operations...)
	found := map[string]string{}
	for _, row := range rows {
		if hint := ovsdb.TextMap(row["external_ids"])["stage-hint"]; hint != "" {
			found[ovsdb.FirstBits(ovsdb.TextUUID(row["_uuid"]))] = hint
		}
	}
	return found, err
}

// rowsOf are the rows that all operations together select.
func rowsOf(ctx context.Context, client *ovsdb.Client, operations ...libovsdb.Operation) (rows []libovsdb.Row,
	err error) {
	if len(operations) == 0 {
		return nil, nil
	}
	results, err := client.Transact(ctx, operations...)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", operations[0].Table, err)
	}
	for _, r := range results {
		rows = append(rows, r.Rows...)
	}
	return rows, nil
}
