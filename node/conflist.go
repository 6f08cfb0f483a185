package node

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/weftnet/weft/cni"
	"github.com/weftnet/weft/node/nodeconfig"
)

// conflist is the network configuration list for the container runtime. It has two versions:
// libcni before 1.2 (containerd 1.6 and 1.7) reads cniVersion only, and fails each ADD of 1.1.0 with
// "unsupported CNI result version"; later ones (containerd 2) choose the highest of cniVersions,
// and with 1.1.0 may call STATUS and GC. containerd calls STATUS since 2.0.1, and GC not up to 2.3.
func conflist(c nodeconfig.Config) ([]byte, error) {
	plugin := map[string]any{"type": cni.PluginType, "socket": c.CNISocket}
	if c.SharesAdapter() { // HNS gives a sandbox its resolver, kubelet does not
		plugin["capabilities"] = map[string]bool{"dns": true}
	}
	list, err := json.MarshalIndent(map[string]any{
		"cniVersion":  "1.0.0",
		"cniVersions": []string{"1.0.0", "1.1.0"},
		"name":        "weft",
		"plugins":     []map[string]any{plugin},
	}, "", "  ")
	return append(list, '\n'), err
}

// writeConflist tells the container runtime that this node's network is weft's. The file appears
// complete or not at all. A list of weft's under another name, from an earlier configuration,
// would be a second network for the runtime to choose, so it goes.
func writeConflist(c nodeconfig.Config) error {
	content, err := conflist(c)
	if err != nil {
		return err
	}
	path := filepath.Join(c.CNIConfDir, c.CNIConfName)
	if present, err := os.ReadFile(path); err != nil || !bytes.Equal(present, content) {
		if err := replaceFile(path, content); err != nil {
			return fmt.Errorf("write the CNI configuration: %w", err)
		}
	}
	others, err := filepath.Glob(filepath.Join(c.CNIConfDir, "*.conflist"))
	if err != nil {
		return fmt.Errorf("look for stale CNI configurations: %w", err)
	}
	for _, other := range others {
		if other == path || !isWeftList(other) {
			continue
		}
		if err := os.Remove(other); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove a stale CNI configuration: %w", err)
		}
	}
	return nil
}

func isWeftList(path string) bool {
	var list struct {
		Plugins []struct {
			Type string `json:"type"`
		} `json:"plugins"`
	}
	content, err := os.ReadFile(path)
	return err == nil && json.Unmarshal(content, &list) == nil && len(list.Plugins) == 1 &&
		list.Plugins[0].Type == cni.PluginType
}

// replaceFile writes beside the target and renames. The runtime reads *.conf, *.conflist and
// *.json only, so it never sees the temporary file.
func replaceFile(path string, content []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	temporary, err := os.CreateTemp(filepath.Dir(path), ".weft-*")
	if err != nil {
		return err
	}
	defer os.Remove(temporary.Name())
	_, err = temporary.Write(content)
	if err = errors.Join(err, temporary.Chmod(conflistFile.Mode), temporary.Sync(), temporary.Close()); err != nil {
		return err
	}
	return os.Rename(temporary.Name(), path)
}
