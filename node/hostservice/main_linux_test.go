package hostservice

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/weftnet/weft/node/nodetest"
)

// daemonMark has this program be a daemon of the host: what it says is "PROTOCOL NETWORK ADDRESS", as "tcp tcp4
// 0.0.0.0:22".
const daemonMark = "WEFT_TEST_DAEMON"

// The tests have a host to themselves, with whatever addresses they want.
func TestMain(m *testing.M) {
	if at := os.Getenv(daemonMark); at != "" {
		beDaemon(at)
		return
	}
	nodetest.Main(m)
}

// beDaemon listens until its input ends, and says so.
func beDaemon(at string) {
	network, address, _ := strings.Cut(at, " ")
	var socket io.Closer
	var err error
	if strings.HasPrefix(network, udp) {
		socket, err = net.ListenPacket(network, address)
	} else {
		socket, err = net.Listen(network, address)
	}
	if err != nil {
		fmt.Println(err)
		return
	}
	defer socket.Close()
	fmt.Println("listens")
	_, _ = io.Copy(io.Discard, os.Stdin)
}

// startDaemon has another process listen; at is a network of package net and an address. It says why it does not.
func startDaemon(t *testing.T, at string) (stop func(), err error) {
	t.Helper()
	command := exec.Command("/proc/self/exe")
	command.Env = append(os.Environ(), daemonMark+"="+at)
	input, err := command.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	output, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	ended := false
	stop = func() {
		if !ended {
			ended = true
			input.Close()
			_ = command.Wait() // its end is all that is wanted
		}
	}
	t.Cleanup(stop)
	said, _ := bufio.NewReader(output).ReadString('\n')
	if said != "listens\n" {
		stop()
		return stop, fmt.Errorf("the daemon at %s: %s", at, said)
	}
	return stop, nil
}
