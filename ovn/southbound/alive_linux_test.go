package southbound

import (
	"context"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// TestANodeWaitsForAServerWithoutRoom: a server that is busy takes no connection, and the kernel has only a few wait
// for it. Nodes beyond these hear from the guard, and are served when there is room.
func TestANodeWaitsForAServerWithoutRoom(t *testing.T) {
	path := filepath.Join(t.TempDir(), "busy.sock")
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err == nil {
		err = unix.Bind(fd, &unix.SockaddrUnix{Name: path})
	}
	if err == nil {
		err = unix.Listen(fd, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	var d net.Dialer
	dial := func(ctx context.Context) (net.Conn, error) { return d.DialContext(ctx, "unix", path) }
	var first []net.Conn
	for {
		conn, err := dial(t.Context())
		if err != nil {
			break
		}
		defer conn.Close()
		first = append(first, conn)
	}
	g := &Guard{metrics: newMetrics(), dial: dial}
	client, outer := net.Pipe()
	defer client.Close()
	ended := make(chan error, 1)
	go func() { ended <- g.carry(t.Context(), outer, "l1") }()
	m := &messages{from: client}
	if text, err := m.next(); err != nil || string(text) != lifeRequest {
		t.Fatalf("the node hears %s, %v", text, err)
	}
	for range first {
		conn, _, err := unix.Accept(fd)
		if err != nil {
			t.Fatal(err)
		}
		unix.Close(conn)
	}
	conn, _, err := unix.Accept(fd)
	if err != nil {
		t.Fatal(err)
	}
	const request = `{"id":7,"method":"echo","params":[]}`
	go io.WriteString(client, request)
	buffer := make([]byte, 1<<10)
	n, err := unix.Read(conn, buffer)
	if err != nil || n == 0 {
		t.Errorf("the server gets %d bytes, %v", n, err)
	}
	unix.Close(conn)
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// TestOneNodeTriesForAll: however many nodes wait for a server without room, it is tried as often as for one.
func TestOneNodeTriesForAll(t *testing.T) {
	const nodes, refusals = 30, 5
	var trying, tries atomic.Int64
	servers, ended := make(chan net.Conn, nodes), make(chan error, nodes)
	g := &Guard{metrics: newMetrics()}
	var all sync.Once // have come
	g.dial = func(context.Context) (net.Conn, error) {
		if trying.Add(1) > 1 {
			t.Error("two nodes try at the same time")
		}
		defer trying.Add(-1)
		all.Do(func() { // the others then wait, or they try, too
			for g.door.connected() < nodes {
				runtime.Gosched()
			}
		})
		if tries.Add(1) <= refusals {
			return nil, syscall.EAGAIN
		}
		inner, server := net.Pipe()
		servers <- server
		return inner, nil
	}
	for i := range nodes {
		client, outer := net.Pipe()
		defer client.Close()
		go io.Copy(io.Discard, client)
		go func() { ended <- g.carry(t.Context(), outer, fmt.Sprint("l", i)) }()
	}
	for served := 0; served < nodes; {
		select {
		case server := <-servers:
			server.Close()
		case err := <-ended:
			if err != nil {
				t.Fatal(err)
			}
			served++
		}
	}
	if n := tries.Load(); n != nodes+refusals {
		t.Errorf("the server is tried %d times", n)
	}
}
