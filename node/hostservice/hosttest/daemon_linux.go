package hosttest

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

// Main runs a package's tests on a host of their own, which has the addresses that they give it: call it from TestMain.
func Main(m *testing.M) {
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
	if strings.HasPrefix(network, "udp") {
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

// StartDaemon has another process listen until the test ends, or stop is called. at is a network of package net and an
// address, as in "tcp4 0.0.0.0:22". The error says why the process does not listen. It works in tests that [Main] runs.
func StartDaemon(tb testing.TB, at string) (stop func(), err error) {
	tb.Helper()
	command := exec.Command("/proc/self/exe")
	command.Env = append(os.Environ(), daemonMark+"="+at)
	input, err := command.StdinPipe()
	if err != nil {
		tb.Fatal(err)
	}
	output, err := command.StdoutPipe()
	if err != nil {
		tb.Fatal(err)
	}
	if err := command.Start(); err != nil {
		tb.Fatal(err)
	}
	ended := false
	stop = func() {
		if !ended {
			ended = true
			input.Close()
			_ = command.Wait() // its end is all that is wanted
		}
	}
	tb.Cleanup(stop)
	said, _ := bufio.NewReader(output).ReadString('\n')
	if said != "listens\n" {
		stop()
		return stop, fmt.Errorf("the daemon at %s: %s", at, said)
	}
	return stop, nil
}
