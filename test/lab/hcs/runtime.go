package hcs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// Bundles is where containerd keeps what its runtime is told about containers, a folder each.
const Bundles = "/run/containerd/io.containerd.runtime.v2.task/k8s.io"

// Containers is told about pods' first containers, by HCN namespace.
type Containers interface {
	Start(ctx context.Context, id string) error
	Stop(ctx context.Context, id string) error
}

// BeforeRunc tells HNS what the runtime is about to do: start or delete the first container of a
// pod that has a network of its own. args are runc's, of which a container's ID is the last.
func BeforeRunc(ctx context.Context, hns Containers, bundles string, args []string) error {
	var tell func(context.Context, string) error
	switch {
	case slices.Contains(args, "start"):
		tell = hns.Start
	case slices.Contains(args, "delete"):
		tell = hns.Stop
	default:
		return nil
	}
	id := args[len(args)-1]
	config, err := os.ReadFile(filepath.Join(bundles, id, "config.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil // what is cleaned up may have lost its bundle
	}
	if err != nil {
		return err
	}
	sandbox, err := isNetworkedSandbox(config)
	if err != nil {
		return fmt.Errorf("configuration of container %s: %w", id, err)
	}
	if !sandbox {
		return nil
	}
	return tell(ctx, NamespaceID(id))
}

// isNetworkedSandbox reads an OCI runtime configuration as containerd writes it.
func isNetworkedSandbox(config []byte) (bool, error) {
	var spec struct {
		Annotations map[string]string
		Linux       struct {
			Namespaces []struct{ Type, Path string }
		}
	}
	if err := json.Unmarshal(config, &spec); err != nil {
		return false, err
	}
	if spec.Annotations["io.kubernetes.cri.container-type"] != "sandbox" {
		return false, nil
	}
	for _, n := range spec.Linux.Namespaces {
		if n.Type == "network" && n.Path != "" {
			return true, nil
		}
	}
	return false, nil
}
