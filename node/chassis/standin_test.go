//go:build linux

package chassis

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weftnet/weft/models/signal"
	"github.com/weftnet/weft/node/nodetest"
)

// standInMark in the environment turns this program into a stand-in for ovn-controller; its value is
// a folder that the stand-ins of all hosts share.
const standInMark = "WEFT_TEST_STAND_IN"

func TestMain(m *testing.M) {
	agentEnd = func(said string, _ []string, _ []netip.Addr) (netip.AddrPort, error) {
		return netip.ParseAddrPort(said)
	} // on loopback
	if shared := os.Getenv(standInMark); shared != "" {
		standIn(shared)
		return
	}
	if os.Getenv(hostMark) != "" {
		hostProcess()
		return
	}
	nodetest.MainInParts(m, 3)
}

// standIn holds the node's lock in the shared folder as long as it lives: where another one holds it
// the node has two ovn-controllers, and the file violations says so. It ends by exit --restart.
func standIn(shared string) {
	folder := strings.TrimPrefix(filepath.Dir(os.Args[1]), "unix:")
	name, err := os.ReadFile(ownerFile.In(folder))
	if err != nil {
		panic(err)
	}
	node := strings.TrimSpace(string(name))
	lock, err := os.OpenFile(filepath.Join(shared, node+".lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		panic(err)
	}
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		other, _ := os.ReadFile(lock.Name())
		file, err := os.OpenFile(filepath.Join(shared, "violations"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			panic(err)
		}
		fmt.Fprintf(file, "%s: %s while %s\n", node, folder, other)
		os.Exit(3)
	}
	if err := os.WriteFile(lock.Name(), []byte(folder), 0o600); err != nil {
		panic(err)
	}
	listener, err := net.Listen("unix", filepath.Join(folder, fmt.Sprintf(ownSocket, os.Getpid())))
	if err != nil {
		panic(err)
	}
	go hold(filepath.Join(folder, databaseSocket))
	go hold(filepath.Join(folder, bridgeSocket))
	for {
		conn, err := listener.Accept()
		if err != nil {
			panic(err)
		}
		var request struct {
			Method string   `json:"method"`
			Params []string `json:"params"`
		}
		if err := json.NewDecoder(conn).Decode(&request); err != nil {
			continue
		}
		fmt.Fprint(conn, `{"id":0,"error":null,"result":"connected"}`)
		conn.Close()
		if request.Method == "exit" {
			if len(request.Params) != 1 || request.Params[0] != "--restart" {
				panic("exit without --restart removes the chassis")
			}
			os.Exit(0)
		}
	}
}

// hold keeps a connection, as ovn-controller does.
func hold(socket string) {
	for {
		if conn, err := net.Dial("unix", socket); err == nil {
			_, _ = bufio.NewReader(conn).ReadByte()
			conn.Close()
		}
		signal.Sleep(context.Background(), 100*time.Millisecond)
	}
}
