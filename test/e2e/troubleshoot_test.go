//go:build cluster

package e2e

import (
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	api "github.com/weftnet/weft/models/api/observe/v1alpha1"
	"github.com/weftnet/weft/test/lab/pki"
)

// named is within what time a fault is to be named.
const named = 30 * time.Second

// brokenCluster is a fault, and what docs/troubleshoot.md says to ask of it.
type brokenCluster struct {
	name string
	seen string // by a user of the cluster
	// breaks makes the fault, and returns what ends it.
	breaks func(*testing.T) (mend func())
	ask    []string // of weft
	// names are words of one finding: the reason or the fault, the object, and the remedy.
	names []string
}

var brokenClusters = []brokenCluster{
	{"policy typo", "pod default/web-l1 has no answer from pod default/web-l2 at port 8080, and a policy is to allow it",
		mistypesPolicy, []string{"policy", "explain", "web-l1", "web-l2:8080"},
		[]string{"NetworkPolicy default/typo, spec.ingress[0]", "pods app=wbe] selects no pod", "correct the labels"}},
	{"no endpoints", "a connection from pod default/web-l1 to Service default/forsaken, port 80, is refused",
		takesEndpoints, []string{"trace", "default/web-l1", "svc/default/forsaken:80"},
		[]string{"Service default/forsaken has no ready endpoint", "kubectl get endpointslices"}},
	{"wrong node", "port 80 of Service default/elsewhere refuses pods of node l1, and none of node l2",
		keepsEndpointsElsewhere, []string{"trace", "default/web-l1", "svc/default/elsewhere:80"},
		[]string{"Service default/elsewhere has internalTrafficPolicy Local", "on node l1", "to Cluster"}},
	{"dead ovn-controller", "new pods of node l2 do not start",
		freezes("l2", "ovn/ovn-controller"), askStatus,
		[]string{"AgentNotReady Node l2:", "ovn-controller is not running", "start it"}},
	{"stolen address", "pods of EgressIP thief leave the cluster with another address",
		stealsAddress, askStatus,
		[]string{"EgressNotReady EgressIP thief:", "AddressTaken", "Node l1", "correct"}},
	{"lost gateway", "pods of node l2 reach nothing outside",
		losesGateway, askStatus,
		[]string{"AgentWarns Node l2:", "no default route of IPv4", "add the route"}},
	{"certificate expired", "new pods of one Windows node do not start",
		expiresCertificate, askStatus,
		[]string{"AgentNotReady Node " + badDays + ":", "has expired", "renew it"}},
	{"MTU too large", "short answers of pods on node l2 arrive at other nodes, and long ones do not",
		narrowsUplink, askStatus,
		[]string{"AgentWarns Node l2:", "uplink-mtu: 1500 is more than the 1400 bytes", "lower the key"}},
	{"DNS blocked", "pod default/web-l1 cannot resolve names",
		blocksDNS, []string{"trace", "default/web-l1", "svc/kube-system/kube-dns:53", "--protocol", "udp"},
		[]string{"isolated by NetworkPolicy default/no-dns", "allow it by a rule in spec.egress"}},
	{"HNS hung", "new pods of one Windows node do not start",
		hangsHNS, askStatus,
		[]string{"Node " + badDays + ":", "HNS hangs", "Restart-Service hns"}},
	{"Southbound lagging", "a new pod stays in ContainerCreating",
		lagsBehind, askStatus,
		[]string{"PodsWithoutBinding Pod default/probe-", "ovn-northd has not", "systemctl status weft-northd"}},
	{"egress node gone", "pods of EgressIP homeless reach nothing outside",
		losesEgressNode, askStatus,
		[]string{"EgressNotReady EgressIP homeless:", "NoNode", "kubectl label node"}},
}

var askStatus = []string{"status", "-o", "json"}

var exercise = flag.String("exercise", "", "an existing folder: each broken cluster stays as it is, in an order that "+
	"nobody knows, until somebody has written what is at fault into FOLDER/N.answer; FOLDER/N.seen has what users see")

// TestBrokenClustersAreNamed breaks the cluster in each of these ways. The verb that the troubleshooting page gives
// names the fault, and does not any more once it is mended.
func TestBrokenClustersAreNamed(t *testing.T) {
	long(t)
	nodesSettle(t)
	if *exercise != "" {
		rand.Shuffle(len(brokenClusters), func(i, j int) {
			brokenClusters[i], brokenClusters[j] = brokenClusters[j], brokenClusters[i]
		})
	}
	for i, broken := range brokenClusters {
		t.Run(broken.name, func(t *testing.T) {
			broken.isNotNamed(t, "before")
			mend := broken.breaks(t)
			broken.isNamed(t)
			if *exercise != "" {
				broken.isAsked(t, filepath.Join(*exercise, fmt.Sprint(i+1)))
			}
			mend()
			broken.isNotNamed(t, "after")
		})
	}
	for _, node := range nodes {
		webServes(t, node, 60*time.Second)
	}
}

// nodesSettle waits until no node is new: status gives a new one two minutes to become what it is to be.
func nodesSettle(t *testing.T) {
	t.Helper()
	const settling = 2 * time.Minute
	eventually(t, settling, "no node is new", func() error {
		for created := range strings.FieldsSeq(cluster.Kubectl(t, "get", "nodes", "-o",
			"jsonpath={.items[*].metadata.creationTimestamp}")) {
			if at, err := time.Parse(time.RFC3339, created); err != nil || time.Since(at) <= settling {
				return fmt.Errorf("one is from %s", created)
			}
		}
		return nil
	})
}

func (b *brokenCluster) isNamed(t *testing.T) {
	t.Helper()
	began := time.Now()
	eventually(t, named, "the fault is named", func() error {
		found, all := b.said()
		if found == "" {
			return fmt.Errorf("weft says\n%s", strings.Join(all, "\n"))
		}
		t.Logf("named after %s: %s", time.Since(began).Round(time.Second), found)
		return nil
	})
}

// isAsked waits for somebody's answer, and logs it beside the fault's name, for a reader to compare.
func (b *brokenCluster) isAsked(t *testing.T, file string) {
	t.Helper()
	if err := os.WriteFile(file+".seen", []byte(b.seen+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	eventually(t, 15*time.Minute, "somebody has answered", func() error {
		answer, err := os.ReadFile(file + ".answer")
		if err == nil {
			t.Logf("%s, answered after %s: %s", b.name, time.Since(began).Round(time.Second), answer)
		}
		return err
	})
}

func (b *brokenCluster) isNotNamed(t *testing.T, when string) {
	t.Helper()
	eventually(t, named, "it is not named "+when, func() error {
		if found, all := b.said(); found != "" || len(all) == 0 {
			return fmt.Errorf("weft says %q", all)
		}
		return nil
	})
}

// said is what weft says that has all words; "" if nothing has. Of a status each finding is a text of its own, and one
// that cannot be read is none.
func (b *brokenCluster) said() (found string, all []string) {
	out, err := cluster.Try(append([]string{"weft", "--"}, b.ask...)...)
	all = []string{out}
	if slices.Equal(b.ask, askStatus) {
		all = findings(out)
	} else if err != nil {
		all = []string{err.Error()}
	}
	for _, text := range all {
		if !slices.ContainsFunc(b.names, func(word string) bool { return !strings.Contains(text, word) }) {
			return text, all
		}
	}
	return "", all
}

// findings are those of a status, and its result, a text each.
func findings(status string) (texts []string) {
	var list api.NetworkStatusList
	if err := json.Unmarshal([]byte(status), &list); err != nil || len(list.Items) != 1 {
		return nil
	}
	for _, f := range list.Items[0].Findings {
		texts = append(texts, fmt.Sprintf("%s %s: %s To do: %s", f.Reason, f.Object, f.Text, f.Remedy))
	}
	return append(texts, list.Items[0].Result)
}

// applied is [labtest.Lab.Apply] of an object that a test may delete before it ends.
func applied(t *testing.T, object, manifest string) (remove func()) {
	t.Helper()
	cluster.Apply(t, manifest)
	return func() { cluster.Kubectl(t, "delete", object, "--ignore-not-found") }
}

func mistypesPolicy(t *testing.T) (mend func()) {
	return applied(t, "networkpolicy/typo", `
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: typo}
spec: {podSelector: {matchLabels: {app: web}}, ingress: [{from: [{podSelector: {matchLabels: {app: wbe}}}]}]}
`)
}

func blocksDNS(t *testing.T) (mend func()) {
	return applied(t, "networkpolicy/no-dns", `
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: no-dns}
spec: {podSelector: {matchLabels: {app: web}}, policyTypes: [Egress], egress: [{to: [{podSelector: {matchLabels: {app: web}}}]}]}
`)
}

func takesEndpoints(t *testing.T) (mend func()) {
	cluster.Apply(t, service("forsaken", "selector: {app: nobody}"))
	return func() { patch(t, "service/forsaken", `{"spec":{"selector":{"app":"web"}}}`) }
}

// keepsEndpointsElsewhere: a Service that is for clients of its endpoints' nodes alone has none on the client's.
func keepsEndpointsElsewhere(t *testing.T) (mend func()) {
	cluster.Apply(t, service("elsewhere", "internalTrafficPolicy: Local")+slicesOf(t, "elsewhere", "l2"))
	return func() { setEndpoints(t, "elsewhere", "l1", "l2") }
}

// freezes stops a daemon, which its supervisor would start again if it ended. It is as silent as one that is dead.
func freezes(machine, pidFile string) func(*testing.T) func() {
	return func(t *testing.T) (mend func()) {
		signal := func(name string) {
			cluster.On(t, machine, "sh", "-c", fmt.Sprintf("kill -%s $(cat /run/%s.pid)", name, pidFile))
		}
		signal("STOP")
		mend = func() { signal("CONT") }
		t.Cleanup(mend)
		return mend
	}
}

func hangsHNS(t *testing.T) (mend func()) {
	signal := func(name string) { cluster.On(t, badDays, "pkill", "-"+name, "-x", "hnsemu") }
	signal("STOP")
	mend = func() { signal("CONT") }
	t.Cleanup(mend)
	return mend
}

// stealsAddress asks for an address that a node has. Of a stranger outside that answers at an address, Weft knows
// nothing.
func stealsAddress(t *testing.T) (mend func()) {
	cluster.Apply(t, fmt.Sprintf(`
apiVersion: weft.net/v1alpha1
kind: EgressIP
metadata: {name: thief}
spec: {addresses: [%q], namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: nowhere}}, nodeSelector: {matchLabels: {kubernetes.io/os: linux}}}
`, nodeAddresses(t, "l1")[0]))
	return func() { patch(t, "egressip/thief", fmt.Sprintf(`{"spec":{"addresses":[%q]}}`, fixedAddresses[0])) }
}

func losesGateway(t *testing.T) (mend func()) {
	route := strings.Fields(host("l2").must(t, "ip", "-4", "route", "show", "default"))
	host("l2").must(t, "ip", "-4", "route", "flush", "exact", "default")
	mend = func() { host("l2").must(t, append([]string{"ip", "-4", "route", "replace"}, route...)...) }
	t.Cleanup(mend)
	return mend
}

// expiresCertificate is about streams that are opened again: those that are open stay open.
func expiresCertificate(t *testing.T) (mend func()) {
	reissue(t, badDays, func(s *pki.Subject) { s.NotAfter = time.Now().Add(-time.Minute) })
	mend = func() { reissue(t, badDays, nil) }
	t.Cleanup(mend)
	killHost(t, badDays)
	return mend
}

// narrowsUplink has the node's own uplink carry less than its key says. What lies between two nodes no agent sees:
// weft connectivity test does.
func narrowsUplink(t *testing.T) (mend func()) {
	set := func(mtu int) { host("l2").must(t, "ip", "link", "set", "br-ul", "mtu", fmt.Sprint(mtu)) }
	set(1400)
	mend = func() { set(uplinkMTU) }
	t.Cleanup(mend)
	return mend
}

// lagsBehind has the Southbound stay as it is: ovn-northd hangs, and a pod comes.
func lagsBehind(t *testing.T) (mend func()) {
	thaw := freezes("central", "ovn/ovn-northd")(t)
	name := makeProbe(t, "l1")
	return func() {
		thaw()
		comesUp(t, name)
		deletePod(t, name)
	}
}

// losesEgressNode takes the only node that may carry an address out of service. While such a node has no power,
// another one takes over, or else Kubernetes takes 40 seconds to know.
func losesEgressNode(t *testing.T) (mend func()) {
	label(t, "node/l2", "weft.net/egress=")
	t.Cleanup(func() { label(t, "node/l2", "weft.net/egress-") })
	cluster.Apply(t, fmt.Sprintf(`
apiVersion: weft.net/v1alpha1
kind: EgressIP
metadata: {name: homeless}
spec: {addresses: [%q], namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: nowhere}}}
`, fixedAddresses[0]))
	conditionSays(t, "egressip/homeless", "True")
	label(t, "node/l2", "weft.net/egress-")
	return func() { label(t, "node/l2", "weft.net/egress=") }
}
