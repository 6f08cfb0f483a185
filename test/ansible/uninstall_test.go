//go:build ansible

package ansible

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weftnet/weft/test/lab"
)

// stateOfHost prints a line for everything that an installation could leave on a host: files by name, kind, mode and
// owner, settings by what is in them, and what lives in memory; except for logs, caches, and what kubelet and
// containerd keep.
const stateOfHost = `
find / -xdev \( -path /proc -o -path /sys -o -path /dev -o -path /tmp -o -path /var/tmp -o -path /run -o -path /root -o -path /home -o -path /usr/local/lib/weft-test \
	-o -path /usr -o -path /var/cache -o -path /var/lib/apt -o -path /var/lib/dpkg -o -path /var/lib/systemd -o -path /var/lib/containerd -o -path /var/lib/kubelet \
	-o -path /var/lib/cni -o -path /var/log/journal -o -path /var/log/apt -o -path /var/log/pods -o -path /var/log/containers -o -path /etc/ld.so.cache \) -prune \
	-o ! -name '*-' ! -path '/var/log/*.log' ! -path /var/log/wtmp.db -printf 'file %p %y %m %u:%g\n'
for path in /usr/local /run/ovn /run/openvswitch /run/weft /run/weft-chassis /run/weft-observe; do
	test ! -e $path || find $path -path /usr/local/lib/weft-test -prune -o -printf 'file %p %y %m %u:%g\n'; done
test ! -e /var/lib/cni/results || find /var/lib/cni/results -name 'weft-*' -printf 'file %p\n'
find /etc -type f ! -name '*-' ! -name ld.so.cache ! -name machine-id ! -name passwd ! -name group ! -name shadow ! -name gshadow -exec sha256sum {} + | sed 's/^/content /'
getent passwd | sed 's/:.*//; s/^/user /'
dpkg-query -W -f 'package ${Package} ${db:Status-Abbrev}\n'
ip -o link | sed -E 's/^[0-9]+: /link /; s/ state .*//; s/@if[0-9]+//'
ip -o address | awk '{print "address", $2, $4}'
for family in -4 -6; do ip $family rule | sed 's/^/rule /'; ip $family route show table all | sed -E 's/ (metric|expires|pref) .*//; s/^/route /'; done
nft list ruleset | sed 's/^/nft /'
ls /run/netns 2> /dev/null | sed 's/^/netns /'
systemctl list-unit-files --plain --no-legend | grep -v transient | awk '{print "unit", $1, $2}'
ps -eo comm=,cgroup= | grep -v kubepods | awk '{print "process", $1}' | grep -Ev ' (ps|sh|sed|grep|awk|find|sleep|sshd|sshd-session|sudo|python3|containerd-shim|\(sd-pam\)|systemd)$'
sysctl -a 2> /dev/null | grep -E 'ip_forward |\.(all|default|ex0|eth0)\.(forwarding|rp_filter|accept_ra|proxy_arp|disable_ipv6|arp_ignore) ' | sed 's/^/sysctl /'
`

// kindsOfCluster are what an installation could leave in Kubernetes.
const kindsOfCluster = "namespaces," +
	"serviceaccounts,clusterroles,clusterrolebindings,roles,rolebindings,customresourcedefinitions," +
	"leases,configmaps,secrets," +
	"apiservices,validatingadmissionpolicies,validatingadmissionpolicybindings,validatingwebhookconfigurations," +
	"mutatingwebhookconfigurations,daemonsets,deployments"

// state of a host, or of Kubernetes: sorted lines, each once.
func state(of string) ([]string, error) {
	var text string
	var err error
	if of == "kubernetes" {
		text, err = servers.Try("control", "--", "sh", "-ec", `kubectl get `+kindsOfCluster+` -A -o custom-columns=K:.kind,N:.metadata.namespace,M:.metadata.name --no-headers
			kubectl get nodes -o json | python3 -c 'import json, sys
for n in json.load(sys.stdin)["items"]:
	for kind in "annotations", "labels":
		for key in n["metadata"].get(kind, {}): print(kind, n["metadata"]["name"], key)
	for c in n["status"].get("conditions", []): print("condition", n["metadata"]["name"], c["type"])'`)
	} else {
		text, err = servers.TryWith(stateOfHost, "exec", of, "--", "sh")
	}
	if err != nil {
		return nil, err
	}
	var lines []string
	for line := range strings.Lines(text) {
		lines = append(lines, strings.Join(strings.Fields(line), " "))
	}
	slices.Sort(lines)
	return slices.Compact(lines), nil
}

func firstStateFile() string { return filepath.Join(lab.StateDir(servers.Name), "first-state.json") }

// keepFirstState of the hosts and of Kubernetes when the lab is new, beside the lab, which may be kept.
func keepFirstState() error {
	if _, err := os.Stat(firstStateFile()); !errors.Is(err, fs.ErrNotExist) || installed() == nil {
		return err // which is nil where it is kept
	}
	first := map[string][]string{}
	for _, of := range append(hostNames(), "kubernetes") {
		if err := mendDatapath(of); err != nil {
			return err
		}
		lines, err := state(of)
		if err != nil {
			return err
		}
		first[of] = lines
	}
	text, err := json.Marshal(first)
	if err != nil {
		return err
	}
	return os.WriteFile(firstStateFile(), text, 0o600)
}

func hostNames() []string {
	var names []string
	for host := range hosts {
		names = append(names, host)
	}
	slices.Sort(names)
	return names
}

// anotherNetwork takes Weft's place on a node.
const (
	anotherNetwork = `{"cniVersion": "0.4.0", "name": "another", "plugins": [{"type": "loopback"}]}`
	anotherFile    = "/etc/cni/net.d/99-another.conflist"
)

func uninstall(t testing.TB) {
	t.Helper()
	play(t, "uninstall.yml")
	current.vars = nil
}

// uninstallLeavesNothing takes Weft off, with pods that run, and compares all with what was there before Weft came.
func uninstallLeavesNothing(t *testing.T) {
	install(t)
	awaitCluster(t)
	text, err := os.ReadFile(firstStateFile())
	if err != nil {
		t.Fatal(err)
	}
	var first map[string][]string
	if err := json.Unmarshal(text, &first); err != nil {
		t.Fatal(err)
	}
	for _, central := range centrals { // what earlier chapters have put aside is an administrator's to remove
		servers.On(t, central, "sh", "-c", "rm -rf /var/lib/weft/ovn.left-* /var/lib/weft/ovn/*.before-restore-*")
	}
	began := time.Now()
	uninstall(t)
	t.Logf("uninstall.yml took %s", time.Since(began).Round(time.Second))
	// Packages that others needed are apt's to remove, when it is told to.
	for host := range hosts {
		servers.On(t, host, "env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-qq", "-y", "--purge", "autoremove")
	}
	// containerd takes pods' networks away when there is another one.
	for _, n := range nodes {
		servers.On(t, n.name, "sh", "-ec", "echo '"+anotherNetwork+"' > "+anotherFile)
	}
	servers.Kubectl(t, "-n", "kube-system", "scale", "--replicas=0", "deployment/coredns")
	t.Cleanup(func() { servers.Kubectl(t, "-n", "kube-system", "scale", "--replicas=2", "deployment/coredns") })
	servers.Kubectl(t, "delete", "pods", "--all-namespaces", "--all", "--timeout=120s")
	for _, n := range nodes {
		servers.On(t, n.name, "rm", anotherFile)
	}
	for _, of := range append(hostNames(), "kubernetes") {
		if len(first[of]) < 50 {
			t.Fatalf("of %s there was only %v before", of, first[of])
		}
		var left []string
		within := time.Now().Add(2 * time.Minute)
		eventually(t, time.Minute, "what is left on "+of+" is told", func() error {
			lines, err := state(of)
			if err != nil {
				return err
			}
			if left = intolerable(differences(first[of], lines)); len(left) > 0 && time.Now().Before(within) {
				return fmt.Errorf("%v", left) // pods' network namespaces take a moment
			}
			return nil
		})
		if len(left) > 0 {
			t.Errorf("%s is not as it was before:\n%s", of, strings.Join(left, "\n"))
		}
	}
}

// differences of what there was and what there is.
func differences(before, after []string) []string {
	var found []string
	for _, line := range before {
		if _, there := slices.BinarySearch(after, line); !there {
			found = append(found, "- "+line)
		}
	}
	for _, line := range after {
		if _, there := slices.BinarySearch(before, line); !there {
			found = append(found, "+ "+line)
		}
	}
	return found
}

// ofOthers are what Debian's Open vSwitch needed and other packages recommend, which apt keeps, containerd's folder,
// and the kubelets' Leases.
var ofOthers = regexp.MustCompile(
	`Lease kube-node-lease |uuidd|libuuid|package (uuid-runtime|lsb-release) |sockets\.target\.wants d |/etc/cni/net\.d d `)

func intolerable(lines []string) []string { return slices.DeleteFunc(lines, ofOthers.MatchString) }
