package ovsdbtest

import (
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"

	"github.com/go-logr/logr"
	"github.com/ovn-kubernetes/libovsdb/database/inmemory"
	"github.com/ovn-kubernetes/libovsdb/model"
	"github.com/ovn-kubernetes/libovsdb/server"

	"github.com/weftnet/weft/test/freeport"
)

// inMemory has the endpoints of servers in memory.
var inMemory sync.Map

// Memory starts libovsdb's server in memory and gives its endpoint. It does as the real one does
// except that it accepts values outside of a column's enumeration or range, and does not keep the
// order of requests in flight: ConnectWith sees to it that there is but one.
func Memory(t testing.TB, d Database) string {
	t.Helper()
	log := logr.Discard()
	store := inmemory.NewDatabase(map[string]model.ClientDBModel{d.Model.Name(): d.Model}, &log)
	full, problems := model.NewDatabaseModel(d.schema(t), d.Model)
	if len(problems) > 0 {
		t.Fatalf("fit the model of %s to its schema: %v", d.Model.Name(), problems)
	}
	s, err := server.NewOvsdbServer(store, &log, full)
	if err != nil {
		t.Fatal(err)
	}
	network, address, endpoint := memoryAddress(t)
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(network, address) }()
	waitUntil(t, "the server in memory serves", s.Ready)
	t.Cleanup(func() {
		s.Close()
		if err := <-ended; err != nil {
			t.Errorf("server in memory: %v", err)
		}
	})
	inMemory.Store(endpoint, true)
	return endpoint
}

// memoryAddress is where a server in memory listens: a unix socket, a port of the loopback interface on
// Windows, where unix sockets depend on the release.
func memoryAddress(t testing.TB) (network, address, endpoint string) {
	t.Helper()
	if runtime.GOOS != "windows" {
		path := filepath.Join(socketDir(t), "memory.sock")
		return "unix", path, "unix:" + path
	}
	address = freeport.Address(t)
	return "tcp", address, "tcp:" + address
}

// socketDir is a directory whose name is short enough for a socket within.
func socketDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "ovsdb")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Errorf("remove the server's directory: %v", err)
		}
	})
	return dir
}
