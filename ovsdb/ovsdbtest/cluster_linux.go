package ovsdbtest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

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
			Run(t, "ovsdb-tool", "create-cluster", database, schema, address)
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

// Leader is the member that leads, nil while none does.
func Leader(d Database, members []*Process) *Process {
	for _, p := range members {
		if out, err := p.output("cluster/status", d.Model.Name()); err == nil && strings.Contains(out, "Role: leader") {
			return p
		}
	}
	return nil
}
