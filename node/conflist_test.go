package node

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/containernetworking/cni/libcni"
	"github.com/google/go-cmp/cmp"

	"github.com/weftnet/weft/node/nodetest"
)

func TestConflistReplacesOwnStaleOnesOnly(t *testing.T) {
	c := validConfig()
	c.CNIConfDir, c.CNISocket = filepath.Join(nodetest.Folder(t), "net.d"), "/run/weft/cni.sock"
	write := func(name, text string) {
		t.Helper()
		if err := os.MkdirAll(c.CNIConfDir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(c.CNIConfDir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("05-weft.conflist", `{"name":"weft","plugins":[{"type":"weft-cni"}]}`)
	write("20-other.conflist", `{"name":"other","plugins":[{"type":"bridge"}]}`)
	write("30-chain.conflist", `{"name":"chain","plugins":[{"type":"weft-cni"},{"type":"portmap"}]}`)
	for range 2 {
		if err := writeConflist(c); err != nil {
			t.Fatal(err)
		}
	}
	entries, err := os.ReadDir(c.CNIConfDir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	if diff := cmp.Diff([]string{"10-weft.conflist", "20-other.conflist", "30-chain.conflist"}, names); diff != "" {
		t.Error(diff)
	}
	text, err := os.ReadFile(filepath.Join(c.CNIConfDir, c.CNIConfName))
	if err != nil {
		t.Fatal(err)
	}
	want := `{
  "cniVersion": "1.0.0",
  "cniVersions": [
    "1.0.0",
    "1.1.0"
  ],
  "name": "weft",
  "plugins": [
    {
      "socket": "/run/weft/cni.sock",
      "type": "weft-cni"
    }
  ]
}
`
	if diff := cmp.Diff(want, string(text)); diff != "" {
		t.Error(diff)
	}
}

// A runtime of today may call STATUS and GC, which are there from 1.1.0 on.
func TestRuntimesChooseTheLatestVersionOfTheConflist(t *testing.T) {
	text, err := conflist(validConfig())
	if err != nil {
		t.Fatal(err)
	}
	list, err := libcni.NetworkConfFromBytes(text)
	if err != nil {
		t.Fatal(err)
	}
	if list.CNIVersion != "1.1.0" || list.Name != "weft" || len(list.Plugins) != 1 {
		t.Errorf("libcni reads %+v", list)
	}
	var old struct{ CNIVersion string } // as libcni 1.1 reads it
	if err := json.Unmarshal(text, &old); err != nil || old.CNIVersion != "1.0.0" {
		t.Errorf("libcni 1.1 reads %+v, %v", old, err)
	}
}
