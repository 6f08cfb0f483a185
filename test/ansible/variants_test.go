//go:build ansible

package ansible

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

// kubeProxy is like the one that kubeadm makes; no node has a pod of it.
const kubeProxy = `
apiVersion: v1
kind: ConfigMap
metadata: {name: kube-proxy, namespace: kube-system, labels: {app: kube-proxy}}
data: {config.conf: "mode: nftables"}
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: kube-proxy, namespace: kube-system}
spec:
  selector: {matchLabels: {k8s-app: kube-proxy}}
  template:
    metadata: {labels: {k8s-app: kube-proxy}}
    spec:
      nodeSelector: {no-node-has: this}
      containers: [{name: kube-proxy, image: registry.example/kube-proxy}]
`

// kubeProxyRules are what it leaves in a node's kernel, beside a rule of another's.
const kubeProxyRules = `*nat
:KUBE-SERVICES - [0:0]
:KUBE-SVC-ERIFXISQEP7F7OF4 - [0:0]
-A PREROUTING -j KUBE-SERVICES
-A KUBE-SERVICES -d 10.96.0.10/32 -j KUBE-SVC-ERIFXISQEP7F7OF4
-A POSTROUTING -s 192.0.2.1/32 -j MASQUERADE
COMMIT
`

// plainTCPIsAWarnedOfChoice on new hosts, which kube-proxy has served before: it goes when Weft serves all nodes, with
// its rules of each kind that it makes, and comes back with Weft's end.
func plainTCPIsAWarnedOfChoice(t *testing.T) {
	freshHosts(t)
	servers.Apply(t, kubeProxy)
	servers.On(t, "l1", "sh", "-ec", "iptables-restore --noflush <<'END'\n"+kubeProxyRules+"END")
	servers.On(t, "l2", "nft", "add", "table", "ip", "kube-proxy")
	before := kubeProxyInKubernetes(t)

	with := []string{"--extra-vars", "weft_plaintext=true"}
	uninstalled := false
	t.Cleanup(func() { // after the pods, which Weft ends
		if !uninstalled {
			uninstall(t)
		}
		servers.Kubectl(t, "delete", "--namespace=kube-system", "--ignore-not-found", "daemonset/kube-proxy",
			"configmap/kube-proxy")
	})
	out, _ := play(t, "site.yml", append(with, "--limit", "all,!l2")...)
	if !strings.Contains(out, "kube-proxy stays, since l2 took no part") {
		t.Error("nobody is told that kube-proxy stays for l2")
	}
	if now := kubeProxyInKubernetes(t); now != before {
		t.Errorf("while l2 has no agent, Kubernetes has of kube-proxy\n%s\nbefore\n%s", now, before)
	}
	if rules := servers.On(t, "l1", "iptables-save"); !strings.Contains(rules, "KUBE-SERVICES") {
		t.Errorf("while kube-proxy runs, l1 has lost its rules:\n%s", rules)
	}

	out, _ = play(t, "site.yml", with...)
	if !strings.Contains(out, "WARNING: weft_plaintext is set") {
		t.Error("nobody is warned of weft_plaintext")
	}
	t.Run("cluster", func(t *testing.T) { awaitCluster(t) })
	if chassis := servers.On(t, "l1", "ovn-sbctl", "--timeout=10", "--no-leader-only", "--db=tcp:"+addresses["c2"]+":6642",
		"--bare", "--columns=name", "list", "Chassis"); !slices.Contains(strings.Fields(chassis), "l2") {
		t.Errorf("by plain TCP the Southbound has the chassis %s", chassis)
	}
	if rules := servers.On(t, "l1", "iptables-save"); strings.Contains(rules, "KUBE-SERVICES") || !strings.Contains(rules,
		"192.0.2.1") {
		t.Errorf("l1 has rules of kube-proxy, or not those of others:\n%s", rules)
	}
	if tables := servers.On(t, "l2", "nft", "list", "tables"); strings.Contains(tables, "kube-proxy") {
		t.Errorf("l2 has tables of kube-proxy:\n%s", tables)
	}
	servers.On(t, "l1", "iptables", "-t", "nat", "-D", "POSTROUTING", "-s", "192.0.2.1/32", "-j", "MASQUERADE")
	if left := kubeProxyInKubernetes(t); left != "" {
		t.Errorf("there is %s", left)
	}
	noDoors(t)
	changesNothing(t, "site.yml", with...)
	play(t, "verify.yml", with...)

	uninstall(t)
	uninstalled = true
	if now := kubeProxyInKubernetes(t); now != before {
		t.Errorf("after Weft Kubernetes has of kube-proxy\n%s\nbefore\n%s", now, before)
	}
	if left := servers.Kubectl(t, "get", "configmap", "--namespace=kube-system", "weft-kube-proxy", "--ignore-not-found",
		"--output=name"); left != "" {
		t.Errorf("there is still %s", left)
	}
}

// kubeProxyInKubernetes is what there is of it, except for what the API server makes anew.
func kubeProxyInKubernetes(t testing.TB) string {
	t.Helper()
	found := ""
	for _, kind := range []string{"configmap", "daemonset"} {
		found += servers.Kubectl(t, "get", kind, "--namespace=kube-system", "kube-proxy", "--ignore-not-found",
			"--output=jsonpath={.metadata.labels}{.data}{.spec}")
	}
	return found
}

// TestKubeProxysRulesGoAlone: what others add to the same tables meanwhile stays, and a rule that is gone meanwhile is
// no matter.
func TestKubeProxysRulesGoAlone(t *testing.T) {
	script, err := os.ReadFile("../../ansible/roles/weft_node_linux/files/kube-proxy-cleanup.sh")
	if err != nil {
		t.Fatal(err)
	}
	for _, host := range []string{"l1", "l2"} {
		// The first iptables-restore comes late: others have changed rules since iptables-save.
		out, err := servers.TryWith("iptables-restore --noflush <<'END'\n"+kubeProxyRules+`END
mkdir /tmp/late
trap 'rm -r /tmp/late' EXIT
cat > /tmp/late/iptables-restore <<'END'
#!/bin/sh
rm /tmp/late/iptables-restore
iptables -t nat -A POSTROUTING -s 192.0.2.2/32 -j MASQUERADE
iptables -t nat -D PREROUTING -j KUBE-SERVICES
iptables -t nat -I PREROUTING -p tcp -j KUBE-SERVICES
exec iptables-restore "$@"
END
chmod +x /tmp/late/iptables-restore
PATH=/tmp/late:$PATH sh -s > /tmp/late/said <<'END'
`+string(script)+`END
iptables-save`, "exec", host, "--", "unshare", "--net", "sh", "-e")
		if err != nil {
			t.Fatalf("%s: %v", host, err)
		}
		if strings.Contains(out, "KUBE-") || !strings.Contains(out, "192.0.2.1/32") ||
			!strings.Contains(out, "192.0.2.2/32") {
			t.Errorf("%s has rules of kube-proxy, or not those of others:\n%s", host, out)
		}
	}
}

// relaysServeNodes in place of the Southbound's members, and whoever wants them no longer goes back.
func relaysServeNodes(t *testing.T) {
	install(t)
	with := []string{"--extra-vars", "weft_sb_relay=true weft_election_timer=5000"}
	play(t, "site.yml", with...)
	electionTimers(t, "5000")
	deploy(t)
	for _, central := range centrals {
		chassis := servers.On(t, central, "ovn-sbctl", "--timeout=10", "--no-leader-only",
			"--db=unix:/run/ovn/ovnsb_relay.sock", "--bare", "--columns=name", "list", "Chassis")
		if names := strings.Fields(chassis); !slices.Contains(names, "l1") || !slices.Contains(names, "l2") {
			t.Errorf("%s: the relay has the chassis %v", central, names)
		}
		if guarded := servers.On(t, central, "grep", `"ovn-southbound":`, "/etc/weft/southbound.yaml"); !strings.Contains(
			guarded, "relay") {
			t.Errorf("%s: nodes' clients come to %s", central, guarded)
		}
	}
	changesNothing(t, "site.yml", with...)
	play(t, "verify.yml", with...)
	hitsAreCounted(t)
	for _, central := range centrals {
		servers.On(t, central, "systemctl", "kill", "--signal=SIGKILL", "weft-sb-relay")
	}
	t.Logf("After all relays have died a new pod is connected after %s",
		newPod(t, "relayed", "l1", "l2").Round(100*time.Millisecond))

	play(t, "site.yml")
	electionTimers(t, "1000")
	for _, central := range centrals {
		eventually(t, 30*time.Second, "no relay runs on "+central, func() error {
			if out, err := servers.Try("exec", central, "--", "pgrep", "-af", "relay:OVN_Southbound"); err == nil {
				return errors.New(out)
			}
			return nil
		})
	}
	newPod(t, "no-longer-relayed", "l2", "l1")
}

// electionTimers of both databases, as each member says it.
func electionTimers(t *testing.T, want string) {
	t.Helper()
	for _, central := range centrals {
		for ctl, database := range map[string]string{"ovnnb_db.ctl": "OVN_Northbound", "ovnsb_db.ctl": "OVN_Southbound"} {
			status := servers.On(t, central, "ovn-appctl", "-t", "/run/ovn/"+ctl, "cluster/status", database)
			if !strings.Contains(status, "\nElection timer: "+want+"\n") {
				t.Errorf("%s: the election timer of %s is not %s:\n%s", central, database, want, status)
			}
		}
	}
}
