//go:build cluster

package e2e

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// outside is a host that no node is, and the address by which it sees pods of nodes that share a gateway.
const (
	outside       = "172.31.0.254"
	sharedAddress = "172.31.0.200"
	outsidePort   = "8099"
)

// TestWindowsPodsLeaveByASharedGateway: the Linux nodes are gateway nodes, one of them is active, and the
// other one takes over when its link goes down.
func TestWindowsPodsLeaveByASharedGateway(t *testing.T) {
	serveOutside(t)
	for _, node := range []string{"l1", "l2"} {
		cluster.Kubectl(t, "label", "node", node, "weft.net/gateway=")
		t.Cleanup(func() { cluster.Kubectl(t, "label", "node", node, "weft.net/gateway-") })
	}
	if ip, err := seenAs(web(badDays)); err != nil || ip == sharedAddress {
		t.Errorf("with a gateway of its own a pod is seen as %q: %v", ip, err)
	}
	replaceConfig(t, badDays, "gateway: shared\n")
	leavesShared := func() error {
		ip, err := seenAs(web(badDays))
		if err == nil && ip != sharedAddress {
			err = fmt.Errorf("it is seen as %s", ip)
		}
		return err
	}
	eventually(t, 60*time.Second, "the pod leaves by the shared gateway", leavesShared)
	if out, err := cluster.In(web(badDays), "ping", "-c", "2", "-W", "3", outside); err != nil {
		t.Errorf("ping: %s %v", out, err)
	}
	active := activeGateway(t)
	link := func(state string) { cluster.Must(t, "exec", active, "--", "ip", "link", "set", "ul0", state) }
	link("down")
	t.Cleanup(func() { link("up") })
	lost := time.Now()
	eventually(t, 20*time.Second, "the other gateway node takes over", leavesShared)
	t.Logf("%s was replaced after %v", active, time.Since(lost).Round(100*time.Millisecond))
	link("up")
	eventually(t, 60*time.Second, "it leaves by the shared gateway when both are there again", leavesShared)
	webServes(t, "l2", 60*time.Second)
	webServes(t, "l1", 60*time.Second)
}

// serveOutside runs a web server on the host outside that says who asks.
func serveOutside(t *testing.T) {
	t.Helper()
	agnhost := filepath.Join(repository(), "bin/lab/agnhost")
	server := cluster.Command("exec", "central", "--", agnhost, "netexec", "--http-port="+outsidePort, "--udp-port=-1")
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cluster.Must(t, "exec", "central", "--", "pkill", "-f", "netexec --http-port="+outsidePort)
		_ = server.Wait() // it was killed
	})
	eventually(t, 20*time.Second, "the host outside serves", func() error {
		_, err := cluster.Try("exec", "central", "--", "curl", "-sS", "--max-time", "2", "http://127.0.0.1:"+outsidePort+
			"/clientip")
		return err
	})
}

// seenAs is the address that the host outside sees a pod's request come from.
func seenAs(pod string) (string, error) {
	out, err := cluster.In(pod, "curl", "-sS", "--max-time", "2", "http://"+outside+":"+outsidePort+"/clientip")
	ip, _, _ := strings.Cut(out, ":")
	return ip, err
}

// activeGateway is the node that carries the shared gateway's port now.
func activeGateway(t *testing.T) string {
	t.Helper()
	chassis := strings.TrimSpace(cluster.Must(t, "sbctl", "--", "--bare", "--columns=chassis", "find", "Port_Binding",
		"logical_port=cr-rtoe@shared"))
	name := strings.TrimSpace(cluster.Must(t, "sbctl", "--", "--bare", "--columns=name", "list", "Chassis", chassis))
	if name != "l1" && name != "l2" {
		t.Fatalf("the shared gateway's port is on %q", name)
	}
	return name
}
