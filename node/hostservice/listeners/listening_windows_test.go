package listeners

import (
	"net"
	"os"
	"testing"
)

// The test's own listeners are in Windows' tables, and those of the process are left out.
func TestWhoListensOnWindows(t *testing.T) {
	stream, err := net.Listen("tcp4", "127.0.0.1:21001")
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	packets, err := net.ListenPacket("udp4", "127.0.0.1:21002")
	if err != nil {
		t.Fatal(err)
	}
	defer packets.Close()
	six, err := net.Listen("tcp6", "[::1]:21003")
	if err != nil {
		t.Fatal(err)
	}
	defer six.Close()
	want := listenersOf("tcp 127.0.0.1:21001", "udp 127.0.0.1:21002", "tcp [::1]:21003")
	others, err := listening()
	if err != nil {
		t.Fatal(err)
	}
	all, err := listeningBut(uint32(os.Getpid()) + 1)
	if err != nil {
		t.Fatal(err)
	}
	for at := range want {
		if !all.Has(at) {
			t.Errorf("%v does not listen; %v do", at, all)
		}
		if at.Protocol == UDP && others.Has(at) { // of TCP Wine 8 says another process
			t.Errorf("%v is this process's own", at)
		}
	}
}
