//go:build cluster

package e2e

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	weftlab "github.com/weftnet/weft/test/lab"
	"github.com/weftnet/weft/test/lab/pki"
)

// finding is what a doctor says of one thing.
type finding struct{ Check, State, Detail, Remedy string }

func doctor(t testing.TB, node string) map[string]finding {
	t.Helper()
	// Its exit code is that of the worst finding, and on a Windows node that is none there is always one.
	out := cluster.Must(t, "exec", node, "--", "sh", "-c", "/opt/weft/doctor --output json || [ $? -le 2 ]")
	var report struct {
		Findings []finding `json:"findings"`
	}
	if err := json.Unmarshal([]byte(out), &report); err != nil || len(report.Findings) == 0 {
		t.Fatalf("the doctor of %s says %s: %v", node, out, err)
	}
	found := map[string]finding{}
	for _, f := range report.Findings {
		found[f.Check] = f
	}
	return found
}

func TestDoctorsTellTheSickFromTheWell(t *testing.T) {
	if out, err := cluster.Try("exec", "l1", "--", "/opt/weft/doctor"); err != nil {
		t.Errorf("a healthy Linux node: %s %v", out, err)
	}
	well := doctor(t, "w1")
	for _, check := range []string{"adapter", "hns-network", "ovs-extension", "chassis-host", "certificates", "agent",
		"conntrack-lookup", "conntrack-ftp", "hns-calls", "packet-monitor"} {
		if f := well[check]; f.State != "ok" {
			t.Errorf("a healthy Windows node: %s is %+v", check, f)
		}
	}
	configure(t, badDays, "adapter: Ethernet 7\n")
	readySays(t, badDays, "Ethernet 7")
	if f := doctor(t, badDays)["adapter"]; f.State != "failed" || !strings.Contains(f.Detail+f.Remedy, "Ethernet 7") {
		t.Errorf("a wrong adapter: %+v", f)
	}
}

// webServes waits until a node's pod answers a Linux pod at all its addresses, which may be new ones.
func webServes(t testing.TB, node string, limit time.Duration) {
	t.Helper()
	eventually(t, limit, web(node)+" serves", func() error {
		addrs, err := tryAddresses("pod/"+web(node), podIPs)
		if err != nil {
			return err
		}
		for _, addr := range addrs {
			host, err := get(web("l1"), addr, 8080, "hostname")
			if err == nil && host != web(node) {
				err = fmt.Errorf("%q answers", host)
			}
			if err != nil {
				return fmt.Errorf("%s: %w", addr, err)
			}
		}
		return nil
	})
}

// extension says whether the OVS extension is on in the node's only network.
func extension(t testing.TB, node string) bool {
	t.Helper()
	for _, network := range readHNS(t, node).Networks {
		for _, e := range network.Extensions {
			if strings.EqualFold(e.ID, "583CC151-73EC-4A6A-8B47-578297AD7623") && e.IsEnabled {
				return true
			}
		}
	}
	return false
}

func TestExtensionIsEnabledAgain(t *testing.T) {
	cluster.Must(t, "hns", badDays, "--", "fault", "disable-extension")
	eventually(t, 60*time.Second, "the extension is on again", func() error {
		if !extension(t, badDays) {
			return fmt.Errorf("it is off")
		}
		return nil
	})
	webServes(t, badDays, 20*time.Second)
	aPodComesUp(t, badDays)
}

// A lost network takes the endpoints along. They are made again, and so is the way to running pods.
func TestLostNetworkIsMadeAgain(t *testing.T) {
	cluster.Must(t, "hns", badDays, "--", "fault", "lose-network")
	eventually(t, 60*time.Second, "the network is there again, with the extension", func() error {
		if !extension(t, badDays) {
			return fmt.Errorf("it is not")
		}
		return nil
	})
	aPodComesUp(t, badDays)
	webServes(t, badDays, 90*time.Second)
}

// The host's addresses do not come to the management vNIC by themselves.
func TestHostKeepsItsAddresses(t *testing.T) {
	fault(t, badDays, "dhcp-fail")
	before := hostAddresses(t, badDays)
	cluster.Must(t, "hns", badDays, "--", "fault", "lose-network")
	eventually(t, 90*time.Second, "the host has its addresses on the new vNIC", func() error {
		if !extension(t, badDays) {
			return fmt.Errorf("there is no network yet")
		}
		if now := hostAddresses(t, badDays); now != before {
			return fmt.Errorf("it has %q, and had %q", now, before)
		}
		return nil
	})
	webServes(t, badDays, 90*time.Second)
}

func hostAddresses(t testing.TB, node string) string {
	t.Helper()
	return cluster.Must(t, "exec", node, "--", "sh", "-c",
		"for d in weft-uplink Ethernet; do ip -o addr show dev $d scope global 2>/dev/null; done | awk '{print $2, "+
			"$4}' | sort")
}

func TestMissingDriverIsToldAndTheHostStaysReachable(t *testing.T) {
	fault(t, badDays, "no-driver")
	readySays(t, badDays, "extension", "driver")
	cluster.Must(t, "exec", "l1", "--", "ping", "-c", "3", "-W", "2", underlayAddress(t, badDays))
	cluster.Must(t, "hns", badDays, "--", "fault", "clear")
	eventually(t, 90*time.Second, "the extension is on", func() error {
		if !extension(t, badDays) {
			return fmt.Errorf("it is off")
		}
		return nil
	})
	webServes(t, badDays, 90*time.Second)
}

func underlayAddress(t testing.TB, node string) string {
	t.Helper()
	for line := range strings.Lines(cluster.Must(t, "exec", node, "--", "ovs-vsctl", "get", "open", ".",
		"external_ids:ovn-encap-ip")) {
		return strings.Trim(strings.TrimSpace(line), `"`)
	}
	return ""
}

// readySays waits until the agent says why it is not ready, in words.
func readySays(t testing.TB, node string, words ...string) {
	t.Helper()
	eventually(t, 60*time.Second, fmt.Sprintf("the agent of %s speaks of %q", node, words), func() error {
		out, err := cluster.Try("exec", node, "--", "curl", "-sS", "--max-time", "5", "http://127.0.0.1:9471/readyz")
		if err != nil {
			return err
		}
		for _, word := range words {
			if !strings.Contains(out, word) {
				return fmt.Errorf("it says %s", out)
			}
		}
		return nil
	})
}

// configure adds to the configuration of a node's agent until the test ends.
func configure(t testing.TB, node, more string) {
	t.Helper()
	replaceConfig(t, node, cluster.Must(t, "exec", node, "--", "cat", "/etc/weft/node.yaml")+"\n"+more)
}

func replaceConfig(t testing.TB, node, config string) {
	t.Helper()
	write := func(text string) {
		if out, err := cluster.TryWith(text, "exec", node, "--", "sh", "-c", "cat > /etc/weft/node.yaml"); err != nil {
			t.Fatal(out, err)
		}
		cluster.Must(t, "restart", node, "weft-node")
	}
	before := cluster.Must(t, "exec", node, "--", "cat", "/etc/weft/node.yaml")
	write(config)
	t.Cleanup(func() {
		write(before)
		isReady(t, node)
	})
}

func isReady(t testing.TB, node string) {
	t.Helper()
	eventually(t, 60*time.Second, "the agent is ready", func() error {
		_, err := cluster.Try("exec", node, "--", "curl", "-fsS", "--max-time", "5", "http://127.0.0.1:9471/readyz")
		return err
	})
}

// killHost kills the chassis host of a Windows node, which may just be coming back from another death.
func killHost(t testing.TB, node string) {
	t.Helper()
	eventually(t, 30*time.Second, "a chassis host of "+node+" dies", func() error {
		_, err := cluster.Try("kill", hostOf(t, node), chassisHost)
		return err
	})
}

// A key that is wrong on a node that works is told, and cuts nobody off.
func TestWrongKeysLeaveARunningNodeAlone(t *testing.T) {
	long(t)
	cluster.Must(t, "hns", badDays, "--", "network", "add", "nat", "NAT")
	t.Cleanup(func() { cluster.Must(t, "hns", badDays, "--", "fault", "lose-network", "nat") })
	for _, c := range []struct {
		name, config string
		says         []string
	}{
		{"another adapter", "adapter: Ethernet 7\n", []string{"network weft exists already", "the key adapter",
			"Ethernet 7"}},
		{"another's network", "hns-network: nat\n", []string{"nat", "of type NAT, not Transparent", "hns-network"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			configure(t, badDays, c.config)
			readySays(t, badDays, c.says...)
			webServes(t, badDays, 20*time.Second)
		})
	}
	aPodComesUp(t, badDays)
}

// A node that has no switch yet refuses adapters that cannot carry one, and stays reachable.
func TestBadAdaptersAreRefused(t *testing.T) {
	long(t)
	cluster.Must(t, "exec", badDays, "--", "ip", "tuntap", "add", "dev", "virtual", "mode", "tap")
	t.Cleanup(func() { cluster.Must(t, "exec", badDays, "--", "ip", "link", "del", "virtual") })
	for _, c := range []struct {
		name, config string
		says         []string
	}{
		{"one that does not exist", "adapter: Ethernet 7\n", []string{`no adapter "Ethernet 7"`, "set the key adapter"}},
		{"a virtual one", "adapter: virtual\n", []string{"virtual", "not a physical adapter"}},
		{"one without the node's address", "adapter: eth0\n", []string{"eth0", "encap-address"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			configure(t, badDays, c.config)
			cluster.Must(t, "hns", badDays, "--", "fault", "lose-network")
			readySays(t, badDays, c.says...)
			cluster.Must(t, "exec", "l1", "--", "ping", "-c", "3", "-W", "2", underlayAddress(t, badDays))
		})
	}
	webServes(t, badDays, 60*time.Second)
	aPodComesUp(t, badDays)
}

func TestWindowsNodeReboots(t *testing.T) {
	cluster.Must(t, "reboot", badDays)
	webServes(t, badDays, 180*time.Second) // no operator does anything
	aPodComesUp(t, badDays)
	nothingStale(t)
}

// nothingStale compares what HNS, Open vSwitch and OVN have with the pods that there are.
func nothingStale(t testing.TB) {
	t.Helper()
	for _, node := range []string{"w1", "w2"} {
		eventually(t, 120*time.Second, "nothing is stale on "+node, func() error {
			pods := strings.Fields(cluster.Kubectl(t, "get", "pods", "-A", "--field-selector=spec.nodeName="+node, "-o",
				`jsonpath={range .items[*]}{.metadata.namespace}_{.metadata.name}:{.spec.hostNetwork} {end}`))
			pods = slices.DeleteFunc(pods, func(pod string) bool { return strings.HasSuffix(pod, ":true") })
			ports := strings.Fields(cluster.Must(t, "exec", node, "--", "ovs-vsctl", "--bare", "--columns=external_ids", "find",
				"interface",
				"external_ids:sandbox!=none"))
			attached := strings.Count(strings.Join(ports, " "), "iface-id=")
			endpoints := len(readHNS(t, node).Endpoints)
			lsps := 0
			for line := range strings.Lines(cluster.Must(t, "nbctl", "--", "lsp-list", node)) {
				if strings.Contains(line, "_") {
					lsps++
				}
			}
			if len(pods) != attached || len(pods) != endpoints || len(pods) != lsps {
				return fmt.Errorf("%d pods (%v), %d ports of Open vSwitch, %d HNS endpoints, %d logical ports", len(pods), pods,
					attached, endpoints, lsps)
			}
			return nil
		})
	}
}

// reissue puts another certificate in the place of a Windows node's.
func reissue(t testing.TB, node string, change func(*pki.Subject)) {
	t.Helper()
	l, err := weftlab.Open(cluster.Name, weftlab.StateDir(cluster.Name))
	if err != nil {
		t.Fatal(err)
	}
	if err := l.IssueTunnelCertificate(node, change); err != nil {
		t.Fatal(err)
	}
}

// servesIPv4 is what stays of a node that no chassis host serves. OVN has ovn-controller answer IPv6's
// neighbour solicitations, so its neighbours are forgotten after half a minute.
func servesIPv4(t testing.TB, node string) {
	t.Helper()
	if host, err := get(web("l1"), podAddresses(t, web(node))[0], 8080, "hostname"); err != nil || host != web(node) {
		t.Errorf("%q answers for %s: %v", host, web(node), err)
	}
}

func TestBadCertificatesAreRefusedUntilRenewed(t *testing.T) {
	long(t)
	for _, c := range []struct {
		name   string
		change func(*pki.Subject)
		says   string
		long   bool
	}{
		{"expired", func(s *pki.Subject) { s.NotAfter = time.Now().Add(-time.Minute) }, "expired", false},
		{"another node's name", func(s *pki.Subject) { s.DNSNames = []string{"w9.node.weft.net"} }, "w9.node.weft.net", true},
	} {
		if c.long && !*thorough {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			reissue(t, badDays, c.change)
			t.Cleanup(func() { reissue(t, badDays, nil) })
			killHost(t, badDays) // streams that are open stay open
			eventMentions(t, "Node", "default", badDays, c.says)
			servesIPv4(t, badDays) // flows stay
			reissue(t, badDays, nil)
			aPodComesUp(t, badDays)
		})
	}
}

// A node whose clock is wrong takes valid certificates for expired ones.
func TestClockSkewIsTold(t *testing.T) {
	long(t)
	cluster.Must(t, "clock", badDays, "20000h")
	t.Cleanup(func() { cluster.Must(t, "clock", badDays, "0s") })
	killHost(t, badDays)
	eventually(t, 60*time.Second, "the agent's log speaks of the clock", func() error {
		log := cluster.Must(t, "logs", "weft-node", badDays, "-n", "50")
		if !strings.Contains(log, "clock") {
			return fmt.Errorf("it ends with %s", log)
		}
		return nil
	})
	servesIPv4(t, badDays)
	cluster.Must(t, "clock", badDays, "0s")
	aPodComesUp(t, badDays)
}
