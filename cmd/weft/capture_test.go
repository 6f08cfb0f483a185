package main

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"

	api "github.com/weftnet/weft/models/api/observe/v1alpha1"
	"github.com/weftnet/weft/node/nodetest"
)

// packetsOf is a file of so many packets, of which more were dropped.
func packetsOf(t testing.TB, packets int, dropped uint64) []byte {
	t.Helper()
	var file bytes.Buffer
	w, err := pcapgo.NewNgWriter(&file, layers.LinkTypeEthernet)
	for i := range packets {
		data := make([]byte, 61+i)
		err = errors.Join(err, w.WritePacket(gopacket.CaptureInfo{CaptureLength: len(data), Length: 1500}, data))
	}
	if err = errors.Join(err, w.WriteInterfaceStats(0, pcapgo.NgInterfaceStatistics{PacketsReceived: 9,
		PacketsDropped: dropped}), w.Flush()); err != nil {
		t.Fatal(err)
	}
	return file.Bytes()
}

// readable says how many packets a program that knows pcapng finds in a file.
func readable(t testing.TB, file []byte) (packets int) {
	t.Helper()
	reader, err := pcapgo.NewNgReader(bytes.NewReader(file), pcapgo.DefaultNgReaderOptions)
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, _, err := reader.ReadPacketData(); err != nil {
			return packets
		}
		packets++
	}
}

// capturing is an API server that answers with packets, all or a part of them.
func capturing(file []byte, breaks bool, asked *api.Capture, path *string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		*path = r.Method + " " + strings.TrimPrefix(r.URL.Path, "/apis/observe.weft.net/v1alpha1/")
		_ = json.NewDecoder(r.Body).Decode(asked)
		_, _ = w.Write(file)
		_ = http.NewResponseController(w).Flush()
		if breaks {
			panic(http.ErrAbortHandler)
		}
	}
}

// TestCapturesAreFiles: what was asked for, what is in the file, and what the exit code says.
func TestCapturesAreFiles(t *testing.T) {
	whole := packetsOf(t, 3, 0)
	for name, c := range map[string]struct {
		answer  []byte
		breaks  bool
		packets int
		code    int
		says    string
	}{
		"whole":                {whole, false, 3, 0, "Packets: 3, and 0 more were dropped.\nThe file is "},
		"packets were dropped": {packetsOf(t, 2, 7), false, 2, 1, "Packets: 2, and 7 more were dropped."},
		"the connection breaks": {whole[:len(whole)-90], true, 2, 1,
			"Packets: 2. They are those that came until the error.\nThe file is "},
		"the API server breaks off": {whole[:len(whole)-90], true, 2, 1,
			"\nthe capture broke off before its end: the connection to weft observe was lost"},
		"the agent ends in a packet": {whole[:len(whole)-90], false, 2, 1, "broke off"},
		"the agent ends early":       {packetsOf(t, 0, 0)[:len(packetsOf(t, 0, 0))-52], false, 0, 1, "broke off"},
		"nothing":                    {nil, false, -1, 3, "broke off"},
		"something else":             {[]byte(`{"kind": "Status", "apiVersion": "v1"}..`), false, -1, 3, "which none has"},
		"another block":              {whole[len(whole)-52:], false, -1, 3, "no pcapng"},
	} {
		t.Run(name, func(t *testing.T) {
			var asked api.Capture
			var path string
			kubeconfig := serving(t, capturing(c.answer, c.breaks, &asked, &path))
			file := filepath.Join(nodetest.Folder(t), "web.pcapng")
			code, out, errs := runCommand(t, "capture", "--kubeconfig", kubeconfig, "--context", "night", "-n", "shop", "web",
				"--filter", "tcp port 443", "--snaplen", "96", "--packets", "5", "--duration", "2m", "-w", file)
			if code != c.code || out != "" || !strings.Contains(errs, c.says) {
				t.Errorf("exit code %d, %q, %q; want %d and %q", code, out, errs, c.code, c.says)
			}
			if want := (api.CaptureFilter{Protocol: "tcp", Port: 443}); path != "POST namespaces/shop/captures/web/attach" ||
				asked.Spec.Filter != want || asked.Spec.SnapLength != 96 || asked.Spec.Packets != 5 ||
				asked.Spec.Duration.Minutes() != 2 {
				t.Errorf("asked %s for %+v", path, asked.Spec)
			}
			text, err := os.ReadFile(file)
			if c.packets < 0 {
				if !os.IsNotExist(err) {
					t.Errorf("a file without packets is left: %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := readable(t, text); got != c.packets {
				t.Errorf("%d packets can be read, want %d", got, c.packets)
			}
			if code, _, errs := runCommand(t, "capture", "--kubeconfig", kubeconfig, "--context", "night", "web", "-w",
				file); code != 3 || !strings.Contains(errs, "name a file that is not there yet") {
				t.Errorf("exit code %d, %q: a file is overwritten", code, errs)
			}
		})
	}
}

// TestCapturesForWireshark: standard output has packets alone, and nodes are of no namespace.
func TestCapturesForWireshark(t *testing.T) {
	var asked api.Capture
	var path string
	whole := packetsOf(t, 3, 0)
	kubeconfig := serving(t, capturing(whole, false, &asked, &path))
	code, out, errs := runCommand(t, "capture", "--kubeconfig", kubeconfig, "--context", "night", "node/l1", "-w", "-")
	if code != 0 || out != string(whole) || path != "POST nodecaptures/l1/attach" ||
		!strings.Contains(errs, "Capturing l1.") {
		t.Errorf("exit code %d, %s, %q: %d bytes, want %d", code, path, errs, len(out), len(whole))
	}
}

// TestWarningsOfCaptures are told before the packets come, which may be minutes.
func TestWarningsOfCaptures(t *testing.T) {
	whole := packetsOf(t, 3, 0)
	kubeconfig := serving(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Warning", `299 - "the packets come when it has ended"`)
		_, _ = w.Write(whole)
	})
	code, _, errs := runCommand(t, "capture", "--kubeconfig", kubeconfig, "--context", "night", "node/w1", "-w", "-")
	if code != 0 || !strings.HasPrefix(errs, "Warning: the packets come when it has ended\nCapturing w1.") {
		t.Errorf("exit code %d, %q", code, errs)
	}
}

// TestRefusedCaptureIsTold, and no file is left.
func TestRefusedCaptureIsTold(t *testing.T) {
	file := filepath.Join(nodetest.Folder(t), "none.pcapng")
	for _, c := range []struct {
		answer http.HandlerFunc
		args   []string
		want   string
	}{
		{refuse(http.StatusForbidden, "Forbidden", "no right"), []string{"shop/web"},
			"kubectl create rolebinding NAME --namespace=shop --clusterrole=weft-observe-capture"},
		{refuse(http.StatusForbidden, "Forbidden", "no right"), []string{"node/l1"},
			"kubectl create clusterrolebinding NAME --clusterrole=weft-observe-node-capture"},
		{refuse(http.StatusConflict, "Conflict", "captures are off on node l1"), []string{"web"},
			"captures are off on node l1"},
		{refuse(http.StatusTooManyRequests, "TooManyRequests", "end one of them"), []string{"web"}, "end one of them"},
		{http.NotFound, []string{"svc/web"}, "is neither a pod"},
		{http.NotFound, []string{"web", "--filter", "tcp or udp"}, "filter: "},
	} {
		code, _, errs := runCommand(t, append([]string{"capture", "--kubeconfig", serving(t, c.answer), "--context", "night",
			"-w", file}, c.args...)...)
		if _, err := os.Stat(file); code != 3 || !strings.Contains(errs, c.want) || !os.IsNotExist(err) {
			t.Errorf("%q: exit code %d, %q, %v; want %q", c.args, code, errs, err, c.want)
		}
	}
}

// FuzzCopyPackets: whatever a door answers, what is written can be read, block by block.
func FuzzCopyPackets(f *testing.F) {
	f.Add(packetsOf(f, 2, 7))
	f.Add(append(packetsOf(f, 1, 0), 5, 0, 0, 0, 12, 0, 0, 0, 12, 0, 0, 0))
	const smallest = 12 // bytes of a block
	f.Fuzz(func(t *testing.T, said []byte) {
		var written bytes.Buffer
		file, err := copyPackets(&written, bytes.NewReader(said))
		if int64(written.Len()) != file.bytes || !bytes.HasPrefix(said, written.Bytes()) {
			t.Fatal(fmt.Errorf("%d bytes are written, and %d counted: %w", written.Len(), file.bytes, err))
		}
		for rest := written.Bytes(); len(rest) > 0; rest = rest[binary.LittleEndian.Uint32(rest[4:]):] {
			if len(rest) < smallest || int(binary.LittleEndian.Uint32(rest[4:])) > len(rest) {
				t.Fatalf("a part of a block is written: %x", rest)
			}
		}
	})
}
