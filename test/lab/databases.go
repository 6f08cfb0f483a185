package lab

import (
	"fmt"

	"github.com/weftnet/weft/test/lab/machine"
)

const (
	northboundSocket = "/run/ovn/ovnnb_db.sock"
	southboundSocket = "/run/ovn/ovnsb_db.sock"
)

// remotesSchema is that of a database beside OVN's own, whose only row says what else their server listens on: of all
// that it can be told of a connection, only a row says that it is read-only, and not every OVN's own database has a
// column for it.
const remotesSchema = `{"name": "Weft_Remotes", "version": "1.0.0", "tables": {
  "Remotes": {"isRoot": true, "maxRows": 1, "columns": {"connections": {"type": {"key": {"type": "uuid", "refTable": "Connection"}, "min": 0, "max": "unlimited"}}}},
  "Connection": {"columns": {"target": {"type": "string"}, "read_only": {"type": "boolean"}}}}}`

// readOnlySocket is where a database is read by who may not write it.
func readOnlySocket(database string) string { return "/run/weft-observe/" + database + ".sock" }

// databases are OVN's of a zone, with ovn-northd between them.
type databases struct {
	layout
	zone
}

func (d databases) components() []machine.Component {
	f := d.files
	server := func(name, database, schema, socket string, more ...string) machine.Component {
		file := "/var/lib/ovn/" + database + ".db"
		remotes := "/run/ovn/" + name + "-remotes.db"
		return machine.Component{
			Name: name,
			Prepare: [][]string{createDatabase(file, f.schema(schema)),
				createRemotes(remotes, readOnlySocket(name[len("ovn-"):]))},
			Command: append([]string{"ovsdb-server", file, remotes, "--remote=punix:" + socket,
				"--remote=db:Weft_Remotes,Remotes,connections",
				"--pidfile=/run/ovn/" + database + ".pid", "--unixctl=/run/ovn/" + database + ".ctl", "-vconsole:info",
				"-vsyslog:off"}, more...),
			Ready: machine.Probe{Unix: socket},
		}
	}
	listen := []string{"--private-key=" + f.pki(d.certificatePair()+".key"),
		"--certificate=" + f.pki(d.certificatePair()+".crt"), "--ca-cert=" + f.pki(centralCA+".crt")}
	for _, target := range d.passive(management, northboundPort) {
		listen = append(listen, "--remote="+target)
	}
	return []machine.Component{
		server("ovn-nb", "ovnnb_db", "ovn/ovn-nb.ovsschema", northboundSocket, listen...),
		server("ovn-sb", "ovnsb_db", "ovn/ovn-sb.ovsschema", southboundSocket),
		{
			Name: "ovn-northd",
			Command: []string{"ovn-northd", "--ovnnb-db=unix:" + northboundSocket, "--ovnsb-db=unix:" + southboundSocket,
				"--pidfile=/run/ovn/ovn-northd.pid", "-vconsole:info", "-vsyslog:off"},
			WaitFor: []machine.Probe{{Unix: northboundSocket}, {Unix: southboundSocket}},
		},
	}
}

// passive are the connections by which a database's server listens on its machine's addresses of a network.
func (d databases) passive(on network, port int) []string {
	var targets []string
	for _, a := range d.addresses.of(on, d.number) {
		targets = append(targets, fmt.Sprintf("pssl:%d:%s", port, bracketed(a)))
	}
	return targets
}

// createRemotes makes a database that has its server listen on a socket for readers alone.
func createRemotes(file, socket string) []string {
	rows := `["Weft_Remotes", {"op": "insert", "table": "Connection", "uuid-name": "reader", "row": {"target": "punix:` + socket + `", "read_only": true}},
		{"op": "insert", "table": "Remotes", "row": {"connections": ["named-uuid", "reader"]}}]`
	return []string{"sh", "-ec", `
		rm -f "$0" && mkdir -p "$(dirname "$1")"
		printf %s "$2" > "$0.ovsschema"
		ovsdb-tool create "$0" "$0.ovsschema" && ovsdb-tool transact "$0" "$3"`, file, socket, remotesSchema, rows}
}

// createDatabase makes an OVSDB file where there is none.
func createDatabase(file, schema string) []string {
	return []string{"sh", "-c", `[ -e "$0" ] || exec ovsdb-tool create "$0" "$1"`, file, schema}
}
