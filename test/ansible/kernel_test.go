//go:build ansible

package ansible

import (
	"flag"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

var official = flag.Bool("official", false, "also Kubernetes' own tests on nodes with kernels of their own, which "+
	"takes hours")

// TestKernel is of nodes with kernels of their own: what the playbooks install there switches pods' packets in Linux'
// own datapath, of Debian 12 with its Open vSwitch and of Debian 13 with its.
func TestKernel(t *testing.T) {
	needsKernels(t)
	began := time.Now()
	install(t)
	t.Logf("site.yml took %s", time.Since(began).Round(time.Second))
	for node, want := range map[string]struct{ kernel, openVSwitch string }{"l1": {"6.1.", "3.1."},
		"l2": {"6.12.", "3.5."}} {
		release := servers.On(t, node, "uname", "-r")
		version := servers.On(t, node, "ovs-vswitchd", "--version")
		if !strings.HasPrefix(release, want.kernel) || !strings.Contains(version, "(Open vSwitch) "+want.openVSwitch) {
			t.Errorf("%s has Linux %s and %s, not %s and %s", node, release, version, want.kernel, want.openVSwitch)
		}
		if datapaths := servers.On(t, node, "ovs-appctl", "dpif/show"); !strings.HasPrefix(datapaths, "system@ovs-system") ||
			strings.Contains(datapaths, "netdev@") {
			t.Errorf("the datapaths of %s are not the kernel's:\n%s", node, datapaths)
		}
	}
	awaitCluster(t)
	deploy(t)
	tr := startTraffic(t)
	sideBySide(t)
	tr.stop(t)
	tr = startTraffic(t)
	for _, n := range nodes {
		restartVswitchd(t, n.name)
		newPod(t, "restarted-"+n.name, n.name, n.other)
	}
	tr.stopAfterStalls(t)
	for _, n := range nodes { // its power is cut, and comes back
		servers.Must(t, "reboot", n.name)
		awaitConnections(t)
		newPod(t, "rebooted-"+n.name, n.name, n.other)
	}
}

func needsKernels(t *testing.T) {
	t.Helper()
	if !*kernel {
		t.Skip("the nodes share the machine's kernel; -args -kernel gives them their own")
	}
}

// otherPolicies are words in the names of a second part of Kubernetes' tests of NetworkPolicies.
const otherPolicies = `should (enforce|allow|not allow|ensure)`

// forgotten are Kubernetes' tests of UDP connections whose endpoint is gone.
const forgotten = `Conntrack should be able to (preserve UDP traffic|cleanup conntrack entries)`

// sctp are Kubernetes' tests of SCTP. Those from a node skip themselves.
const (
	sctp        = `\[sig-network\].*\[Feature:SCTPConnectivity\]`
	sctpOfNodes = `node-(pod communication|Service): sctp`
)

type officialSuite struct {
	name       string
	least      int // of specs, which have to run
	focus, not string
}

var officialSuites = []officialSuite{
	{"Services and networks", 108, `\[sig-network\] (Services|DNS|EndpointSlice|Networking|Proxy|HostPort|KubeProxy|` +
		`LoadBalancers|Conntrack|.*\[Conformance\])`,
		`\[(Disruptive|Slow|Feature:[^]]+)\]|NetworkPolicy|KubeProxy should set TCP CLOSE_WAIT|should check kube-proxy urls|` + forgotten},
	{"UDP connections", 6, `\[sig-network\] ` + forgotten, "nothing"},
	{"SCTP", 6, sctp, sctpOfNodes + "|IPv6DualStack"},
	// Each of these parts takes up to half an hour: a spec starts hundreds of programs in pods.
	{"NetworkPolicy 1 of 3", 16, `\[sig-network\] Netpol .*should enforce policy`, "Feature:SCTPConnectivity"},
	{"NetworkPolicy 2 of 3", 16, `\[sig-network\] Netpol .*` + otherPolicies,
		"Feature:SCTPConnectivity|should enforce policy"},
	{"NetworkPolicy 3 of 3", 15, `\[sig-network\] Netpol`, "Feature:SCTPConnectivity|" + otherPolicies},
}

var officialSuitesOfBothFamilies = []officialSuite{
	{"dual stack", 22, `\[sig-network\] \[Feature:IPv6DualStack\]`, "Feature:SCTPConnectivity"},
	{"SCTP", 7, sctp, sctpOfNodes},
	{"UDP connections", 6, `\[sig-network\] ` + forgotten, "nothing"},
}

// TestKernelPassesOfficialTests: Kubernetes' own tests of Services, networks and NetworkPolicies pass on the cluster of
// [TestKernel], and so do the Network Policy API's conformance tests. docs/conformance.md says what is left out.
func TestKernelPassesOfficialTests(t *testing.T) {
	needsKernels(t)
	if !*official {
		t.Skip("it takes hours; -args -kernel -official runs it")
	}
	install(t)
	awaitCluster(t)
	apiServerReachesPods(t)
	suites := officialSuites
	if *dual {
		suites = officialSuitesOfBothFamilies
	}
	for _, suite := range suites {
		t.Run(suite.name, func(t *testing.T) {
			began := time.Now()
			out, err := servers.Shown("e2e", "--procs", "4", "--timeout", "2h", "--focus", suite.focus, "--skip", suite.not)
			if err != nil {
				t.Fatal(err)
			}
			if passed := passedOfficial(t, out); passed < suite.least {
				t.Errorf("only %d specs ran, not %d", passed, suite.least)
			}
			t.Logf("took %s", time.Since(began).Round(time.Second))
		})
	}
	if *dual {
		return // its tests are of one family
	}
	t.Run("ClusterNetworkPolicy", func(t *testing.T) {
		current.vars = prefixed(t) // they are not in force with Debian 12's OVN
		play(t, "upgrade.yml")
		began := time.Now()
		servers.Must(t, "conformance", "--report", filepath.Join(t.TempDir(), "report.yaml"))
		t.Logf("took %s", time.Since(began).Round(time.Second))
	})
}

// restartVswitchd of a node in the orderly way, and returns when the agent is ready again.
func restartVswitchd(t testing.TB, node string) {
	t.Helper()
	began := time.Now()
	servers.On(t, node, "systemctl", "restart", "ovs-vswitchd")
	eventually(t, 60*time.Second, "the agent of "+node+" is ready", func() error {
		_, err := servers.Try("exec", node, "--", "curl", "-fsS", "http://127.0.0.1:9471/readyz")
		return err
	})
	t.Logf("ovs-vswitchd of %s restarted in %s", node, time.Since(began).Round(100*time.Millisecond))
}
