package node

import (
	"encoding/json"
	"testing"

	"github.com/weftnet/weft/node/nodeconfig"
)

func TestRuntimeIsToldOfThePipe(t *testing.T) {
	text, err := conflist(nodeconfig.Default())
	if err != nil {
		t.Fatal(err)
	}
	var list struct {
		Plugins []struct {
			Socket       string
			Capabilities map[string]bool
		}
	}
	if err := json.Unmarshal(text, &list); err != nil {
		t.Fatal(err)
	}
	// hostPorts are no matter of HNS's
	if p := list.Plugins[0]; p.Socket != `\\.\pipe\weft-cni` || !p.Capabilities["dns"] || p.Capabilities["portMappings"] {
		t.Errorf("the container runtime is told of %+v", p)
	}
}
