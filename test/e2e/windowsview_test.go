//go:build cluster

package e2e

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gopacket/gopacket/pcapgo"
)

// TestUsersSeeWindowsNodes: what a pod of a Windows node says is among the connections and in a capture, as on a Linux
// node, and the node has nothing of a capture when it has ended.
func TestUsersSeeWindowsNodes(t *testing.T) {
	t.Parallel()
	server := podAddresses(t, web("l1"))[0]
	talk := func() error {
		_, err := get(web("w1"), server, 8080, "hostname")
		return err
	}
	eventually(t, time.Minute, "the connection of the Windows pod is told, and all nodes answer", func() error {
		if err := talk(); err != nil {
			return err
		}
		out, err := cluster.Try("weft", "--", "flows", "-A") // an error if a node has not answered
		if want := "default/" + web("w1") + ":"; err == nil && !strings.Contains(out, want) {
			err = fmt.Errorf("%s is not in %s", want, out)
		}
		return err
	})
	for what, words := range map[string][]string{
		"the pod":     {"default/" + web("w1"), "--filter", "tcp port 8080 and host " + server.String()},
		"the tunnels": {"node/w1", "--filter", "tcp port 8080"},
	} {
		if packets := captureWhile(t, words, talk); packets < 6 { // of one short connection
			t.Errorf("%d packets are captured of %s", packets, what)
		}
	}
	if said := pktmon(t, "w1", "status"); !strings.Contains(said, "not running") {
		t.Errorf("a session is left: %s", said)
	}
	if said := pktmon(t, "w1", "filter", "list"); !strings.Contains(said, "None") {
		t.Errorf("filters are left: %s", said)
	}
}

// captureWhile says how many packets there are while something is done again and again.
func captureWhile(t *testing.T, words []string, do func() error) (packets int) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "packets.pcapng")
	ended := make(chan error, 1)
	go func() {
		_, err := cluster.Try(append([]string{"weft", "--", "capture", "--duration", "10s", "-w", file}, words...)...)
		ended <- err
	}()
	for {
		select {
		case err := <-ended:
			if err != nil {
				t.Fatal(err)
			}
			return packetsIn(t, file)
		default:
			if err := do(); err != nil {
				t.Errorf("while packets are captured: %v", err)
			}
		}
	}
}

func packetsIn(t *testing.T, file string) (packets int) {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r, err := pcapgo.NewNgReader(f, pcapgo.DefaultNgReaderOptions)
	for ; err == nil; packets++ {
		_, _, err = r.ReadPacketData()
	}
	if !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	return packets - 1
}

// pktmon is what Packet Monitor of a Windows node answers its administrator.
func pktmon(t *testing.T, node string, words ...string) string {
	t.Helper()
	return cluster.On(t, node, append([]string{"/usr/lib/wine/wine64", `C:\windows\system32\pktmon.exe`}, words...)...)
}
