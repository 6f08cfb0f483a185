//go:build ansible

package ansible

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// addresses of the hosts, in their order.
var addresses = map[string]string{"c1": "172.29.0.11", "c2": "172.29.0.12", "c3": "172.29.0.13", "l1": "172.29.0.14",
	"l2": "172.29.0.15"}

// attempt is what an attacker who is root on a host tries with real tools, and what must come of it.
type attempt struct {
	what, from, script string
	// says is what the tools answer; an empty one stands for success.
	says string
	// logged is what a unit on a host says of it afterwards.
	logged, on, unit string
}

// asL1 has OVN's tools use the certificate of node l1, and nobody those that the attacker made himself.
const (
	asL1    = "-p /etc/weft/pki/chassis.key -c /etc/weft/pki/chassis.crt -C /etc/weft/pki/central-ca.crt"
	foreign = "-p /run/foreign.key -c /run/foreign.crt -C /etc/weft/pki/central-ca.crt"
)

// try has the attacker try, and looks for what became of it.
func (a attempt) try(t *testing.T) {
	t.Helper()
	since := servers.On(t, a.from, "date", "+%s")
	out, err := servers.Try("exec", a.from, "--", "sh", "-c", "exec 2>&1\n"+a.script)
	if err != nil {
		out += err.Error()
	}
	if (err == nil) != (a.says == "") || !regexp.MustCompile(a.says).MatchString(out) {
		t.Errorf("%s: it has to end with %q: %v %s", a.what, a.says, err, out)
	}
	if a.logged == "" {
		return
	}
	eventually(t, 20*time.Second, a.what+" is logged", func() error {
		journal, err := servers.Try("exec", a.on, "--", "journalctl", "--unit", a.unit, "--since", "@"+since, "--output",
			"cat", "--no-pager")
		if err == nil && !regexp.MustCompile(a.logged).MatchString(journal) {
			err = fmt.Errorf("%s on %s says %q, not %q", a.unit, a.on, journal, a.logged)
		}
		return err
	})
}

// makeForeign gives a host a certificate that names node l1, of an authority which nobody knows.
func makeForeign(t *testing.T, host string) {
	servers.On(t, host, "sh", "-ec", "umask 077; openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=l1 -keyout "+
		"/run/foreign.key -out /run/foreign.crt 2>/dev/null")
	t.Cleanup(func() { servers.On(t, host, "rm", "-f", "/run/foreign.key", "/run/foreign.crt") })
}

// TestTheSouthboundBelongsToEachNodeForItself: from a node, with no certificate, with a wrong one, and with the node's
// own.
func TestTheSouthboundBelongsToEachNodeForItself(t *testing.T) {
	install(t)
	awaitCluster(t)
	makeForeign(t, "l1")
	sbctl := "ovn-sbctl --timeout=15 --no-leader-only " + asL1 + " --db=ssl:"
	remote := func(host string) string { return addresses[host] + ":6642" }
	row := func(table, condition string) string {
		return servers.On(t, "l1", "sh", "-ec", sbctl+remote("c1")+" --bare --columns=_uuid find "+table+" "+condition)
	}
	l1, l2 := row("Chassis", "name=l1"), row("Chassis", "name=l2")
	pod := row("Port_Binding", "logical_port=default_client-l2")
	gateway := row("Port_Binding", "logical_port=rtoe-l2")
	if l1 == "" || l2 == "" || pod == "" || gateway == "" {
		t.Fatalf("node l1 reads of the Southbound: chassis %q and %q, port %q, gateway %q", l1, l2, pod, gateway)
	}
	datapath := servers.On(t, "l1", "sh", "-ec", sbctl+remote("c1")+" --bare get Port_Binding "+gateway+" datapath")
	hello := `printf '{"id":0,"method":"list_dbs","params":[]}' | timeout 5 openssl s_client -quiet %s -connect ` +
		remote("c1")
	guard := func(says string) string { return `node=l1 .*refused="` + says }
	for _, a := range []attempt{
		{what: "the node's own chassis", script: sbctl + remote("c1") + " set Chassis_Private l1 external_ids:tried=1 -- " +
			"remove Chassis_Private l1 external_ids tried"},
		{what: "a client without a certificate", script: fmt.Sprintf(hello, "") + " | grep -q result && exit 0; echo " +
			"refused; exit 1", says: "refused", logged: "didn't provide a certificate", on: "c1"},
		{what: "TLS 1.1", script: fmt.Sprintf(hello, "-tls1_1 -cipher DEFAULT@SECLEVEL=0 -cert /etc/weft/pki/chassis.crt "+
			"-key /etc/weft/pki/chassis.key") + " | grep -q result && exit 0; echo refused; exit 1",
			says: "refused", logged: "unsupported versions", on: "c1"},
		{what: "a certificate of a foreign authority", script: "ovsdb-client --timeout=10 " + foreign + " list-dbs ssl:" +
			remote("c2"), says: "failed", logged: "unknown authority", on: "c2"},
		{what: "another node's chassis is deleted", script: sbctl + remote("c1") + " chassis-del l2",
			says: "permission error", logged: guard("row .* is another node's"), on: "c1"},
		{what: "another node's port is claimed", script: sbctl + remote("c2") + " set Port_Binding " + pod + " chassis=" + l1,
			says:   "permission error",
			logged: guard("row default_client-l2 of table Port_Binding is another node's"), on: "c2"},
		{what: "another gateway's neighbour is replaced", script: sbctl + remote("c3") +
			" create MAC_Binding logical_port=rtoe-l2 datapath=" + datapath + ` ip=172.31.0.254 mac='"02:00:00:00:00:66"'`,
			says: "permission error", logged: guard("port rtoe-l2 has no neighbours on the node"), on: "c3"},
		{what: "northd's lock is stolen", script: "ovsdb-client --timeout=5 " + asL1 + " steal ssl:" + remote("c1") +
			" ovn_northd | grep -q locked.*true && exit 0; echo refused; exit 1", says: "refused", logged: `method=steal`,
			on: "c1"},
		{what: "the roles are changed", script: sbctl + remote("c2") + " create RBAC_Role name=mine",
			says: "permission error", logged: guard("table RBAC_Role"), on: "c2"},
	} {
		t.Run(a.what, func(t *testing.T) {
			a.from, a.unit = "l1", "weft-southbound"
			a.try(t)
		})
	}
	if got := row("Chassis", "name=l2"); got != l2 {
		t.Errorf("chassis l2 was %s and is %q", l2, got)
	}
	if got := servers.On(t, "l1", "sh", "-ec", sbctl+remote("c1")+" --bare get Port_Binding "+pod+" chassis"); got != l2 {
		t.Errorf("the port of a pod on l2 is bound to %s, not to %s", got, l2)
	}
	awaitConnections(t)
}

// TestDatabasesAreClosedToNodes: the Northbound and the ports of the databases' clusters. A node does not get there;
// and who does, by the address of a central host, has no certificate that they take.
func TestDatabasesAreClosedToNodes(t *testing.T) {
	install(t)
	const port = "timeout 3 bash -c '</dev/tcp/%s/%d' && exit 0; echo closed; exit 1"
	dropped := func(chain string) string {
		return servers.On(t, "c1", "sh", "-ec", "nft list chain inet weft "+chain+" | grep -o 'packets [0-9]*'")
	}
	for number, chain := range map[int]string{6641: "clients-only", 6643: "members-only", 6644: "members-only"} {
		before := dropped(chain)
		attempt{what: fmt.Sprint("port ", number, " from a node"), from: "l1", script: fmt.Sprintf(port, addresses["c1"],
			number), says: "closed"}.try(t)
		if after := dropped(chain); after == before {
			t.Errorf("port %d: the firewall has counted nothing, %s", number, after)
		}
		attempt{what: fmt.Sprint("port ", number, " from a central host"), from: "c2",
			script: fmt.Sprintf(port, addresses["c1"], number)}.try(t)
	}
	// A host's own rules, when they are loaded, flush all others, and ours follow a moment later.
	for _, verb := range []string{"restart", "reload"} {
		servers.On(t, "c1", "systemctl", verb, "nftables")
		eventually(t, 10*time.Second, "the firewall is there again", func() error {
			_, err := servers.Try("exec", "c1", "--", "nft", "list", "chain", "inet", "weft", "members-only")
			return err
		})
	}
	attempt{what: "a port after the host's own rules were loaded anew", from: "l1",
		script: fmt.Sprintf(port, addresses["c1"], 6643), says: "closed"}.try(t)
	servers.On(t, "c1", "sh", "-ec", "systemctl stop nftables; nft list tables | grep -q 'inet weft$' && exit 1; exit 0")
	if out, _, err := current.tryPlay("verify.yml", "--limit", "c1"); err == nil ||
		!strings.Contains(out, "no table inet weft") {
		t.Errorf("verify.yml does not miss the firewall: %v\n%s", err, out)
	}
	servers.On(t, "c1", "systemctl", "start", "weft-firewall")
	makeForeign(t, "c2")
	for name, file := range map[string]string{"crt": "/etc/weft/pki/chassis.crt", "key": "/etc/weft/pki/chassis.key"} {
		text := servers.On(t, "l1", "cat", file)
		if _, err := servers.TryWith(text+"\n", "exec", "c2", "--", "sh", "-ec", "umask 077; cat > /run/stolen."+
			name); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { servers.On(t, "c2", "rm", "-f", "/run/stolen.crt", "/run/stolen.key") })
	for number, unit := range map[int]string{6641: "weft-nb", 6643: "weft-nb", 6644: "weft-sb"} {
		for what, a := range map[string]attempt{
			"no certificate": {script: "", logged: "peer did not return a certificate"},
			"a certificate of a foreign authority": {script: "-cert /run/foreign.crt -key /run/foreign.key",
				logged: "certificate verify failed|unknown ca"},
			"a node's certificate": {script: "-cert /run/stolen.crt -key /run/stolen.key",
				logged: "certificate verify failed|unknown ca"},
		} {
			a.what, a.from, a.on, a.unit, a.says = fmt.Sprintf("port %d with %s", number, what), "c2", "c1", unit, "alert"
			a.script = fmt.Sprintf("printf '%s' | timeout 10 openssl s_client -quiet %s -connect %s:%d | grep -q result && "+
				"exit 0; exit 1",
				`{"id":0,"method":"list_dbs","params":[]}`, a.script, addresses["c1"], number)
			t.Run(a.what, a.try)
		}
	}
}

// TestAKubeletsCredentialsAreItsNodes: what the API server says to who has them.
func TestAKubeletsCredentialsAreItsNodes(t *testing.T) {
	install(t)
	awaitCluster(t)
	ask := func(method, path, kind, body string) string {
		return fmt.Sprintf("curl -sS --max-time 20 --cacert /etc/kubernetes/pki/ca.crt --cert "+
			"/var/lib/kubelet/pki/kubelet-client-current.pem -X %s -H 'Content-Type: application/%s' -d '%s' "+
			"https://172.29.0.1:6443%s -w '\\nstatus %%{http_code}\\n' | tee /run/answer; grep -q 'status 2' /run/answer",
			method, kind, body, path)
	}
	t.Cleanup(func() { servers.On(t, "l1", "rm", "-f", "/run/answer") })
	const merge = "merge-patch+json"
	for _, a := range []attempt{
		{what: "an annotation of its own node", script: ask("PATCH", "/api/v1/nodes/l1", merge,
			`{"metadata":{"annotations":{"example.com/tried":null}}}`)},
		{what: "another node", script: ask("PATCH", "/api/v1/nodes/l2", merge,
			`{"metadata":{"annotations":{"weft.net/node-facts":"{}"}}}`), says: "is not allowed to modify node"},
		{what: "another node's status", script: ask("PATCH", "/api/v1/nodes/l2/status", merge, `{"status":{"addresses":[]}}`),
			says: "is not allowed to modify node"},
		{what: "its own label weft.net/gateway", script: ask("PATCH", "/api/v1/nodes/l1", merge,
			`{"metadata":{"labels":{"weft.net/gateway":""}}}`), says: "weft.net"},
		{what: "its own annotation weft.net/node-network", script: ask("PATCH", "/api/v1/nodes/l1", merge,
			`{"metadata":{"annotations":{"weft.net/node-network":"{}"}}}`), says: "weft-annotations"},
		{what: "its own range of pods", script: ask("PATCH", "/api/v1/nodes/l1", merge,
			`{"spec":{"podCIDR":"10.244.9.0/24","podCIDRs":["10.244.9.0/24"]}}`), says: "may not change podCIDR"},
		{what: "another node's pod", script: ask("PATCH", "/api/v1/namespaces/default/pods/client-l2/status", merge,
			`{"metadata":{"annotations":{"weft.net/pod-network":"{}"}}}`), says: "status 403"},
		{what: "the end of another node's pod", script: ask("DELETE", "/api/v1/namespaces/default/pods/client-l2", "json",
			""), says: "status 403"},
		{what: "the controller's lease",
			script: ask("PATCH", "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/weft-controller", merge,
				`{"spec":{"holderIdentity":"l1"}}`), says: "status 403"},
		{what: "another node's domain names", script: ask("PATCH", "/apis/weft.net/v1alpha1/resolvednames/l2", merge,
			`{"metadata":{"annotations":{"a":"b"}}}`), says: "status 40[34]"},
		{what: "all secrets", script: ask("GET", "/api/v1/secrets", "json", ""), says: "status 403"},
		{what: "the admission policy",
			script: ask("DELETE", "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies/weft-annotations", "json",
				""), says: "status 403"},
	} {
		t.Run(a.what, func(t *testing.T) {
			a.from = "l1"
			a.try(t)
		})
	}
}

// isSecret are the lines that begin keys, as they are and in base64, and the fields of kubeconfigs that hold any. What
// a kubelet says of a token that it could not fetch is shorter than one.
const isSecret = `PRIVATE KEY-----|LS0tLS1CRUdJTiBQUklWQVRF|LS0tLS1CRUdJTiBFQyBQ|LS0tLS1CRUdJTiBSU0Eg|client-key-data: *[A-Za-z0-9]|token"?: *"?[A-Za-z0-9._-]{20,}`

// TestSecretsAreTheirReadersAlone looks at every file that holds one, wherever Weft or Ansible may have left it.
func TestSecretsAreTheirReadersAlone(t *testing.T) {
	install(t)
	const look = "find %s -xdev -type f -size -512k -exec grep -lIE -e '" + isSecret +
		"' {} + 2>/dev/null | sort | xargs -r stat -c '%%a %%U %%n'"
	owners := map[string]string{"central.key": "weft-ovn", "controller.key": "weft", "kubernetes-controller.key": "weft",
		"kubernetes-chassis.key": "root", "chassis.key": "root", "tunnel.key": "root"}
	check := func(where, found string, owner func(path string) string) {
		if found == "" {
			t.Errorf("%s: no secret is found: this shows nothing", where)
		}
		for line := range strings.Lines(found) {
			f := strings.Fields(line)
			if want := owner(f[2]); f[0] != "600" || want != "" && f[1] != want {
				t.Errorf("%s: %s has mode %s and is %s's; want 600 and %s", where, f[2], f[0], f[1], want)
			}
		}
	}
	for host := range hosts {
		check(host, servers.On(t, host, "sh", "-c", fmt.Sprintf(look, "/etc/weft /var/lib/weft /run/weft /run/ovn "+
			"/etc/openvswitch /usr/local /opt/cni")), func(path string) string {
			owner, known := owners[path[strings.LastIndex(path, "/")+1:]]
			if !known {
				t.Errorf("%s: what is %s?", host, path)
			}
			return owner
		})
		// What is on its way is nowhere kept.
		if left := servers.On(t, host, "sh", "-c",
			fmt.Sprintf(look, "/tmp /var/tmp /root /home /var/log /dev/shm")); left != "" {
			t.Errorf("%s: secrets are left in\n%s", host, left)
		}
		if open := servers.On(t, host, "sh", "-c", "{ find /etc/weft /var/lib/weft -perm /022 ! -type l; find /etc/weft "+
			"/var/lib/weft -name '*.key' -perm /077; "+
			"find /var/lib/weft/ovn -type f -perm /007; } 2>/dev/null; true"); open != "" {
			t.Errorf("%s: anybody may write, or read what is not for all:\n%s", host, open)
		}
	}
	control := servers.Must(t, "control", "--", "sh", "-c", fmt.Sprintf(look, "$HOME/.weft"))
	check("control", control, func(string) string { return "root" })
	if mode := servers.Must(t, "control", "--", "sh", "-c", "stat -c %a $HOME/.weft/pki"); mode != "700" {
		t.Errorf("the folder of authorities has mode %s", mode)
	}
	if left := servers.Must(t, "control", "--", "sh", "-c", fmt.Sprintf(look, "$HOME/.ansible")); left != "" {
		t.Errorf("control: secrets are left in\n%s", left)
	}
}

// TestSecretsAreNotTold has all certificates and keys made anew, as loudly as Ansible can, and looks for them in what
// it prints, in the hosts' journals, and on their command lines.
func TestSecretsAreNotTold(t *testing.T) {
	install(t)
	lines := func() []string { // one of each key, which is the key's alone
		text := servers.Must(t, "control", "--", "sh", "-c", "for f in $(find $HOME/.weft -name '*.key'); do sed -n 2p "+
			"$f; done")
		return strings.Fields(text)
	}
	secrets := lines()
	out, _ := play(t, "certificates.yml", "-vvv", "--extra-vars", "weft_pki_renew_days=3650")
	secrets = append(secrets, lines()...)
	slices.Sort(secrets)
	if secrets = slices.Compact(secrets); len(secrets) < 5 {
		t.Fatalf("%d keys are found: this shows nothing", len(secrets))
	}
	told := func(where, text string) {
		t.Helper()
		if m := regexp.MustCompile(isSecret).FindStringIndex(text); m != nil {
			t.Errorf("%s tells a secret: …%s…", where, text[max(0, m[0]-300):m[1]])
		}
		for i, secret := range secrets {
			if at := strings.Index(text, secret); at >= 0 {
				t.Errorf("%s tells key %d: …%s", where, i, text[max(0, at-300):at])
			}
		}
	}
	told("ansible -vvv", out)
	for host := range hosts {
		told("the journal of "+host, servers.On(t, host, "journalctl", "--no-pager", "--output", "cat"))
		told("a command line on "+host, servers.On(t, host, "sh", "-c",
			`for p in /proc/[0-9]*; do tr '\0' ' ' < $p/cmdline; tr '\0' ' ' < $p/environ; echo; done 2>/dev/null`))
	}
	awaitCluster(t)
	eventually(t, time.Minute, "what the servers show is new", func() error {
		expiry, err := servers.Try("exec", "l1", "--", "sh", "-c", "echo | openssl s_client -connect "+addresses["c1"]+
			":6642 2>/dev/null | openssl x509 -noout -enddate")
		placed, other := servers.Try("exec", "c1", "--", "openssl", "x509", "-noout", "-enddate", "-in",
			"/etc/weft/pki/central.crt")
		if err = errors.Join(err, other); err == nil && expiry != placed {
			err = fmt.Errorf("it shows one with %s, %s is placed", expiry, placed)
		}
		return err
	})
}

// TestANodeIsNoServerToOthers: who has a node's certificate cannot be the Southbound of another one.
func TestANodeIsNoServerToOthers(t *testing.T) {
	install(t)
	pid := servers.On(t, "l1", "sh", "-ec", "openssl s_server -www -accept 16642 -cert /etc/weft/pki/chassis.crt -key "+
		"/etc/weft/pki/chassis.key >/dev/null 2>&1 </dev/null & echo $!")
	t.Cleanup(func() { servers.On(t, "l1", "kill", pid) })
	eventually(t, 20*time.Second, "the false server listens", func() error {
		_, err := servers.Try("exec", "l1", "--", "sh", "-ec", "ss -ltn | grep -q :16642")
		return err
	})
	attempt{what: "a node as a server", from: "l2", script: "ovn-sbctl --timeout=10 --no-leader-only " + asL1 +
		" --db=ssl:" + addresses["l1"] + ":16642 list Chassis",
		says: "certificate verify failed"}.try(t)
}

// TestNothingElseIsOpen: neither on the network, nor to who is on a host and not root.
func TestNothingElseIsOpen(t *testing.T) {
	install(t)
	for host := range hosts {
		expected := "22 6081 10250"
		if strings.HasPrefix(host, "c") {
			expected = "22 6641 6642 6643 6644"
		}
		open := servers.On(t, host, "sh", "-ec",
			`ss -Hltun | awk '$5 !~ /^(127|\[::1\])/ { n = split($5, a, ":"); print a[n] }' | sort -nu`)
		for port := range strings.FieldsSeq(open) {
			if !slices.Contains(strings.Fields(expected), port) {
				t.Errorf("%s listens on port %s, beside %s", host, port, expected)
			}
		}
		sockets := servers.On(t, host, "sh", "-c", `for s in $(find /run/ovn /run/weft /run/openvswitch -type s 2>/dev/null); do
			echo $s; setpriv --reuid=65534 --regid=65534 --clear-groups socat -u OPEN:/dev/null UNIX-CONNECT:$s 2>/dev/null && echo "anybody: $s"; done; true`)
		if strings.Count(sockets, "\n") < 3 || strings.Contains(sockets, "anybody") {
			t.Errorf("%s: sockets, and those that are open to anybody: %s", host, sockets)
		}
	}
	for host, units := range map[string]string{"c1": "weft-nb weft-sb weft-northd weft-southbound weft-controller",
		"c2": "weft-nb weft-sb weft-northd weft-southbound weft-controller"} {
		if users := servers.On(t, host, "sh", "-ec", "for u in "+units+"; do stat -c %U /proc/$(systemctl show "+
			"--property=MainPID --value $u); done"); strings.Contains(users, "root") || strings.Contains(users, "UNKNOWN") {
			t.Errorf("%s: %s run as %s", host, units, strings.Fields(users))
		}
	}
}
