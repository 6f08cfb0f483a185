//go:build ansible

package ansible

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"
)

const kubeProxy = `
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

// plainTCPIsAWarnedOfChoice on new hosts, which kube-proxy has served before: its DaemonSet goes, and its rules, of each kind that it makes.
func plainTCPIsAWarnedOfChoice(t *testing.T) {
	freshHosts(t)
	servers.Apply(t, kubeProxy)
	servers.On(t, "l1", "sh", "-ec", `iptables-restore --noflush <<'END'
*nat
:KUBE-SERVICES - [0:0]
:KUBE-SVC-ERIFXISQEP7F7OF4 - [0:0]
-A PREROUTING -j KUBE-SERVICES
-A KUBE-SERVICES -d 10.96.0.10/32 -j KUBE-SVC-ERIFXISQEP7F7OF4
-A POSTROUTING -s 192.0.2.1/32 -j MASQUERADE
COMMIT
END`)
	servers.On(t, "l2", "nft", "add", "table", "ip", "kube-proxy")

	with := []string{"--extra-vars", "weft_plaintext=true"}
	t.Cleanup(func() { uninstall(t) }) // after the pods, which Weft ends
	out, _ := play(t, "site.yml", with...)
	if !strings.Contains(out, "WARNING: weft_plaintext is set") {
		t.Error("nobody is warned of weft_plaintext")
	}
	awaitCluster(t)
	if chassis := servers.On(t, "l1", "ovn-sbctl", "--timeout=10", "--no-leader-only", "--db=tcp:"+addresses["c2"]+":6642", "--bare", "--columns=name", "list", "Chassis"); !slices.Contains(strings.Fields(chassis), "l2") {
		t.Errorf("by plain TCP the Southbound has the chassis %s", chassis)
	}
	if rules := servers.On(t, "l1", "iptables-save"); strings.Contains(rules, "KUBE-SERVICES") || !strings.Contains(rules, "192.0.2.1") {
		t.Errorf("l1 has rules of kube-proxy, or not those of others:\n%s", rules)
	}
	if tables := servers.On(t, "l2", "nft", "list", "tables"); strings.Contains(tables, "kube-proxy") {
		t.Errorf("l2 has tables of kube-proxy:\n%s", tables)
	}
	servers.On(t, "l1", "iptables", "-t", "nat", "-D", "POSTROUTING", "-s", "192.0.2.1/32", "-j", "MASQUERADE")
	if left := servers.Kubectl(t, "get", "daemonset", "--namespace=kube-system", "kube-proxy", "--ignore-not-found", "--output=name"); left != "" {
		t.Errorf("there is %s", left)
	}
	changesNothing(t, "site.yml", with...)
	play(t, "verify.yml", with...)
}

// relaysServeNodes in place of the Southbound's members, and whoever wants them no longer goes back.
func relaysServeNodes(t *testing.T) {
	install(t)
	with := []string{"--extra-vars", "weft_sb_relay=true"}
	play(t, "site.yml", with...)
	deploy(t)
	for _, central := range centrals {
		chassis := servers.On(t, central, "ovn-sbctl", "--timeout=10", "--no-leader-only", "--db=unix:/run/ovn/ovnsb_relay.sock", "--bare", "--columns=name", "list", "Chassis")
		if names := strings.Fields(chassis); !slices.Contains(names, "l1") || !slices.Contains(names, "l2") {
			t.Errorf("%s: the relay has the chassis %v", central, names)
		}
		if guarded := servers.On(t, central, "grep", "ovn-southbound:", "/etc/weft/southbound.yaml"); !strings.Contains(guarded, "relay") {
			t.Errorf("%s: nodes' clients come to %s", central, guarded)
		}
	}
	changesNothing(t, "site.yml", with...)
	play(t, "verify.yml", with...)
	for _, central := range centrals {
		servers.On(t, central, "systemctl", "kill", "--signal=SIGKILL", "weft-sb-relay")
	}
	t.Logf("After all relays have died a new pod is connected after %s", newPod(t, "relayed", "l1", "l2").Round(100*time.Millisecond))

	play(t, "site.yml")
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
