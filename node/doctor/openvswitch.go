package doctor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weftnet/weft/models/vswitch"
	"github.com/weftnet/weft/node/dpctl"
	"github.com/weftnet/weft/ovsdb"
)

// openVSwitch is what a node's Open_vSwitch database says.
type openVSwitch struct {
	Root    *vswitch.OpenvSwitch // nil in an empty database
	Bridges []*vswitch.Bridge
	// Ports has the name of each port by its UUID.
	Ports      map[string]string
	Interfaces []*vswitch.Interface
	SSL        *vswitch.SSL // nil where none is set
}

func (o *openVSwitch) bridge(name string) *vswitch.Bridge {
	if i := slices.IndexFunc(o.Bridges, func(b *vswitch.Bridge) bool { return b.Name == name }); i >= 0 {
		return o.Bridges[i]
	}
	return nil
}

var vswitchTables = []ovsdb.Table{
	{Model: &vswitch.OpenvSwitch{}, Read: []string{"bridges", "ovs_version", "db_version", "cur_cfg", "next_cfg", "ssl",
		"datapath_types", "iface_types"}},
	{Model: &vswitch.Bridge{}, Read: []string{"name", "ports", "datapath_type", "fail_mode"}},
	{Model: &vswitch.Port{}, Read: []string{"name", "interfaces"}},
	{Model: &vswitch.Interface{}, Read: []string{"name", "type", "ofport", "error", "options"}},
	{Model: &vswitch.SSL{}, Read: []string{"ca_cert", "certificate", "private_key"}},
}

// vswitchReader reads the node's database.
type vswitchReader interface {
	OpenVSwitch(ctx context.Context) (*openVSwitch, error)
}

// vswitchDatabase is the database behind connection methods such as unix:PATH.
type vswitchDatabase struct {
	endpoints string
	dial      func(context.Context, ovsdb.Endpoint) (net.Conn, error)
}

func (d vswitchDatabase) OpenVSwitch(ctx context.Context) (*openVSwitch, error) {
	endpoints, err := ovsdb.ParseEndpoints(d.endpoints)
	if err != nil {
		return nil, err
	}
	if err := reachAny(ctx, endpoints, d.dial); err != nil {
		return nil, err // the client below would wait for it, and not say why
	}
	model, err := vswitch.FullDatabaseModel()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	client, err := ovsdb.Connect(ctx, ovsdb.Config{
		Endpoints: d.endpoints, Model: model, Tables: vswitchTables, Dial: d.dial,
		Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return nil, err
	}
	defer client.Close()
	o := &openVSwitch{
		Bridges: ovsdb.List[vswitch.Bridge](client, nil), Interfaces: ovsdb.List[vswitch.Interface](client, nil),
		Ports: map[string]string{},
	}
	for _, root := range ovsdb.List[vswitch.OpenvSwitch](client, nil) {
		o.Root = root
	}
	for _, ssl := range ovsdb.List[vswitch.SSL](client, nil) {
		o.SSL = ssl
	}
	for _, port := range ovsdb.List[vswitch.Port](client, nil) {
		o.Ports[port.UUID] = port.Name
	}
	return o, nil
}

// reachAny dials until one answers.
func reachAny(ctx context.Context, endpoints []ovsdb.Endpoint, dial func(context.Context, ovsdb.Endpoint) (net.Conn,
	error)) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	var problems []error
	for _, endpoint := range endpoints {
		conn, err := dial(ctx, endpoint)
		if err == nil {
			return conn.Close()
		}
		problems = append(problems, fmt.Errorf("%s: %w", endpoint, err))
	}
	return errors.Join(problems...)
}

// checkOVSDatabase: the agent and ovn-controller do all their work by the node's database.
func checkOVSDatabase(ctx context.Context, config Config, reader vswitchReader) []Finding {
	const s = subject("ovs-database")
	o, err := reader.OpenVSwitch(ctx)
	if err != nil {
		return s.failed("start ovsdb-server, or correct ovs-database; run this as root or an administrator, who alone may "+
			"open its socket or pipe", "%v", err)
	}
	if o.Root == nil {
		return s.failed("run `ovs-vsctl --no-wait init`, as the openvswitch service does", "%s is empty", config.OVSDatabase)
	}
	return s.ok("%s answers, with %d bridges", config.OVSDatabase, len(o.Bridges))
}

// checkVswitchd: the database's columns are ovs-vswitchd's last word, so it is also asked itself. early:
// it has no datapath yet, since on Windows that comes with the extension, which the agent enables. Until then
// it ends if the database has a bridge. Without one it runs, and the agent's first start waits for it.
func checkVswitchd(ctx context.Context, early bool, reader vswitchReader,
	openFlow func(context.Context) error) []Finding {
	const s = subject("ovs-vswitchd")
	const remedy = "start ovs-vswitchd, and see its log if it does not stay up"
	o, err := reader.OpenVSwitch(ctx)
	if err != nil || o.Root == nil {
		return s.unknown("", "there is no database to ask")
	}
	fail := s.failed
	if early {
		fail = func(_, format string, args ...any) []Finding {
			todo := remedy + "; the agent's first start waits for it"
			if len(o.Bridges) > 0 {
				todo = "look again when the agent runs; with a bridge it cannot work before the agent has enabled the extension"
			}
			return s.warning(todo, format, args...)
		}
	}
	if len(o.Root.IfaceTypes) == 0 {
		return fail(remedy, "ovs-vswitchd has never run with this database: it has not said which types of interfaces "+
			"it knows")
	}
	if o.Root.CurCfg < o.Root.NextCfg {
		return fail(remedy, "ovs-vswitchd is at configuration %d of %d: it does not run, or is stuck", o.Root.CurCfg,
			o.Root.NextCfg)
	}
	if o.bridge("br-int") == nil {
		return s.unknown("", "there is no br-int to ask it by; the agent makes it")
	}
	if err := openFlow(ctx); err != nil {
		return fail(remedy, "br-int does not answer OpenFlow: %v", err)
	}
	return s.ok("br-int answers OpenFlow")
}

// checkUpcalls: a packet without a flow in the datapath is ovs-vswitchd's to judge, and one that takes no such packets
// looks well from outside. It is not asked before there is a bridge: on Windows, the question would end an ovs-vswitchd
// whose extension is not enabled yet, and one that has a bridge ends by itself then (lost_communication in
// lib/netlink-socket.c).
func checkUpcalls(ctx context.Context, daemons daemonControl, reader vswitchReader) []Finding {
	const s = subject("upcalls")
	o, err := reader.OpenVSwitch(ctx)
	if err != nil || o.bridge("br-int") == nil {
		return nil // see the checks ovs-database and ovs-vswitchd
	}
	answer, err := daemons.Control(ctx, "ovs-vswitchd", dpctl.Show)
	if errors.Is(err, errAbsent) || errors.Is(err, fs.ErrNotExist) {
		return nil // see the check ovs-vswitchd
	}
	const itself = "run `ovs-appctl " + dpctl.Show + "`, and look at the line lookups"
	if err != nil {
		return s.unknown(itself, "ovs-vswitchd does not tell of its datapath: %v", err)
	}
	datapaths, err := dpctl.ParseShow(answer)
	if err != nil {
		return s.unknown(itself, "ovs-vswitchd's answer cannot be read: %v", err)
	}
	var findings []Finding
	for _, d := range datapaths {
		if d.UpcallsLost() {
			findings = append(findings, s.failed("run `systemctl restart ovs-vswitchd`. So that it does not come back with "+
				"the next boot, install Open vSwitch 3.1.1 or later, or run the playbook site.yml, which has ovs-vswitchd 3.1.0 "+
				"wait for the 11th second",
				"no packet reaches ovs-vswitchd: datapath %s has lost all %d that it had no flow for. So neither the host's "+
					"bridges nor pods have a network. Version 3.1.0, which Debian 12 has, does that if it starts in the first "+
					"10 seconds after the boot: it then counts no processors, and has no thread that takes packets",
				d.Name, d.Missed)...)
		}
	}
	if len(findings) == 0 {
		return s.ok("the datapath does not lose all packets that are for ovs-vswitchd")
	}
	return findings
}

// helloOpenFlow waits for the message with which every OpenFlow switch begins.
func helloOpenFlow(ctx context.Context, conn net.Conn) error {
	defer conn.Close()
	if deadline, ok := ctx.Deadline(); ok {
		if err := conn.SetDeadline(deadline); err != nil {
			return err
		}
	}
	// The switch offers OpenFlow 1.0 to 1.5; a hello of ours lets it end the connection in peace.
	if _, err := conn.Write([]byte{1, 0, 0, 8, 0, 0, 0, 1}); err != nil {
		return err
	}
	var header [8]byte // version, type, length, transaction
	if _, err := io.ReadFull(conn, header[:]); err != nil {
		return err
	}
	if header[1] != 0 {
		return fmt.Errorf("it begins with a message of type %d, and not with a hello", header[1])
	}
	return nil
}

// checkEncapsulation compares what ovn-controller is told in the database with the configuration.
func checkEncapsulation(ctx context.Context, config Config, reader vswitchReader) []Finding {
	const s = subject("chassis-settings")
	o, err := reader.OpenVSwitch(ctx)
	if err != nil || o.Root == nil {
		return s.unknown("", "there is no database to ask")
	}
	ids := o.Root.ExternalIDs
	if ids["ovn-encap-ip"] == "" && ids["ovn-remote"] == "" {
		return s.ok("not set yet; the agent sets them")
	}
	encapIP := ""
	if config.EncapAddress.IsValid() {
		encapIP = config.EncapAddress.String()
	}
	var wrong []string
	for key, want := range map[string]string{
		"ovn-encap-ip": encapIP, "ovn-remote": config.OVNSouthbound, "ovn-encap-type": "geneve",
	} {
		if ids[key] != want && want != "" {
			wrong = append(wrong, fmt.Sprintf("%s is %q and not %q", key, ids[key], want))
		}
	}
	if len(wrong) > 0 {
		slices.Sort(wrong)
		return s.warning("start the agent, which sets them; if it runs, another program writes them too", "%s",
			strings.Join(wrong, "; "))
	}
	if ids["system-id"] == "" {
		return s.failed("start the agent, which sets it", "the chassis has no name (system-id)")
	}
	return s.ok("chassis %s, tunnels end at %s", ids["system-id"], ids["ovn-encap-ip"])
}

// internalPortRemedy: Hyper-V's management makes the vNIC of each port of type internal (lib/wmi.c).
const internalPortRemedy = "run `Start-Service vmms`, which makes the vNICs of ports of type internal; the agent has " +
	"Open vSwitch try again within half a minute. " +
	"If vmms runs: see the check extension-switches, and the log of ovs-vswitchd"

// checkBridges: what Open vSwitch could not open is in the interfaces' rows.
func checkBridges(ctx context.Context, os string, config Config, reader vswitchReader) []Finding {
	const s = subject("bridges")
	o, err := reader.OpenVSwitch(ctx)
	if err != nil || o.Root == nil {
		return s.unknown("", "there is no database to ask")
	}
	bridge := o.bridge("br-int")
	if bridge == nil {
		return s.ok("no br-int yet; the agent makes it")
	}
	var findings []Finding
	if bridge.FailMode == nil || *bridge.FailMode != vswitch.BridgeFailModeSecure {
		findings = append(findings, s.warning("start the agent, which sets it", "br-int's fail_mode is not secure: it "+
			"forwards everything while it has no controller")...)
	}
	if bridge.DatapathType != config.DatapathType && config.DatapathType != "" &&
		(bridge.DatapathType != "" || config.DatapathType != "system") {
		findings = append(findings, s.warning("start the agent, which sets it", "br-int's datapath_type is %q and not %q",
			bridge.DatapathType, config.DatapathType)...)
	}
	var broken []string
	remedy := "a pod's device that is gone is swept by the agent; any other needs its device, or `ovs-vsctl del-port`"
	for _, device := range o.Interfaces {
		if device.Error != nil && *device.Error != "" {
			broken = append(broken, fmt.Sprintf("%s (%s)", device.Name, *device.Error))
			if os == "windows" && device.Type == "internal" {
				remedy = internalPortRemedy
			}
		}
	}
	if len(broken) > 0 {
		slices.Sort(broken)
		findings = append(findings, s.warning(remedy, "Open vSwitch cannot open %d of %d interfaces: %s", len(broken),
			len(o.Interfaces), shorten(broken, 5))...)
	}
	if len(findings) == 0 {
		return s.ok("br-int has %d ports, and Open vSwitch has opened all %d interfaces", len(bridge.Ports),
			len(o.Interfaces))
	}
	return findings
}

// shorten lists the first few.
func shorten(list []string, most int) string {
	if len(list) <= most {
		return strings.Join(list, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(list[:most], ", "), len(list)-most)
}

// release is a version of Open vSwitch, its first two numbers.
type release struct{ major, minor int }

var releasePattern = regexp.MustCompile(`^(\d{1,4})\.(\d{1,4})(?:[.\-+~].*)?$`)

func parseRelease(version string) (release, bool) {
	match := releasePattern.FindStringSubmatch(version)
	if match == nil {
		return release{}, false
	}
	major, _ := strconv.Atoi(match[1]) // the pattern lets digits through, and no more than an int holds
	minor, _ := strconv.Atoi(match[2])
	return release{major, minor}, true
}

func (r release) before(major, minor int) bool {
	return r.major < major || r.major == major && r.minor < minor
}

// checkOVSVersion knows the releases' limits.
func checkOVSVersion(ctx context.Context, os string, config Config, daemons daemonControl,
	reader vswitchReader) []Finding {
	const s = subject("ovs-version")
	version, err := vswitchVersion(ctx, daemons, reader)
	if err != nil {
		return s.unknown("run `ovs-vswitchd --version`", "%v", err)
	}
	r, understood := parseRelease(version)
	if !understood {
		return s.unknown("run `ovs-vswitchd --version`", "%q is not a version as Open vSwitch writes them", version)
	}
	if os == "windows" {
		return assessWindowsRelease(s, version, r)
	}
	switch {
	case r.before(2, 16):
		return s.failed("install Open vSwitch 3.5 or later", "%s is older than what OVN 24.03 and later work with", version)
	case r.before(3, 3) && config.DatapathType == "netdev":
		// Seen with 3.1.0: ovs-vswitchd aborts at conntrack.c:1063. 3.5.0 does not.
		return s.warning("install Open vSwitch 3.5 or later", "%s: the userspace datapath of 3.1 aborts under load in "+
			"connection tracking; from 3.5 on that was not seen", version)
	}
	return s.ok("%s", version)
}

// assessWindowsRelease knows when the Hyper-V datapath became fit for OVN's packets, from the log of datapath-windows/
// in Open vSwitch's repository: before 3.6 (defb8f33f) its driver follows a null reference when a packet that
// ovs-vswitchd sends has no input port, as those have that OVN sends. It was removed (232a254fa) after 3.7.
func assessWindowsRelease(s subject, version string, r release) []Finding {
	const remedy = "install Open vSwitch 3.7, the last line with a Windows datapath"
	switch {
	case !r.before(3, 8):
		return s.failed(remedy, "%s: there is no Windows datapath after 3.7", version)
	case r.before(3, 6):
		return s.failed(remedy, "%s: its driver stops the machine (blue screen) when OVN sends a packet without an input "+
			"port, which 3.6 repaired", version)
	}
	return s.ok("%s; 3.7 is the last line with a Windows datapath", version)
}

// openFlowEndpoint is where br-int takes OpenFlow connections: as configured, or beside the database.
func openFlowEndpoint(config Config) (ovsdb.Endpoint, error) {
	connection := config.OVSOpenFlow
	if connection == "" {
		first, _, _ := strings.Cut(config.OVSDatabase, ",")
		socket, isUnix := strings.CutPrefix(first, "unix:")
		if !isUnix {
			return ovsdb.Endpoint{}, fmt.Errorf("ovs-database %q is no socket that br-int's could be beside; set ovs-openflow",
				config.OVSDatabase)
		}
		connection = "unix:" + socket[:strings.LastIndexAny(socket, `/\`)+1] + "br-int.mgmt"
	}
	endpoints, err := ovsdb.ParseEndpoints(connection)
	if err != nil {
		return ovsdb.Endpoint{}, err
	}
	return endpoints[0], nil
}
