//go:build cluster

package cluster

import (
	"io"
	"net"
	"os"
	"testing"

	"github.com/weftnet/weft/test/lab"
)

// socketsFolder and socketsGroup are those of the read-only sockets of the databases. A door reads those of its own
// host.
const (
	socketsFolder = "/run/weft-observe"
	socketsGroup  = 998
)

// shareSockets gives a node the central's read-only sockets until the test ends, so that the node can be the host of a
// door: the lab's databases are on a machine that is no node.
func shareSockets(t *testing.T, node string) {
	t.Helper()
	running, err := lab.Open(cluster.Name, lab.StateDir(cluster.Name))
	if err != nil {
		t.Fatal(err)
	}
	folder := path(t, running, node, socketsFolder)
	if err := os.MkdirAll(folder, 0o750); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(folder, 0, socketsGroup); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"nb.sock", "sb.sock"} {
		listener, err := net.Listen("unix", folder+"/"+name)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { listener.Close() })
		if err := os.Chmod(folder+"/"+name, 0o666); err != nil { // the folder is the group's alone
			t.Fatal(err)
		}
		go relay(listener, path(t, running, lab.Central, socketsFolder+"/"+name))
	}
}

// path is where this machine reaches a file of one of the lab's.
func path(t *testing.T, running *lab.Lab, machine, file string) string {
	t.Helper()
	path, err := running.Path(machine, file)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// relay joins each client of a listener to a socket, until the listener is closed.
func relay(listener net.Listener, socket string) {
	for {
		client, err := listener.Accept()
		if err != nil {
			return
		}
		go func() {
			defer client.Close()
			server, err := net.Dial("unix", socket)
			if err != nil {
				return // the client sees that it is closed
			}
			defer server.Close()
			go func() {
				_, _ = io.Copy(server, client)
				_ = server.(*net.UnixConn).CloseWrite()
			}()
			_, _ = io.Copy(client, server)
		}()
	}
}
