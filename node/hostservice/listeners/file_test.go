package listeners

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weftnet/weft/node/nodetest"
)

// What nobody can read is made anew.
func TestBadFileOfDaemons(t *testing.T) {
	for name, content := range map[string]string{
		"cut off": `{"listeners": ["tcp 0.0.0.0:80"`, "empty": "", "another kind": `[1]`,
		"protocol": `{"listeners": ["sctp 0.0.0.0:80"]}`,
		"address":  `{"listeners": ["tcp web:80"]}`, "port": `{"listeners": ["tcp 0.0.0.0:0"]}`,
		"zone":   `{"listeners": ["tcp [fe80::1%eth0]:80"]}`,
		"mapped": `{"listeners": ["tcp [::ffff:192.0.2.1]:80"]}`,
		"too many": fmt.Sprintf(`{"listeners": [%s]}`,
			strings.TrimSuffix(strings.Repeat(`"tcp 0.0.0.0:80",`, mostRemembered+1), ",")),
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(nodetest.Folder(t), "daemons.json")
			if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
			h := &fakeHost{now: listenersOf("tcp 0.0.0.0:8080")}
			d := h.daemons(file)
			if len(d.InTheWay()) > 0 {
				t.Errorf("%v came of it", d.InTheWay())
			}
			d.Scan(nobody)
			d.Scan(nobody)
			if got := h.daemons(file).InTheWay(); !maps.Equal(got, h.now) {
				t.Errorf("the file has %v", got)
			}
		})
	}
}

// A file that cannot be written is tried again.
func TestFileOfDaemonsThatCannotBeWritten(t *testing.T) {
	data := filepath.Join(nodetest.Folder(t), "data")
	if err := os.WriteFile(data, nil, 0o600); err != nil { // a file in the folder's place
		t.Fatal(err)
	}
	h := &fakeHost{now: listenersOf("tcp 0.0.0.0:8080")}
	d := h.daemons(filepath.Join(data, "daemons.json"))
	d.Scan(nobody)
	d.Scan(nobody)
	if d.problems["save"] == "" {
		t.Error("nothing is told")
	}
	if err := os.Remove(data); err != nil {
		t.Fatal(err)
	}
	d.Scan(nobody)
	if got := h.daemons(d.file).InTheWay(); !maps.Equal(got, h.now) || d.problems["save"] != "" {
		t.Errorf("the file has %v, problem %q", got, d.problems["save"])
	}
}

func FuzzFileOfDaemons(f *testing.F) {
	f.Add([]byte(`{"listeners": ["tcp 0.0.0.0:80", "udp [::]:53"]}`))
	f.Fuzz(func(t *testing.T, content []byte) {
		list, err := parseRemembered(content)
		if err != nil {
			return
		}
		for _, at := range list {
			if again, err := parseRemembered([]byte(fmt.Sprintf(`{"listeners": [%q]}`, at))); err != nil ||
				!slices.Equal(again, []Socket{at}) {
				t.Errorf("%v is %v, %v", at, again, err)
			}
		}
	})
}
