//go:build ansible

package ansible

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// authoritiesAreRotatedUnderTraffic goes through the three steps. Nothing is restarted, new pods come up after each
// step, and after the last one nobody is heard with what the old authorities signed.
func authoritiesAreRotatedUnderTraffic(t *testing.T) {
	install(t)
	deploy(t)
	const node, central = "l1", "c1"
	servers.On(t, node, "sh", "-ec", "rm -rf /root/old && mkdir -m 700 /root/old && cp /etc/weft/pki/* /root/old")
	t.Cleanup(func() { servers.On(t, node, "rm", "-rf", "/root/old") })
	if out, err := asChassis(node, "/root/old"); err != nil {
		t.Fatal("the Southbound does not hear the node before anything is rotated: ", out, err)
	}
	before, services := authorities(t), processes(t)
	tr := startTraffic(t)
	for i, step := range []string{"begin", "switch", "end"} {
		began := time.Now()
		play(t, "certificates.yml", "-e", "weft_pki_rotate="+step)
		t.Logf("certificates.yml, step %s, took %s", step, time.Since(began).Round(time.Second))
		wanted := map[string]int{"begin": 2, "switch": 2, "end": 1}[step]
		for host, file := range map[string]string{central: "central-ca.crt", node: "central-ca.crt"} {
			if got := servers.On(t, host, "grep", "-c", "BEGIN CERT", "/etc/weft/pki/"+file); got != fmt.Sprint(wanted) {
				t.Errorf("after %s %s of %s has %s authorities, not %d", step, file, host, got, wanted)
			}
		}
		play(t, "verify.yml")
		n := nodes[i%2]
		newPod(t, "after-"+step, n.name, n.other)
	}
	hitsAreCounted(t) // by the new authority's certificates
	tr.stop(t)
	for file, old := range before {
		if now := authorities(t)[file]; now == old {
			t.Errorf("%s is still signed by %s", file, now)
		}
	}
	for service, process := range processes(t) {
		if services[service] != process {
			t.Errorf("%s was restarted: %s, before %s", service, process, services[service])
		}
	}
	if out, err := asChassis(node, "/etc/weft/pki"); err != nil {
		t.Error("the Southbound does not hear the node: ", out, err)
	}
	// The node has its new certificate, but asks for a server of the old authority; and the other way round.
	servers.On(t, node, "sh", "-ec", "rm -rf /root/trusting && cp -r /etc/weft/pki /root/trusting && cp "+
		"/root/old/central-ca.crt /root/trusting && cp /etc/weft/pki/central-ca.crt /root/old")
	t.Cleanup(func() { servers.On(t, node, "rm", "-rf", "/root/trusting") })
	for old, files := range map[string]string{"trust": "/root/trusting", "certificate": "/root/old"} {
		if out, err := asChassis(node, files); err == nil {
			t.Errorf("with the old %s the node and the Southbound talk: %s", old, out)
		} else if !strings.Contains(err.Error(), "SSL") && !strings.Contains(err.Error(), "certificate") {
			t.Errorf("with the old %s they fail for another reason: %v", old, err)
		}
	}
}

// asChassis asks the Southbound as a node would, with keys and certificates of a folder.
func asChassis(node, files string) (string, error) {
	return servers.Try("exec", node, "--", "ovn-sbctl", "--timeout=10", "--no-leader-only", "--db=ssl:172.29.0.11:6642",
		"--private-key="+files+"/chassis.key",
		"--certificate="+files+"/chassis.crt", "--ca-cert="+files+"/central-ca.crt", "--bare", "--columns=name", "list",
		"Chassis")
}

// authorities that signed what hosts show each other, by host and file.
func authorities(t testing.TB) map[string]string {
	t.Helper()
	found := map[string]string{}
	for host := range hosts {
		files := "central.crt controller.crt observe.crt"
		if !isCentral(host) {
			files = "chassis.crt agent.crt"
		}
		for file := range strings.FieldsSeq(files) {
			found[host+" "+file] = servers.On(t, host, "openssl", "x509", "-noout", "-issuer", "-in", "/etc/weft/pki/"+file)
		}
	}
	return found
}

// processes of the services of Weft and Open vSwitch, by host and unit, with the time that each one started.
func processes(t testing.TB) map[string]string {
	t.Helper()
	found := map[string]string{}
	for host := range hosts {
		for line := range strings.Lines(servers.On(t, host, "sh", "-c", `systemctl list-units --plain --no-legend --state=running 'weft-*' 'ovs*' | while read -r unit _; do
			echo "$unit $(systemctl show --property=MainPID --property=ExecMainStartTimestampMonotonic --value $unit | tr '\n' ' ')"; done`)) {
			unit, process, _ := strings.Cut(strings.TrimSpace(line), " ")
			found[host+" "+unit] = process
		}
	}
	if len(found) < 3*len(hosts) {
		t.Fatalf("on all hosts there run only %v", found)
	}
	return found
}
