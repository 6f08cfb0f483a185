//go:build ansible

package ansible

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/node/tunnel"
)

// windowsNode has a Node, an agent that takes a chassis host's streams, and Open vSwitch, all where Ansible runs. What
// else makes a Windows node, its pods above all, is in the lab with nodes (test/e2e); how Ansible comes to one is in
// test/ansible/windows.
const windowsNode = "w1"

// chassisHostsServeWindowsNodes: the role's daemon runs, confined by its unit and by certificates of the pki role, the
// ovn-controller of a node that has none; when its host is lost, another one does; and hosts that are chassis hosts no
// longer have nothing of one left.
func chassisHostsServeWindowsNodes(t *testing.T) {
	if *windows {
		t.Skip("the lab has a Windows node of that name")
	}
	install(t)
	address := servers.Must(t, "control", "--", "sh", "-ec", "set -- $(ip -4 -o address show dev eth0) && echo ${4%/*}")
	with := withWindowsNode(t, address)
	play(t, "controllers.yml", with...)
	startWindowsNode(t, address)

	holder := chassisHost(t, centrals)
	held := servers.On(t, holder, "ovn-sbctl", "--no-leader-only", "--db=unix:/run/ovn/ovnsb_db.sock", "--bare",
		"--columns=hostname", "find", "Chassis", "name="+windowsNode)
	if held != windowsNode {
		t.Errorf("the Southbound has no chassis of %s: %q", windowsNode, held)
	}
	for _, central := range centrals {
		if mode := servers.On(t, central, "stat", "-c", "%a %U", "/etc/weft/pki/chassis/"+windowsNode+
			".key"); mode != "600 weft" {
			t.Errorf("%s: the node's key is %s", central, mode)
		}
	}
	changesNothing(t, "controllers.yml", with...)
	play(t, "verify.yml", append(with, "--limit", "weft_central")...)

	servers.Must(t, "off", holder)
	t.Cleanup(func() { servers.Must(t, "on", holder) })
	lost := time.Now()
	others := slices.DeleteFunc(slices.Clone(centrals), func(c string) bool { return c == holder })
	t.Logf("Without %s, %s works for %s after %s", holder, chassisHost(t, others), windowsNode,
		time.Since(lost).Round(100*time.Millisecond))
	servers.Must(t, "on", holder)
	eventually(t, 2*time.Minute, holder+" is back", func() error {
		_, err := servers.Try("exec", holder, "--", "curl", "-fsS", "http://127.0.0.1:9472/healthz")
		return err
	})

	play(t, "retire.yml")
	for _, central := range centrals {
		if left := servers.On(t, central, "sh", "-c", "ls -d /etc/systemd/system/weft-chassis* /etc/weft/chassis* "+
			"/etc/weft/pki/chassis /etc/weft/pki/kubernetes-chassis* /etc/weft/pki/tunnel.* /run/weft-chassis 2> /dev/null; "+
			"pgrep -a ovn-controller || true"); left != "" {
			t.Errorf("%s is no chassis host any more, and has %s", central, left)
		}
	}
}

// withWindowsNode are arguments of plays that know the node, by the address at which Ansible would reach it.
func withWindowsNode(t testing.TB, address string) []string {
	t.Helper()
	inventory := filepath.Join(t.TempDir(), "windows.ini")
	if err := os.WriteFile(inventory, []byte("[weft_windows_nodes]\n"+windowsNode+" ansible_host="+address+"\n"),
		0o644); err != nil {
		t.Fatal(err)
	}
	return []string{"--inventory", servers.Must(t, "control", "--", "printenv", "ANSIBLE_INVENTORY"), "--inventory",
		inventory}
}

// issueAgentCertificate of the Windows node by the pki role, and tells its name: on the control machine, in
// ~/.weft/pki/tunnel, are NAME.crt, NAME.key and trust.crt.
func issueAgentCertificate(t testing.TB) string {
	t.Helper()
	name := tunnel.AgentName(windowsNode)
	certificate := fmt.Sprintf(`{"weft_certificate": {"authority": "tunnel", "name": %q, "usage": ["serverAuth"]}}`, name)
	issue := servers.Command("control", "--", "ansible", "c1", "--module-name", "include_role", "--args",
		"name=pki tasks_from=certificate", "--extra-vars", certificate)
	issue.Dir = repository()
	if out, err := issue.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return name
}

// chassisHost is the one of hosts that has the Windows node's Lease and says that its ovn-controller is connected.
func chassisHost(t testing.TB, hosts []string) string {
	t.Helper()
	holder := ""
	eventually(t, time.Minute, "a chassis host works for "+windowsNode, func() error {
		var err error
		if holder, err = leaseHolder("weft-chassis-"+windowsNode, hosts...); err != nil {
			return err
		}
		states, err := servers.Try("exec", holder, "--", "curl", "-sS", "http://127.0.0.1:9472/readyz")
		if err == nil && !strings.Contains(states, windowsNode+" connected") {
			err = fmt.Errorf("%s says %s", holder, states)
		}
		return err
	})
	return holder
}

// startWindowsNode ends with the test.
func startWindowsNode(t testing.TB, address string) {
	t.Helper()
	dir := t.TempDir()
	servers.Must(t, "control", "--", "sh", "-ec", `cd ~/.weft/pki/tunnel && cp "$1.crt" "$1.key" trust.crt "$0"`, dir,
		issueAgentCertificate(t))

	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	agent := servers.Command("control", "--", program, "-windows-node", dir, "-address", address)
	var said strings.Builder
	agent.Stdout, agent.Stderr = &said, &said
	stdin, err := agent.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := agent.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		stdin.Close()
		if err := agent.Wait(); err != nil || t.Failed() {
			t.Logf("the agent of %s: %v\n%s", windowsNode, err, said.String())
		}
	})

	facts := contract.NodeFacts{Chassis: windowsNode, MTU: 1400, OS: contract.Windows,
		Addresses: []netip.Addr{netip.MustParseAddr(address)},
		Hosted:    &contract.Hosted{Address: net.JoinHostPort(address, fmt.Sprint(tunnel.Port))}}
	object, err := json.Marshal(corev1.Node{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Node"},
		ObjectMeta: metav1.ObjectMeta{Name: windowsNode, Labels: map[string]string{corev1.LabelOSStable: "windows"},
			Annotations: map[string]string{contract.NodeFactsAnnotation: contract.Format(facts)}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if out, err := servers.TryWith(string(object), "kubectl", "--", "create", "--filename=-"); err != nil {
		t.Fatal(out, err)
	}
	t.Cleanup(func() {
		servers.Kubectl(t, "delete", "node", windowsNode)
		servers.On(t, "c1", "sh", "-ec", "ovn-sbctl --timeout=10 --no-leader-only --db=unix:/run/ovn/ovnsb_db.sock "+
			"--if-exists chassis-del "+windowsNode)
	})
}

// beWindowsNode runs Open vSwitch, with a datapath that touches no device, and serves it to chassis hosts, until
// standard input ends.
func beWindowsNode(dir, address string) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	socket := func(name string) string { return filepath.Join(dir, name) }
	var children []*exec.Cmd
	defer func() {
		cancel()
		for _, child := range children {
			child.Wait() // killed by the end of ctx
		}
	}()
	command := func(name string, args ...string) *exec.Cmd {
		cmd := exec.CommandContext(ctx, name, args...)
		cmd.Env = append(os.Environ(), "OVS_RUNDIR="+dir)
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		return cmd
	}
	start := func(name string, args ...string) error {
		child := command(name, append(args, "-vconsole:warn", "-vsyslog:off", "--no-chdir")...)
		children = append(children, child)
		return child.Start()
	}
	database := "unix:" + socket("db.sock")
	tool, err := exec.LookPath("ovsdb-tool") // of bin/lab/ovn
	if err != nil {
		return err
	}
	schema := filepath.Join(filepath.Dir(tool), "../share/openvswitch/vswitch.ovsschema")
	if err := command(tool, "create", socket("conf.db"), schema).Run(); err != nil {
		return err
	}
	if err := start("ovsdb-server", socket("conf.db"), "--remote=p"+database,
		"--unixctl="+socket("ovsdb-server.ctl")); err != nil {
		return err
	}
	if err := command("ovs-vsctl", "--db="+database, "--retry", "--timeout=20", "--no-wait", "init", "--", "set",
		"open_vswitch", ".",
		"external_ids:system-id="+windowsNode, "external_ids:hostname="+windowsNode, "external_ids:ovn-encap-type=geneve",
		"external_ids:ovn-encap-ip="+address,
		"external_ids:ovn-bridge=br-int", "external_ids:ovn-bridge-datapath-type=netdev", "external_ids:ovn-monitor-all=true",
		"--", "add-br", "br-int", "--", "set", "bridge", "br-int", "datapath_type=netdev",
		"fail_mode=secure").Run(); err != nil {
		return err
	}
	if err := start("ovs-vswitchd", database, "--enable-dummy=override", "--disable-system",
		"--unixctl="+socket("ovs-vswitchd.ctl")); err != nil {
		return err
	}
	listener, err := net.Listen("tcp", net.JoinHostPort(address, fmt.Sprint(tunnel.Port)))
	if err != nil {
		return err
	}
	to := func(name string) func(context.Context) (net.Conn, error) {
		return func(ctx context.Context) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", socket(name))
		}
	}
	name := socket(tunnel.AgentName(windowsNode))
	err = tunnel.Serve(ctx, listener, tunnel.ServerConfig{
		Credentials: tunnel.Files(socket("trust.crt"), name+".crt", name+".key"),
		Targets: map[tunnel.Target]tunnel.Service{tunnel.OVSDB: {Peer: tunnel.HostName, Open: to("db.sock")},
			tunnel.OpenFlow: {Peer: tunnel.HostName, Open: to("br-int.mgmt")}},
	})
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}
