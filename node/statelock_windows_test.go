package node

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weftnet/weft/node/nodeconfig"
	"github.com/weftnet/weft/node/nodetest"
)

// An agent that ends its work has closed the plugin's pipe, and its folder is locked still: nobody else works on the
// adapter until its process has ended.
func TestReleaseWaitsForAnAgentThatEnds(t *testing.T) {
	config := nodeconfig.Default()
	config.StateDir = filepath.Join(nodetest.Folder(t), "weft")
	config.CNISocket = fmt.Sprintf(`\\.\pipe\weft-lock-test-%d`, os.Getpid())
	if err := SecureFolder(config.StateDir); err != nil {
		t.Fatal(err)
	}
	agent, err := lockState(config.StateDir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Release(t.Context(), config); !errors.Is(err, errLocked) ||
		!strings.Contains(err.Error(), "weft-node.lock") {
		t.Errorf("released beside the agent: %v", err)
	}
	if _, err := os.ReadFile(lockHostFile.In(config.StateDir)); err != nil {
		t.Errorf("the lock keeps readers from the file: %v", err)
	}
	if err := SecureFolder(config.StateDir); err != nil {
		t.Errorf("the lock keeps the folder from being closed: %v", err)
	}
	if err := agent.Close(); err != nil {
		t.Fatal(err)
	}
	next, err := lockState(config.StateDir)
	if err != nil {
		t.Fatal(err)
	}
	next.Close()
}
