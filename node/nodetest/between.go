//go:build linux

package nodetest

import (
	"io"
	"net"
	"testing"
)

// Between takes connections at a socket in a bridge's stead, as the agent does of a hosted ovn-controller's: over has
// the bridge's end of each.
func Between(tb testing.TB, socket, bridge string, over func(net.Conn) net.Conn) {
	tb.Helper()
	listener, err := net.Listen("unix", socket)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { listener.Close() })
	carry := func(from, to net.Conn) { // both end with either
		defer from.Close()
		defer to.Close()
		_, _ = io.Copy(to, from)
	}
	go func() {
		for {
			from, err := listener.Accept()
			if err != nil {
				return
			}
			to, err := net.Dial("unix", bridge)
			if err != nil { // it comes again
				from.Close()
				continue
			}
			to = over(to)
			go carry(from, to)
			go carry(to, from)
		}
	}()
}
