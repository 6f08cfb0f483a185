// Package hosttest gives the tests of a host's sockets what is at their ends: servers, daemons in processes of their
// own, and addresses.
package hosttest

import (
	"errors"
	"io"
	"net"
	"net/netip"
	"sync"
	"testing"

	"github.com/weftnet/weft/node/nodetest"
)

// Loopback is the address of the tests' servers.
var Loopback = netip.AddrFrom4([4]byte{127, 0, 0, 1})

// Eventually waits until something is true.
func Eventually(tb testing.TB, what string, true func() bool) {
	tb.Helper()
	nodetest.Eventually(tb, 0, func() error {
		if !true() {
			return errors.New(what)
		}
		return nil
	})
}

// Backend is a TCP server that does the same for each connection, and ends with the test.
func Backend(tb testing.TB, serve func(*net.TCPConn)) netip.AddrPort {
	tb.Helper()
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	var parts sync.WaitGroup
	parts.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			parts.Go(func() {
				defer conn.Close()
				serve(conn.(*net.TCPConn))
			})
		}
	})
	tb.Cleanup(func() { listener.Close(); parts.Wait() })
	return netip.MustParseAddrPort(listener.Addr().String())
}

// Greeter is a TCP server that says its name to each client.
func Greeter(tb testing.TB, name string) netip.AddrPort {
	return Backend(tb, func(c *net.TCPConn) { _, _ = io.WriteString(c, name); _, _ = io.Copy(io.Discard, c) })
}
