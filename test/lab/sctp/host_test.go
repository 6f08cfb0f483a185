package sctp

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"testing"
)

const inNamespace = "SCTP_TEST_IN_NAMESPACE"

// TestOnAHost asks over raw sockets, at loopback addresses of a network namespace.
func TestOnAHost(t *testing.T) {
	if os.Getenv(inNamespace) == "" {
		command := exec.Command("sh", "-c", `ip link set lo up && exec "$0" -test.run '^TestOnAHost$' -test.v`, os.Args[0])
		command.Env = append(os.Environ(), inNamespace+"=yes")
		command.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
		out, err := command.CombinedOutput()
		if errors.Is(err, os.ErrPermission) {
			t.Fatal("this test makes a network namespace and raw sockets: run it as root")
		}
		if err != nil || !bytes.Contains(out, []byte("--- PASS: TestOnAHost")) {
			t.Fatalf("%v: %s", err, out)
		}
		return
	}
	everywhere, err := ResolveSCTPAddr("sctp", "0.0.0.0:9003")
	if err != nil {
		t.Fatal(err)
	}
	l, err := ListenSCTP("sctp", everywhere)
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	serving.Go(func() { answer(l) })
	labels := watchFlowLabels(t)
	var clients sync.WaitGroup
	for _, address := range []string{"127.0.0.1:9003", "127.0.0.7:9003", "[::1]:9003"} {
		for i := range 10 {
			clients.Go(func() {
				to, err := ResolveSCTPAddr("sctp", address)
				if err != nil {
					t.Error(err)
					return
				}
				c, err := DialSCTP("sctp", nil, to)
				if err != nil {
					t.Errorf("%s: %v", address, err)
					return
				}
				defer c.Close()
				b := make([]byte, 100)
				question := fmt.Sprintf("client %d", i)
				if _, err := c.Write([]byte(question)); err != nil {
					t.Errorf("%s: %v", address, err)
				}
				if n, err := c.Read(b); err != nil || string(b[:n]) != fmt.Sprintf("CLIENT %d", i) {
					t.Errorf("%s: %q (%v)", address, b[:n], err)
				}
			})
		}
	}
	clients.Wait()
	if labels() == 0 {
		t.Error("no packet has come over IPv6")
	}
	l.Close()
	serving.Wait()
}

// watchFlowLabels fails the test for each IPv6 packet that has a label. The function that it returns ends this, and
// tells how many packets have come.
func watchFlowLabels(t *testing.T) func() int {
	t.Helper()
	conn, err := net.ListenIP("ip6:"+protocol, &net.IPAddr{IP: net.IPv6loopback})
	if err != nil {
		t.Fatal(err)
	}
	raw, err := conn.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	const flowInfo = 11 // IPV6_FLOWINFO
	if failed := raw.Control(func(fd uintptr) {
		err = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_IPV6, flowInfo, 1)
	}); failed != nil || err != nil {
		t.Fatal(failed, err)
	}
	packets := make(chan int)
	go func() {
		count, b, control := 0, make([]byte, 2000), make([]byte, 100)
		for {
			_, n, _, _, err := conn.ReadMsgIP(b, control)
			if err != nil {
				packets <- count
				return
			}
			count++
			messages, err := syscall.ParseSocketControlMessage(control[:n])
			for _, m := range messages {
				if info := binary.BigEndian.Uint32(m.Data); m.Header.Type == flowInfo && info&0xfffff != 0 {
					t.Errorf("a packet has the flow label %#x", info&0xfffff)
				}
			}
			if err != nil {
				t.Error(err)
			}
		}
	}()
	return func() int {
		conn.Close()
		return <-packets
	}
}
