// Package ovsdbtest gives tests a database: libovsdb's server in memory, or real ovsdb-server
// processes, alone or as a cluster.
package ovsdbtest

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"os"
	"testing"
	"time"

	"github.com/ovn-kubernetes/libovsdb/model"
	schema "github.com/ovn-kubernetes/libovsdb/ovsdb"

	"github.com/weftnet/weft/models/nb"
	"github.com/weftnet/weft/models/sb"
	"github.com/weftnet/weft/models/schemas"
	"github.com/weftnet/weft/models/vswitch"
	"github.com/weftnet/weft/ovsdb"
)

// Database is a schema with its generated model.
type Database struct {
	Schema []byte
	Model  model.ClientDBModel
}

// Northbound is OVN's Northbound database.
func Northbound(t testing.TB) Database { return database(t, schemas.Northbound, nb.FullDatabaseModel) }

// Southbound is OVN's Southbound database.
func Southbound(t testing.TB) Database { return database(t, schemas.Southbound, sb.FullDatabaseModel) }

// OpenVSwitch is a node's database.
func OpenVSwitch(t testing.TB) Database {
	return database(t, schemas.OpenVSwitch, vswitch.FullDatabaseModel)
}

func database(t testing.TB, text []byte, full func() (model.ClientDBModel, error)) Database {
	t.Helper()
	m, err := full()
	if err != nil {
		t.Fatal(err)
	}
	return Database{text, m}
}

func (d Database) schema(t testing.TB) schema.DatabaseSchema {
	t.Helper()
	var s schema.DatabaseSchema
	if err := json.Unmarshal(d.Schema, &s); err != nil {
		t.Fatalf("read the schema of %s: %v", d.Model.Name(), err)
	}
	return s
}

// Connect gives a client of a server, with tables, that ends with the test. What it logs is shown
// when the test fails.
func Connect(t testing.TB, d Database, endpoints string, tables ...ovsdb.Table) *ovsdb.Client {
	t.Helper()
	return ConnectWith(t, ovsdb.Config{Endpoints: endpoints, Model: d.Model, Tables: tables})
}

// ConnectWith is Connect with more to say. Unless config names another time, a silent server is asked for a sign of
// life only after a minute: on a busy machine it is the machine that is silent, and a transaction that is done again is
// one too many.
func ConnectWith(t testing.TB, config ovsdb.Config) *ovsdb.Client {
	t.Helper()
	if config.Logger == nil {
		config.Logger = Logger(t)
	}
	if config.Probe == 0 {
		config.Probe = time.Minute
	}
	if _, memory := inMemory.Load(config.Endpoints); memory {
		config.Pipeline, config.Dial = 1, dialOneAtATime
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	client, err := ovsdb.Connect(ctx, config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

// Logger writes to the test's log; a benchmark's, which is always shown, is for warnings. So is standard error, which
// stands in for a fuzz test's: that takes nothing while the target runs, and a client lives on beside it.
func Logger(t testing.TB) *slog.Logger {
	var out io.Writer = testWriter{t}
	level := slog.LevelInfo
	switch t.(type) {
	case *testing.B:
		level = slog.LevelWarn
	case *testing.F:
		out, level = os.Stderr, slog.LevelWarn
	}
	return slog.New(slog.NewTextHandler(out, &slog.HandlerOptions{Level: level}))
}

type testWriter struct{ t testing.TB }

func (w testWriter) Write(line []byte) (int, error) {
	w.t.Log(string(bytes.TrimRight(line, "\n")))
	return len(line), nil
}

// Engine starts a database in memory and gives the engine of a client of it.
func Engine(t testing.TB, d Database, tables ...ovsdb.Table) *ovsdb.Engine {
	t.Helper()
	return ovsdb.NewEngine(Connect(t, d, Memory(t, d), tables...))
}
