package ovsdb_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/weftnet/weft/ovsdb"
	"github.com/weftnet/weft/ovsdb/ovsdbtest"
)

// TestRoles: a server says what it is to a database, also one that serves nothing since its cluster is lost.
func TestRoles(t *testing.T) {
	db := ovsdbtest.Northbound(t)
	role := func(p *ovsdbtest.Process, name string) (ovsdb.Role, error) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		return ovsdb.RoleOf(ctx, ovsdb.Config{Endpoints: p.Endpoint, Logger: slog.New(slog.DiscardHandler)}, name)
	}
	alone := ovsdbtest.Server(t, db)
	if got, err := role(alone, "OVN_Northbound"); err != nil || got != (ovsdb.Role{Model: "standalone", Leader: true,
		Connected: true}) {
		t.Errorf("a server without a cluster is %+v, %v", got, err)
	}
	if _, err := role(alone, "OVN_Southbound"); err == nil ||
		!strings.Contains(err.Error(), "no database OVN_Southbound") {
		t.Errorf("asked for a database that it has not: %v", err)
	}
	members := ovsdbtest.Cluster(t, db, 3)
	leader := ovsdbtest.Leader(t, db, members)
	var rest *ovsdbtest.Process
	for _, p := range members {
		got, err := role(p, "OVN_Northbound")
		if err != nil || got != (ovsdb.Role{Model: "clustered", Leader: p == leader, Connected: true}) {
			t.Errorf("a member, leader: %t, is %+v, %v", p == leader, got, err)
		}
		if p != leader {
			rest = p
		}
	}
	for _, p := range members {
		if p != rest {
			p.Kill()
		}
	}
	deadline := time.Now().Add(2 * time.Minute)
	for {
		got, err := role(rest, "OVN_Northbound")
		if err == nil && got == (ovsdb.Role{Model: "clustered"}) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the last member is %+v, %v", got, err)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// TestAskingEnds with the question, or with its time.
func TestAskingEnds(t *testing.T) {
	db := ovsdbtest.Northbound(t)
	server := ovsdbtest.Server(t, db)
	config := ovsdb.Config{Endpoints: server.Endpoint, Model: db.Model, Logger: ovsdbtest.Logger(t)}
	var kept *ovsdb.Client
	wrong := errors.New("wrong")
	question := func(c *ovsdb.Client) error { kept = c; return wrong }
	if err := ovsdb.Ask(t.Context(), config, question); !errors.Is(err, wrong) {
		t.Errorf("the question's error is %v", err)
	}
	if kept == nil || kept.Connected() {
		t.Error("the connection outlives the question")
	}
	server.Kill()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if err := ovsdb.Ask(ctx, config, func(*ovsdb.Client) error { return nil }); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a server that is gone: %v", err)
	}
}
