package freeport

import (
	"fmt"
	"net"
	"os"
	"testing"
)

func TestTheSystemGivesNoSuchPort(t *testing.T) {
	const file = "/proc/sys/net/ipv4/ip_local_port_range"
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var low, high int
	if _, err := fmt.Sscan(string(text), &low, &high); err != nil {
		t.Fatal(err)
	}
	for port := first; port < first+count; port++ {
		if port >= low && port <= high {
			t.Fatalf("%s is %d to %d: the system may give port %d to others", file, low, high, port)
		}
	}
	for range 100 {
		listener, err := net.Listen("tcp", Address(t))
		if err != nil {
			t.Fatal(err)
		}
		defer listener.Close()
	}
}
