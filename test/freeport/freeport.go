// Package freeport finds ports of the loopback interface for tests that listen there later, or again.
package freeport

import (
	"fmt"
	"math/rand/v2"
	"net"
	"testing"
)

// The ports come from below the range out of which systems themselves give ports, to clients and to servers that ask
// for port 0. So no other program gets one between two times when a test listens there. The range begins at 32768 on
// Linux (net.ipv4.ip_local_port_range) and at 49152 on Windows.
const (
	first = 20000
	count = 10000
)

// Number is a TCP port of 127.0.0.1 at which nobody listens.
func Number(tb testing.TB) uint16 {
	tb.Helper()
	var err error
	for range 100 {
		port := first + rand.IntN(count)
		var listener net.Listener
		if listener, err = net.Listen("tcp4", fmt.Sprintf("127.0.0.1:%d", port)); err == nil {
			listener.Close()
			return uint16(port)
		}
	}
	tb.Fatalf("of a hundred ports from %d none is free: %v", first, err)
	return 0
}

// Address is 127.0.0.1 with such a port.
func Address(tb testing.TB) string {
	tb.Helper()
	return fmt.Sprintf("127.0.0.1:%d", Number(tb))
}
