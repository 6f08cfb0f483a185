package attach

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/containernetworking/cni/libcni"
	"github.com/containernetworking/cni/pkg/types/create"
	"github.com/containernetworking/cni/pkg/utils"

	"github.com/weftnet/weft/cni"
	"github.com/weftnet/weft/node/nodeconfig"
)

// resultAge is how old a result is that may be removed. A runtime writes its file after the plugin has answered, and
// the file is empty for a moment.
const resultAge = time.Minute

// loopback is the network by which containerd gives a sandbox lo. Its list has CNI 0.3.1, with which libcni reads no
// result at DEL. A list of the same name with 0.4.0 or later would fail like that of a plugin.
const loopback = "cni-loopback"

// results are what the container runtime keeps of its ADDs, a file for each attachment. Its library libcni writes them
// without fsync, so after a power failure a file may be empty or cut. libcni before 1.2, which containerd 1.6 and 1.7
// have, reads the result before it calls a plugin's DEL. If it cannot read the file, each DEL fails, and the pod stays
// Terminating (https://github.com/containerd/containerd/issues/8197). If there is no file, it calls the plugin.
type results struct {
	confDir string // where the runtime's networks are
	folder  string
}

func newResults(c nodeconfig.Config) results {
	return results{confDir: c.CNIConfDir, folder: filepath.Join(c.CNICacheDir, "results")}
}

// sweep removes the results that libcni cannot read: those of networks whose plugins include weft-cni, and of loopback.
func (r results) sweep(ctx context.Context) error {
	files, err := os.ReadDir(r.folder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // the runtime has not attached anything yet
	}
	if err != nil {
		return fmt.Errorf("read the folder of the container runtime's results: %w", err)
	}
	networks, err := r.networks()
	if err != nil {
		return err
	}
	var problems []error
	for _, file := range files {
		for _, network := range networks {
			if attachment, ours := resultOf(network, file.Name()); ours {
				problems = append(problems, r.removeUnreadable(ctx, file.Name(), attachment))
			}
		}
	}
	return errors.Join(problems...)
}

// networks are the names of the runtime's networks whose plugins include weft-cni, and loopback. The runtime itself
// complains of a configuration that cannot be read.
func (r results) networks() ([]string, error) {
	files, err := libcni.ConfFiles(r.confDir, []string{".conflist", ".conf", ".json"})
	if err != nil {
		return nil, fmt.Errorf("look for the container runtime's networks: %w", err)
	}
	names := []string{loopback}
	for _, file := range files {
		name, plugins, err := readNetwork(file)
		if err != nil || !slices.Contains(plugins, cni.PluginType) {
			continue
		}
		names = append(names, name)
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

// readNetwork returns a network's name and the types of its plugins. Only a .conflist has more than one.
func readNetwork(file string) (name string, plugins []string, err error) {
	if filepath.Ext(file) == ".conflist" {
		list, err := libcni.NetworkConfFromFile(file)
		if err != nil {
			return "", nil, err
		}
		for _, plugin := range list.Plugins {
			plugins = append(plugins, plugin.Network.Type)
		}
		return list.Name, plugins, nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return "", nil, err
	}
	plugin, err := libcni.NetworkPluginConfFromBytes(text)
	if err != nil {
		return "", nil, err
	}
	return plugin.Network.Name, []string{plugin.Network.Type}, nil
}

// resultOf reads a file's name, NETWORK-CONTAINER-INTERFACE. A container's ID has no hyphen. So the name of a network
// that begins with this one's, such as weft-storage, leaves a text that is too long for an interface.
func resultOf(network, file string) (attachment cni.Attachment, ours bool) {
	rest, ours := strings.CutPrefix(file, network+"-")
	if !ours {
		return cni.Attachment{}, false
	}
	container, device, _ := strings.Cut(rest, "-")
	return cni.Attachment{ContainerID: container, IfName: device},
		utils.ValidateContainerID(container) == nil && utils.ValidateInterfaceName(device) == nil
}

// removeUnreadable looks at the file's age after it has read it: an ADD that writes it meanwhile makes it young.
func (r results) removeUnreadable(ctx context.Context, name string, attachment cni.Attachment) error {
	path := filepath.Join(r.folder, name)
	text, err := os.ReadFile(path)
	if err != nil {
		return nil // libcni calls the plugin all the same
	}
	_, unreadable := create.DecodeVersion(text) // the first step of libcni's reading, whatever the result's version
	if unreadable == nil {
		return nil
	}
	info, err := os.Stat(path)
	if err == nil && time.Since(info.ModTime()) < resultAge {
		return nil
	}
	if err == nil {
		err = os.Remove(path)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil // a DEL was faster
	}
	if err != nil {
		return fmt.Errorf("remove a result that the container runtime cannot read; its pod cannot be deleted: %w", err)
	}
	slog.InfoContext(ctx, "removed a result that the container runtime cannot read", "container", attachment.ContainerID,
		"file", path, "reason", unreadable)
	return nil
}
