//go:build cluster

package e2e

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	weftlab "github.com/weftnet/weft/test/lab"
)

// TestStrangersGetNothingOfAnAgent: on the port of a Windows node's agent is that node's Open vSwitch database, for
// chassis hosts alone. Each is told of in the agent's log.
func TestStrangersGetNothingOfAnAgent(t *testing.T) {
	const agent, request = "172.29.0.13", `{"id":0,"method":"list_dbs","params":[]}`
	pki := filepath.Join(weftlab.StateDir(cluster.Name), "pki")
	tls := func(options string) string {
		return fmt.Sprintf("printf '%s' | timeout 5 openssl s_client -quiet -alpn weft-ovsdb/1 -connect %s:16642 %s 2>&1",
			request, agent, options)
	}
	with := func(name string) string { return fmt.Sprintf("-cert %[1]s/%[2]s.crt -key %[1]s/%[2]s.key", pki, name) }
	for _, c := range []struct {
		who, on, command, logged string
		served                   bool
	}{
		{"a chassis host", "l1", tls(with("tunnel-l1")), "", true},
		{"another node's agent", "l1", tls(with("agent-w2")), "reason=wrong-name", false},
		{"a client without a certificate", "l1", tls(""), "reason=no-certificate", false},
		{"a client without TLS", "l2", fmt.Sprintf("exec 3<>/dev/tcp/%s/16642; printf '%s' >&3; timeout 5 cat <&3", agent,
			request), "first record does not look like a TLS handshake", false},
	} {
		t.Run(c.who, func(t *testing.T) {
			out, err := cluster.Try("exec", c.on, "--", "bash", "-c", c.command+"; true")
			if err != nil || strings.Contains(out, "Open_vSwitch") != c.served {
				t.Errorf("the answer is %q: %v", out, err)
			}
			eventually(t, 20*time.Second, "the agent tells of it", func() error {
				log, err := cluster.Try("logs", "weft-node", "w1", "-n", "500")
				if err == nil && !strings.Contains(log, c.logged) {
					err = fmt.Errorf("there is no %q in its log", c.logged)
				}
				return err
			})
		})
	}
}
