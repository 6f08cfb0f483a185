package hits

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netns"

	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/node/nodetest"
	"github.com/weftnet/weft/node/openflow"
	"github.com/weftnet/weft/ovn"
	"github.com/weftnet/weft/ovn/manifest"
	"github.com/weftnet/weft/ovn/northbound"
	"github.com/weftnet/weft/ovn/settings"
	"github.com/weftnet/weft/ovsdb"
	"github.com/weftnet/weft/ovsdb/ovsdbtest"
)

func TestMain(m *testing.M) { nodetest.Main(m) }

// objects are policies whose decisions are logged, and their pods.
const objects = `
{apiVersion: v1, kind: Namespace, metadata: {name: prod, annotations: {weft.net/acl-logging: '{"deny":"warning","allow":"info"}'}}}
---
{apiVersion: v1, kind: Node, metadata: {name: n1, annotations: {weft.net/node-facts: '{"chassis": "chassis-1", "mtu": 1400}'}}}
---
{apiVersion: v1, kind: Pod, metadata: {namespace: prod, name: web, labels: {app: web}}, spec: {nodeName: n1}}
---
{apiVersion: v1, kind: Pod, metadata: {namespace: prod, name: db, labels: {app: db}}, spec: {nodeName: n1, containers: [{name: c, ports: [{name: sql, containerPort: 8080}]}]}}
---
{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {namespace: prod, name: db}, spec: {podSelector: {matchLabels: {app: db}}, ingress: [{from: [{podSelector: {matchLabels: {app: web}}}], ports: [{port: sql}, {port: 8081, endPort: 8085}]}]}}
---
{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {namespace: prod, name: nobody}, spec: {podSelector: {matchLabels: {app: nobody}}}}
---
{apiVersion: policy.networking.k8s.io/v1alpha2, kind: ClusterNetworkPolicy, metadata: {name: guard}, spec: {tier: Admin, priority: 7, subject: {namespaces: {}}, egress: [
  {action: Deny, to: [{networks: [0.0.0.0/0]}], protocols: [{udp: {}}]}, {action: Pass, to: [{namespaces: {}}]}]}}`

// forbidden lets nobody say that all is as ever: users may ask every second.
type forbidden struct {
	slog.Handler
	t *testing.T
}

func (f forbidden) Enabled(context.Context, slog.Level) bool { return true }

func (f forbidden) Handle(ctx context.Context, r slog.Record) error {
	f.t.Errorf("a reading that succeeds logs %q", r.Message)
	return f.Handler.Handle(ctx, r)
}

func (f forbidden) WithAttrs(attrs []slog.Attr) slog.Handler {
	return forbidden{f.Handler.WithAttrs(attrs), f.t}
}

// TestHitsOfARealOVN lets packets meet rules, and finds them counted where they belong.
func TestHitsOfARealOVN(t *testing.T) {
	o := nodetest.StartOVN(t)
	o.VS("set", "Open_vSwitch", ".", "external_ids:system-id=chassis-1", "external_ids:hostname=n1",
		"external_ids:ovn-remote="+o.Southbound(),
		"external_ids:ovn-encap-type=geneve", "external_ids:ovn-encap-ip=127.0.0.1", "external_ids:ovn-bridge-datapath-type="+
			nodetest.Datapath())
	o.VS("--may-exist", "add-br", "br-int", "--", "set", "Bridge", "br-int", "datapath_type="+nodetest.Datapath(),
		"fail_mode=secure")
	set, err := manifest.Read(strings.NewReader(objects), "prod", "-")
	if err != nil {
		t.Fatal(err)
	}
	config := settings.DefaultConfig()
	config.Northbound, config.PodCIDRs, config.ServiceCIDRs, config.JoinCIDRs = []string{o.Northbound()},
		[]string{"10.244.0.0/16"}, []string{"10.96.0.0/16"}, []string{"100.64.0.0/16"}
	offline, err := ovn.Translate(config, set.Objects)
	if err != nil {
		t.Fatal(err)
	}
	engine := ovsdb.NewEngine(ovsdbtest.Connect(t, ovsdbtest.Northbound(t), o.Northbound(), northbound.Tables...))
	if err := engine.Replace(t.Context(), offline.Changes); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"web", "db"} {
		plug(t, o, name, offline.Pods["prod/"+name])
	}
	o.NB("--timeout=100", "--wait=hv", "sync")

	log := slog.New(forbidden{ovsdbtest.Logger(t).Handler(), t})
	run := filepath.Dir(strings.TrimPrefix(o.OVSDatabase(), "unix:"))
	read := func() map[string]Count {
		t.Helper()
		// what the datapath has counted
		o.Run("ovs-appctl", "-t", filepath.Join(run, nodetest.Vswitchd+".ctl"), "revalidator/wait")
		list, err := Read(t.Context(), Config{
			Northbound: ovsdb.Config{Endpoints: o.Northbound(), Logger: log}, Southbound: ovsdb.Config{Endpoints: o.Southbound(),
				Logger: log},
			Dial: func(ctx context.Context, n Node) (net.Conn, error) {
				bridge, err := (&net.Dialer{}).DialContext(ctx, "unix", n.Address)
				if err != nil {
					return nil, err
				}
				return openflow.Counters(bridge), nil
			},
		}, []Node{{"n1", filepath.Join(run, "br-int.mgmt")}, {"gone", filepath.Join(run, "nosuch")}, {"old", ""}})
		if err != nil {
			t.Fatal(err)
		}
		if list.Asked != 3 || len(list.Unanswered) != 2 || list.Unanswered["gone"] == nil || list.Unanswered["old"] == nil {
			t.Errorf("%d nodes were asked, and these have not answered: %v", list.Asked, list.Unanswered)
		}
		counts := map[string]Count{}
		for _, c := range list.Counts {
			counts[c.Rule.Policy()+", "+RuleName(c.Rule)+", "+c.Action] = c
		}
		return counts
	}
	rules := []string{
		"NetworkPolicy prod/db, spec.ingress[0], port sql (8080/tcp), Accept",
		"NetworkPolicy prod/db, spec.ingress[0], Accept",
		"NetworkPolicy prod/db, isolation from ingress, Deny", "ClusterNetworkPolicy guard, spec.egress[0], Deny",
		"ClusterNetworkPolicy guard, spec.egress[1], Pass",
	}
	before := read()
	if len(before) != len(rules) {
		t.Errorf("these have flows on the node: %v", before)
	}
	for _, rule := range rules {
		if c, there := before[rule]; !there || c.Packets+c.Bytes != 0 {
			t.Errorf("%s: %+v, %t, before any packet", rule, c, there)
		}
	}
	db := offline.Pods["prod/db"].Addresses[0]
	for _, try := range []struct {
		network string
		port    int
		hit     []string
	}{
		{"tcp", 8080, []string{rules[0], rules[4]}},
		{"tcp", 8083, []string{rules[1], rules[4]}},
		{"tcp", 9000, []string{rules[2], rules[4]}},
		{"udp", 8080, []string{rules[3]}},
	} {
		before := read()
		knock(t, "web", try.network, fmt.Sprintf("%s:%d", db, try.port))
		hit := map[string]bool{}
		for _, rule := range try.hit {
			hit[rule] = true
		}
		nodetest.Eventually(t, 10*time.Second, func() error {
			after := read()
			for _, rule := range rules {
				packets, bytes := after[rule].Packets-before[rule].Packets, after[rule].Bytes-before[rule].Bytes
				if (packets > 0) != hit[rule] || (bytes >= 42*packets && bytes > 0) != hit[rule] {
					return fmt.Errorf("%s port %d: %s has %d packets and %d bytes more; it is hit: %t", try.network, try.port, rule,
						packets, bytes, hit[rule])
				}
			}
			return nil
		})
	}
}

// plug makes a network namespace with the interface of a pod.
func plug(t *testing.T, o *nodetest.OVN, name string, pod ovn.OfflinePod) {
	t.Helper()
	nodetest.Sandbox(t, name)
	script := fmt.Sprintf(`ip link add v-%[1]s type veth peer name eth0 netns %[1]s
ip -n %[1]s link set lo up
ip -n %[1]s link set eth0 address %[2]s up
ip netns exec %[1]s ethtool -K eth0 tx off >/dev/null
ip link set v-%[1]s up
ip -n %[1]s addr add %[3]s/24 dev eth0`, name, contract.MAC(pod.Addresses...), pod.Addresses[0])
	if output, err := exec.Command("sh", "-ec", script).CombinedOutput(); err != nil {
		t.Fatalf("plug %s: %v\n%s", name, err, output)
	}
	o.VS("add-port", "br-int", "v-"+name, "--", "set", "Interface", "v-"+name, "external_ids:iface-id="+pod.Port,
		"external_ids:iface-id-ver=Pod/prod/"+name)
	nodetest.Eventually(t, 20*time.Second, func() error {
		if up := o.VS("--if-exists", "get", "Interface", "v-"+name, "external_ids:ovn-installed"); up != `"true"` {
			return fmt.Errorf("port %s is not installed", pod.Port)
		}
		return nil
	})
}

// knock sends the first packet of a connection from a network namespace; nobody need answer.
func knock(t *testing.T, namespace, network, to string) {
	t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	home, err := netns.Get()
	if err != nil {
		t.Fatal(err)
	}
	defer home.Close()
	there, err := netns.GetFromName(namespace)
	if err != nil {
		t.Fatal(err)
	}
	defer there.Close()
	if err := netns.Set(there); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := netns.Set(home); err != nil {
			panic(err) // the thread is lost to the tests
		}
	}()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	conn, err := (&net.Dialer{}).DialContext(ctx, network, to)
	if err != nil {
		return // refused by a rule, or by a host that does not listen
	}
	defer conn.Close()
	if _, err := conn.Write([]byte("?")); err != nil && !os.IsTimeout(err) {
		t.Fatal(err)
	}
}
