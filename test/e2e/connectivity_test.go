//go:build cluster

package e2e

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestPodsReachEachOther(t *testing.T) {
	for _, from := range nodes {
		for _, to := range nodes {
			for _, addr := range podAddresses(t, web(to)) {
				t.Run(fmt.Sprintf("%s to %s by %s", from, to, addr), func(t *testing.T) {
					t.Parallel()
					if host, err := get(web(from), addr, 8080, "hostname"); err != nil || host != web(to) {
						t.Errorf("TCP: %q answered, want %q: %v", host, web(to), err)
					}
					if out, err := cluster.In(web(from), "ping", "-c", "1", "-W", "3", addr.String()); err != nil {
						t.Errorf("ICMP: %s %v", out, err)
					}
					if host, err := askUDP(web(from), addr.String(), 8081); err != nil || host != web(to) {
						t.Errorf("UDP: %q answered, want %q: %v", host, web(to), err)
					}
				})
			}
		}
	}
}

// askUDP asks netexec for its host name; the datagram may be lost, so it is repeated.
func askUDP(pod, addr string, port int) (string, error) {
	return cluster.In(pod, "sh", "-c",
		fmt.Sprintf("for i in 1 2 3; do echo hostname | nc -u -w 1 %s %d | grep . && exit; done; exit 1", addr, port))
}

func TestLargePacketsPass(t *testing.T) {
	for _, pair := range [][2]string{{"l1", "l2"}, {"l1", "w1"}, {"w1", "l2"}, {"w1", "w2"}} {
		for _, addr := range podAddresses(t, web(pair[1])) {
			t.Run(fmt.Sprintf("%s to %s by %s", pair[0], pair[1], addr), func(t *testing.T) {
				t.Parallel()
				// 40,000 bytes make many full segments, through the tunnel and back.
				out, err := cluster.In(web(pair[0]), "sh", "-c",
					fmt.Sprintf("head -c 40000 /dev/zero | tr '\\0' x | nc -w 3 -q 1 %s 7000 | wc -c", addr))
				if err != nil || strings.TrimSpace(out) != "40000" {
					t.Errorf("%q of 40000 bytes are returned: %v", out, err)
				}
				// Two fragments, each as large as the pod believes that it may be.
				if out, err := cluster.In(web(pair[0]), "ping", "-c", "2", "-W", "2", "-s", "2000", addr.String()); err != nil {
					t.Errorf("%s %v", out, err)
				}
			})
		}
	}
}

func TestHostReachesPodsAndServices(t *testing.T) {
	pods := map[string][]string{} // URLs
	for _, node := range nodes {
		for _, addr := range podAddresses(t, web(node)) {
			pods[web(node)] = append(pods[web(node)], httpURL(addr, 8080, "hostname"))
		}
	}
	services := append([]string{"-timeout", "5s"}, webURLs(clusterAddresses(t, "web")...)...)
	for _, node := range nodes {
		from := host(node)
		for pod, urls := range pods {
			if err := from.ask(append([]string{"-timeout", "5s"}, urls...)...).are(pod); err != nil {
				t.Errorf("%s: %v", from, err)
			}
		}
		if err := from.ask(services...).among(slices.Collect(maps.Keys(pods))); err != nil {
			t.Errorf("%s: %v", from, err)
		}
	}
}

func TestPodsReachTheAPIServerAndNames(t *testing.T) {
	service := clusterAddresses(t, "web")[0].String()
	for _, node := range nodes {
		eventually(t, 20*time.Second, node+" reaches kubernetes.default by name", func() error {
			out, err := cluster.In(web(node), "curl", "-sSk", "--max-time", "5", "https://kubernetes.default/version")
			if err == nil && !strings.Contains(out, "gitVersion") {
				err = fmt.Errorf("the API server answered %q", out)
			}
			return err
		})
		eventually(t, 20*time.Second, node+" resolves a Service", func() error {
			out, err := cluster.In(web(node), "dig", "+short", "+time=2", "web.default.svc.cluster.local")
			if err == nil && out != service {
				err = fmt.Errorf("the name server answered %q", out)
			}
			return err
		})
	}
}

func TestPodsReachTheOutside(t *testing.T) {
	for _, node := range nodes {
		for _, outside := range []string{"172.31.0.254", "fd00:31::254"} {
			t.Run(node+" to "+outside, func(t *testing.T) {
				t.Parallel()
				if out, err := cluster.In(web(node), "ping", "-c", "2", "-W", "3", outside); err != nil {
					t.Errorf("%s %v", out, err)
				}
			})
		}
	}
}

func TestNothingButOVNServesServices(t *testing.T) {
	translation := regexp.MustCompile(`dnat( ip6?)? to|redirect to|KUBE-SVC`)
	for _, node := range nodes {
		rules := cluster.Must(t, "exec", node, "--", "nft", "list", "ruleset")
		if rule := translation.FindString(rules); rule != "" {
			t.Errorf("%s has a rule with %q:\n%s", node, rule, rules)
		}
		processes := cluster.Must(t, "exec", node, "--", "ps", "-e", "-o", "args=")
		if strings.Contains(processes, "kube-proxy") {
			t.Errorf("%s runs kube-proxy:\n%s", node, processes)
		}
	}
}
