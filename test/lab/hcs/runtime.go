package hcs

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// bundles is where containerd keeps what its runtime is told about containers.
const bundles = "/run/containerd/io.containerd.runtime.v2.task/k8s.io"

// StartedSandbox is the pod sandbox with a network of its own that a call of runc starts, "" if it
// does something else.
func StartedSandbox(runcArgs []string) (string, error) {
	if len(runcArgs) < 2 || !slices.Contains(runcArgs, "start") {
		return "", nil
	}
	id := runcArgs[len(runcArgs)-1]
	config, err := os.ReadFile(filepath.Join(bundles, id, "config.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	sandbox, err := isNetworkedSandbox(config)
	if err != nil {
		return "", fmt.Errorf("configuration of container %s: %w", id, err)
	}
	if !sandbox {
		return "", nil
	}
	return id, nil
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
