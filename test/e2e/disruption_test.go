//go:build cluster

package e2e

import (
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weftnet/weft/test/companion"
)

// TestEveryComponentMayDie kills one component after the other under traffic. Established
// connections live on, new pods come up afterwards, and the Northbound is the same text as before.
func TestEveryComponentMayDie(t *testing.T) {
	for _, victim := range []struct {
		node, component string
		breaks          bool // what packets pass through: only recovery is asked of it
		long            bool // left out where tests are short
	}{
		{node: "central", component: "weft-controller"},
		{node: "central", component: "ovn-northd", long: true},
		{node: "central", component: "ovn-nb", long: true},
		{node: "central", component: "ovn-sb"},
		{node: "central", component: "weft-southbound", long: true},
		{node: "central", component: "kube-apiserver"},
		{node: "central", component: "etcd", long: true},
		{node: "l1", component: "weft-node"},
		{node: "l1", component: "ovn-controller", long: true},
		{node: "l1", component: "ovsdb-server", long: true},
		{node: "l1", component: "kubelet", long: true},
		{node: "l1", component: "ovs-vswitchd", breaks: true},
		{node: "w1", component: "weft-node"},
		{node: "w1", component: "ovsdb-server", long: true},
		{node: "w1", component: "kubelet", long: true},
		{node: "w1", component: "ovs-vswitchd", breaks: true},
		{node: "w1", component: chassisHost},
	} {
		if victim.long && testing.Short() {
			continue
		}
		ways := []string{"kill"}
		if *thorough {
			ways = append(ways, "restart")
		}
		for _, how := range ways {
			t.Run(how+" "+victim.component, func(t *testing.T) {
				before := northboundAtRest(t)
				traffic := startTraffic(t)
				node, component, newPodsNode := victim.node, victim.component, "l1"
				switch {
				case component == "weft-controller":
					component = leader(t)
				case component == chassisHost:
					node = hostOf(t, victim.node)
				}
				if strings.HasPrefix(victim.node, "w") {
					newPodsNode = victim.node
				}
				cluster.Must(t, how, node, component)
				aPodComesUp(t, newPodsNode)
				for _, report := range companion.Stop[report](t, traffic) {
					t.Logf("%s: %d answers, longest gap %d ms", report.Name, report.Answers, report.LongestGapMs)
					if report.Error != "" && !victim.breaks {
						t.Errorf("connection %s broke: %s", report.Name, report.Error)
					}
				}
				eventually(t, 60*time.Second, "the Northbound is as before", func() error {
					if after := northbound(t); !slices.Equal(after, before) {
						return fmt.Errorf("it differs: %s", difference(before, after))
					}
					return nil
				})
			})
		}
	}
}

const chassisHost = "weft-chassis"

// hostOf is the machine whose `weft chassis` runs a Windows node's ovn-controller.
func hostOf(t testing.TB, node string) string {
	t.Helper()
	return cluster.Kubectl(t, "get", "lease", "-n", "kube-system", "weft-chassis-"+node, "-o",
		"jsonpath={.spec.holderIdentity}")
}

// leader is the component that leads of the two controllers.
func leader(t *testing.T) string {
	t.Helper()
	return cluster.Kubectl(t, "get", "lease", "-n", "kube-system", "weft-controller", "-o",
		"jsonpath={.spec.holderIdentity}")
}

// aPodComesUp creates a pod on the node, reaches it from another node, and deletes it.
func aPodComesUp(t *testing.T, node string) {
	t.Helper()
	name := makeProbe(t, node)
	comesUp(t, name)
	deletePod(t, name)
}

// makeProbe has a pod on a node, which need not be ready yet.
func makeProbe(t *testing.T, node string) string {
	t.Helper()
	name := "probe-" + strings.ToLower(fmt.Sprintf("%x", time.Now().UnixNano()))
	manifest := fmt.Sprintf(podTemplate, node, image, steady())
	manifest = strings.NewReplacer(web(node), name, "app: web", "app: probe").Replace(manifest)
	eventually(t, 60*time.Second, "the API server takes a pod", func() error {
		_, err := cluster.TryWith(manifest, "kubectl", "--", "apply", "-f", "-")
		return err
	})
	return name
}

// comesUp waits until a pod is ready and answers at all of its addresses.
func comesUp(t *testing.T, name string) {
	t.Helper()
	eventually(t, 120*time.Second, "a new pod is ready", func() error {
		_, err := cluster.Try("kubectl", "--", "wait", "--for=condition=Ready", "--timeout=10s", "pod/"+name)
		return err
	})
	for _, addr := range podAddresses(t, name) {
		eventually(t, 60*time.Second, fmt.Sprintf("%s answers at %s", name, addr), func() error {
			_, err := get(web("l2"), addr, 8080, "hostname")
			return err
		})
	}
}

func deletePod(t *testing.T, name string) {
	t.Helper()
	eventually(t, 60*time.Second, "the pod is deleted", func() error {
		_, err := cluster.Try("kubectl", "--", "delete", "pod", name, "--ignore-not-found", "--timeout=30s")
		return err
	})
}

// northbound is every row of the Northbound but the counters.
func northbound(t *testing.T) []string {
	t.Helper()
	command := []string{"nbctl", "--", "--no-headings", "--format=csv"}
	for _, table := range []string{"Logical_Switch", "Logical_Switch_Port", "Logical_Router", "Logical_Router_Port",
		"Logical_Router_Static_Route", "Logical_Router_Policy", "NAT", "Load_Balancer", "Load_Balancer_Group",
		"Port_Group", "Address_Set", "ACL", "Static_MAC_Binding", "Chassis_Template_Var", "HA_Chassis_Group", "HA_Chassis"} {
		command = append(command, "--", "list", table)
	}
	var out string
	eventually(t, 30*time.Second, "the Northbound is readable", func() (err error) {
		out, err = cluster.Try(command...)
		return err
	})
	rows := slices.DeleteFunc(strings.Split(out, "\n"), func(row string) bool { return row == "" })
	if len(rows) == 0 {
		t.Fatal("the Northbound has no rows")
	}
	slices.Sort(rows)
	return rows
}

// northboundAtRest is the Northbound with nothing in it that goes by itself: the rows of a Service that a test before
// has deleted, and those that flush its connections a while later.
func northboundAtRest(t *testing.T) []string {
	t.Helper()
	var rows []string
	eventually(t, 60*time.Second, "the Northbound rests", func() error {
		services := strings.Fields(cluster.Kubectl(t, "get", "services", "-A", "-o",
			`jsonpath={range .items[*]}{.metadata.namespace}/{.metadata.name}{"\n"}{end}`))
		rows = northbound(t)
		for _, row := range rows {
			switch owner := ownerIn.FindStringSubmatch(row); {
			case owner == nil:
			case owner[1] == "Flush":
				return fmt.Errorf("connections are still to be flushed: %s", row)
			case owner[1] == "Service" && !slices.Contains(services, owner[2]):
				return fmt.Errorf("Service %s is gone, and has the row %s", owner[2], row)
			}
		}
		return nil
	})
	return rows
}

// ownerIn finds kind and name of a row's owner, as CSV has them.
var ownerIn = regexp.MustCompile(`""weft\.net/owner""=""(\w+)/([^"]+)""`)

func difference(before, after []string) string {
	var out strings.Builder
	for _, row := range before {
		if !slices.Contains(after, row) {
			fmt.Fprintln(&out, "-", row)
		}
	}
	for _, row := range after {
		if !slices.Contains(before, row) {
			fmt.Fprintln(&out, "+", row)
		}
	}
	return out.String()
}

type report struct {
	Name         string
	Answers      int
	LongestGapMs int64 `json:"longestGapMs"`
	Error        string
}

// startTraffic opens connections from l1's pod to others, and to a Service.
func startTraffic(t *testing.T) *companion.Program {
	t.Helper()
	var targets []string
	for _, to := range []string{"l2", "w1"} {
		for _, addr := range podAddresses(t, web(to)) {
			targets = append(targets, fmt.Sprintf("%s/%s=%s", to, addr, netip.AddrPortFrom(addr, 7000)))
		}
	}
	for _, addr := range clusterAddresses(t, "web") {
		targets = append(targets, fmt.Sprintf("service/%s=%s", addr, netip.AddrPortFrom(addr, 7000)))
	}
	return inWeb(t, "l1").hold(t, targets...)
}

func podNamespace(t testing.TB, node string, addr netip.Addr) string {
	t.Helper()
	return cluster.Must(t, "exec", node, "--", "sh", "-c", fmt.Sprintf(
		"for n in /run/netns/* /var/run/netns/*; do nsenter --net=$n ip -o addr 2>/dev/null | grep -qF ' %s/' && echo $n "+
			"&& exit; done; exit 1", addr))
}

// TestRouterPortsAreBoundUnderTraffic: the ports of the router to nodes' switches are as a former version left them,
// until the controller binds them to the nodes. No connection ends over that.
func TestRouterPortsAreBoundUnderTraffic(t *testing.T) {
	traffic := startTraffic(t)
	for _, node := range nodes {
		port := "rtos-" + node
		cluster.Must(t, "nbctl", "--", "--wait=hv", "clear", "Logical_Router_Port", port, "ha_chassis_group")
		eventually(t, 30*time.Second, port+" is bound again", func() error {
			group, err := cluster.Try("nbctl", "--", "get", "Logical_Router_Port", port, "ha_chassis_group")
			if err == nil && strings.TrimSpace(group) == "[]" {
				err = fmt.Errorf("%s has no group", port)
			}
			return err
		})
	}
	cluster.Must(t, "nbctl", "--", "--wait=hv", "sync")
	for _, report := range companion.Stop[report](t, traffic) {
		t.Logf("%s: %d answers, longest gap %d ms", report.Name, report.Answers, report.LongestGapMs)
		if report.Error != "" {
			t.Errorf("%s: %s", report.Name, report.Error)
		}
	}
}

// TestFrozenLeaderIsReplaced stops the leader without ending it: a standby takes over, and the old leader
// does not write when it wakes up.
func TestFrozenLeaderIsReplaced(t *testing.T) {
	before, frozen := northboundAtRest(t), leader(t)
	send := func(signal string) {
		cluster.Must(t, "exec", "central", "--", "pkill", signal, "-f", "--", "--identity="+frozen+"( |$)")
	}
	send("-STOP")
	t.Cleanup(func() { send("-CONT") })
	eventually(t, 60*time.Second, "another controller leads", func() error {
		if now := leader(t); now == frozen || now == "" {
			return fmt.Errorf("the holder of the Lease is %q", now)
		}
		return nil
	})
	aPodComesUp(t, "l1")
	send("-CONT")
	aPodComesUp(t, "l2")
	if now := leader(t); now == frozen {
		t.Errorf("%s leads again, although another one lives", now)
	}
	eventually(t, 30*time.Second, "the Northbound is as before", func() error {
		if after := northbound(t); !slices.Equal(after, before) {
			return fmt.Errorf("it differs: %s", difference(before, after))
		}
		return nil
	})
}

// TestControllerRestartWritesNothing is about a leader that finds everything in order. It makes its claim.
func TestControllerRestartWritesNothing(t *testing.T) {
	before := northboundAtRest(t)
	cluster.Must(t, "restart", "central", "weft-controller")
	cluster.Must(t, "restart", "central", "weft-controller-2")
	eventually(t, 60*time.Second, "a controller leads again", func() error {
		leaders := 0
		for _, metrics := range controllerMetrics(t) {
			if strings.Contains(metrics, "\nweft_controller_leader 1") &&
				!strings.Contains(metrics, "\nweft_controller_reconcile_seconds_count 0") {
				leaders++
			}
			for line := range strings.Lines(metrics) {
				if strings.HasPrefix(line, "weft_ovsdb_rows_written_total{") && !strings.Contains(line, `operation="claim"`) {
					t.Errorf("a controller has written rows: %s", line)
				}
			}
		}
		if leaders != 1 {
			return fmt.Errorf("%d controllers lead", leaders)
		}
		return nil
	})
	if after := northbound(t); !slices.Equal(after, before) {
		t.Errorf("the Northbound differs: %s", difference(before, after))
	}
}

// controllerMetrics are both controllers'.
func controllerMetrics(t *testing.T) []string {
	t.Helper()
	var pages []string
	for _, port := range []int{9470, 9471} {
		page, err := cluster.Try("exec", "central", "--", "curl", "-sS", "--max-time", "5",
			fmt.Sprintf("http://127.0.0.1:%d/metrics", port))
		if err != nil {
			t.Fatal(err)
		}
		pages = append(pages, page)
	}
	return pages
}
