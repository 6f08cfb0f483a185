package ovsdbtest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// electionTimer has no election that a test does not cause: a member of a busy machine is silent for a second at times,
// which is ovsdb-server's own limit.
const electionTimer = "--election-timer=4000"

// Cluster starts a RAFT cluster of n servers.
func Cluster(t testing.TB, d Database, n int) []*Process {
	t.Helper()
	var members []*Process
	first := ""
	for i := range n {
		dir := socketDir(t)
		database, address := filepath.Join(dir, "db"), "unix:"+filepath.Join(dir, "raft.sock")
		if i == 0 {
			schema := filepath.Join(dir, "schema")
			if err := os.WriteFile(schema, d.Schema, 0o600); err != nil {
				t.Fatal(err)
			}
			Run(t, "ovsdb-tool", electionTimer, "create-cluster", database, schema, address)
			first = address
		} else {
			Run(t, "ovsdb-tool", "join-cluster", database, d.Model.Name(), address, first)
		}
		p := newProcess(t, dir, database)
		p.Start()
		members = append(members, p)
		waitUntil(t, fmt.Sprintf("member %d has joined", i), func() bool {
			return strings.Contains(p.Control("cluster/status", d.Model.Name()), "Status: cluster member")
		})
	}
	return members
}

// Leader waits for a member that leads.
func Leader(t testing.TB, d Database, members []*Process) (leader *Process) {
	t.Helper()
	waitUntil(t, "a member leads", func() bool {
		for _, p := range members {
			if out, err := p.output("cluster/status", d.Model.Name()); err == nil && strings.Contains(out, "Role: leader") {
				leader = p
				return true
			}
		}
		return false
	})
	return leader
}
