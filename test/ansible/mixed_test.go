//go:build ansible

package ansible

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"
)

// windowsKeys of the Windows node are those that the role weft_node_windows gives it and the lab does not. Ansible
// comes to Windows by WinRM, which the lab's node has not: test/ansible/windows has how the role does it.
const windowsKeys = "/var/lib/weft/"

// TestMixed is of a Windows node beside nodes that site.yml has installed: pods of all systems reach each other's
// addresses, Services and node ports, and policies hold among them. With -kernel the Linux nodes switch packets in
// Linux' own datapath.
func TestMixed(t *testing.T) {
	if !*windows {
		t.Skip("the lab has no Windows node; -args -windows gives it one")
	}
	install(t)
	joinWindowsNode(t)
	awaitCluster(t)
	members := []member{{"l1", "172.31.0.14"}, {"l2", "172.31.0.15"}, {windowsNode, "172.31.0.16"}}
	for _, m := range members {
		servers.Apply(t, m.workload(), waits...)
	}
	for _, m := range members {
		servers.Kubectl(t, "wait", "--for=condition=Ready", "--timeout=180s", "pod/mixed-"+m.node)
		servers.Kubectl(t, "label", "pod/mixed-"+m.node, "app=mixed-"+m.node)
	}
	everybodyAnswersAll(t, members)

	// What a policy of one node's pod lets in is from one other node alone.
	for i, m := range members {
		let := members[(i+1)%len(members)]
		refused := members[(i+2)%len(members)]
		policy := fmt.Sprintf(`
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: mixed}
spec:
  podSelector: {matchLabels: {app: mixed-%s}}
  policyTypes: [Ingress]
  ingress: [{from: [{podSelector: {matchLabels: {app: mixed-%s}}}]}]
`, m.node, let.node)
		if out, err := servers.TryWith(policy, "kubectl", "--", "apply", "-f", "-"); err != nil {
			t.Fatal(out, err)
		}
		for _, url := range m.urls(t) {
			eventually(t, 60*time.Second, refused.node+" is refused at "+url, func() error {
				if said, err := refused.ask(url); err == nil {
					return fmt.Errorf("%s answers", said)
				}
				return nil
			})
			if said, err := let.ask(url); err != nil || said != "mixed-"+m.node {
				t.Errorf("%s asks %s, which its policy allows: %q, %v", let.node, url, said, err)
			}
		}
		servers.Kubectl(t, "delete", "networkpolicy", "mixed")
	}
	everybodyAnswersAll(t, members)
}

// member is a node of the cluster with its address.
type member struct{ node, address string }

// workload is a pod of the node, and a Service of it alone, with a node port.
func (m member) workload() string {
	name := "mixed-" + m.node
	return agnhost(name, m.node, "hostNetwork: false") + fmt.Sprintf(`
---
apiVersion: v1
kind: Service
metadata: {name: %[1]s}
spec:
  type: NodePort
  selector: {app: %[1]s}
  ports: [{port: 80, targetPort: 8099}]
`, name)
}

// urls of the node's pod: of itself, and of its Service.
func (m member) urls(t testing.TB) []string {
	t.Helper()
	name := "mixed-" + m.node
	service := servers.Kubectl(t, "get", "service", name, "-o", "jsonpath={.spec.clusterIP}")
	return []string{"http://" + podAddress(t, name) + ":8099/hostname", "http://" + service + "/hostname"}
}

// ask from the node's pod.
func (m member) ask(url string) (string, error) {
	return servers.Try("kubectl", "--", "exec", "mixed-"+m.node, "--", "curl", "-sS", "-m", "2", url)
}

// everybodyAnswersAll waits until each pod is answered by each other one and by their Services, and until somebody
// outside is answered at each node's address by the node ports of all.
func everybodyAnswersAll(t testing.TB, members []member) {
	t.Helper()
	for _, to := range members {
		want := "mixed-" + to.node
		answered := func(who, url string, ask func(string) (string, error)) {
			eventually(t, 60*time.Second, who+" asks "+url+" of "+want, func() error {
				if said, err := ask(url); err != nil || said != want {
					return fmt.Errorf("%q, %v", said, err)
				}
				return nil
			})
		}
		for _, url := range to.urls(t) {
			for _, from := range members {
				answered(from.node, url, from.ask)
			}
		}
		port := servers.Kubectl(t, "get", "service", want, "-o", "jsonpath={.spec.ports[0].nodePort}")
		for _, at := range members {
			answered("somebody outside", "http://"+at.address+":"+port+"/hostname", func(url string) (string, error) {
				return servers.Try("exec", "outside", "--", "curl", "-sS", "-m", "2", url)
			})
		}
	}
}

// joinWindowsNode gives the lab's Windows node the keys and the certificate that the role would, and its chassis hosts
// what they need. It returns when Kubernetes has it Ready.
func joinWindowsNode(t testing.TB) {
	t.Helper()
	address := servers.On(t, windowsNode, "sh", "-ec", "set -- $(ip -4 -o address show dev eth0) && echo ${4%/*}")
	play(t, "controllers.yml", withWindowsNode(t, address)...)
	name := issueAgentCertificate(t)
	keys := map[string]any{"gateway": "local", "ovn-southbound": southbound(t)}
	for key, file := range map[string]string{"tunnel-ca": "trust.crt", "tunnel-certificate": name + ".crt",
		"tunnel-private-key": name + ".key"} {
		text := servers.Must(t, "control", "--", "sh", "-ec", `cat ~/.weft/pki/tunnel/"$0"`, file)
		writeOn(t, windowsNode, windowsKeys+file, text+"\n")
		keys[key] = `Z:\var\lib\weft\` + file
	}
	text, err := json.Marshal(keys)
	if err != nil {
		t.Fatal(err)
	}
	writeOn(t, windowsNode, windowsKeys+"weft.yaml", string(text)) // the agent starts when it is there
	servers.Kubectl(t, "wait", "--for=condition=Ready", "--timeout=300s", "node/"+windowsNode)
}

// southbound is where a Linux node finds it, as site.yml has told its agent.
func southbound(t testing.TB) any {
	t.Helper()
	var keys map[string]any
	if err := json.Unmarshal([]byte(servers.On(t, "l1", "cat", "/etc/weft/node.yaml")), &keys); err != nil {
		t.Fatal(err)
	}
	return keys["ovn-southbound"]
}

func writeOn(t testing.TB, machine, path, text string) {
	t.Helper()
	if out, err := servers.TryWith(text, "exec", machine, "--", "sh", "-ec", `umask 077; cat > "$0.new"; mv "$0.new" "$0"`,
		path); err != nil {
		t.Fatal(out, err)
	}
}
