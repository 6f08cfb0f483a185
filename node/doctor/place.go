package doctor

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"net/netip"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// checkConflist: a container runtime takes the first file of its folder, so an older one of another
// network wins over weft's without a word.
func checkConflist(folder fs.FS, config Config, running bool) []Finding {
	const s = subject("cni-configuration")
	entries, err := fs.ReadDir(folder, ".")
	if errors.Is(err, fs.ErrNotExist) {
		return s.warning("see that cni-conf-dir is the folder that containerd's configuration names; the agent makes it",
			"%s does not exist", config.CNIConfDir)
	}
	if err != nil {
		return s.unknown("", "%s: %v", config.CNIConfDir, err)
	}
	var files []string
	for _, entry := range entries {
		if slices.Contains([]string{".conf", ".conflist", ".json"}, path.Ext(entry.Name())) {
			files = append(files, entry.Name())
		}
	}
	slices.Sort(files)
	ours := slices.Index(files, config.CNIConfName)
	switch {
	case ours == 0:
		return s.ok("%s is the first in %s", config.CNIConfName, config.CNIConfDir)
	case ours > 0:
		return s.failed("take the other files out of "+config.CNIConfDir,
			"the container runtime takes %s (%s) in place of %s", files[0], networkType(folder, files[0]), config.CNIConfName)
	case running:
		return s.failed("see the agent's log, and whether cni-conf-dir is right; it writes the file once the node is ready",
			"the agent runs, but %s has no %s", config.CNIConfDir, config.CNIConfName)
	case len(files) > 0 && files[0] < config.CNIConfName:
		return s.warning("take the files of the former network out of "+config.CNIConfDir,
			"the container runtime will take %s (%s) in place of %s", files[0], networkType(folder, files[0]),
			config.CNIConfName)
	}
	return s.ok("the agent will write %s, and nothing in %s comes before it", config.CNIConfName, config.CNIConfDir)
}

// networkType says of which plugin a configuration is.
func networkType(folder fs.FS, name string) string {
	var list struct {
		Type    string `json:"type"`
		Plugins []struct {
			Type string `json:"type"`
		} `json:"plugins"`
	}
	text, err := fs.ReadFile(folder, name)
	if err != nil || json.Unmarshal(text, &list) != nil {
		return "unreadable"
	}
	if list.Type != "" {
		return list.Type
	}
	var types []string
	for _, plugin := range list.Plugins {
		types = append(types, plugin.Type)
	}
	return strings.Join(types, " ")
}

// diskReader measures the file system of a folder that may not exist yet.
type diskReader interface {
	FreeSpace(folder string) (free, total uint64, err error)
}

// The agent's records take a few KiB a pod; what is short of this is short of it for kubelet too, which
// evicts pods below 10 % on Linux and 15 % of the images' disk.
const (
	leastDisk = 64 << 20
	fewDisk   = 1 << 30
)

func checkDisk(disk diskReader, folder string) []Finding {
	const s = subject("disk")
	free, total, err := disk.FreeSpace(folder)
	if err != nil {
		return s.unknown("", "%s: %v", folder, err)
	}
	const remedy = "free space there"
	switch {
	case free < leastDisk:
		return s.failed(remedy, "%s has %s of %s left: the agent cannot keep its records", folder, bytesText(free),
			bytesText(total))
	case free < fewDisk:
		return s.warning(remedy, "%s has %s of %s left", folder, bytesText(free), bytesText(total))
	}
	return s.ok("%s has %s of %s left", folder, bytesText(free), bytesText(total))
}

// resolver looks names up as the node's programs do.
type resolver interface {
	LookupHost(ctx context.Context, host string) ([]string, error)
}

// checkDNS: the node itself needs DNS for the API server's name if it has one, and for images.
func checkDNS(ctx context.Context, server string, names resolver) []Finding {
	const s = subject("dns")
	u, err := url.Parse(server)
	if err != nil || u.Hostname() == "" {
		return s.unknown("", "it is not known which name the API server has")
	}
	if _, err := netip.ParseAddr(u.Hostname()); err == nil {
		return s.ok("the API server is known by its address %s: Weft looks up no name on this node", u.Hostname())
	}
	addresses, err := names.LookupHost(ctx, u.Hostname())
	if err != nil {
		return s.failed("correct the DNS servers of this node, or name the API server by its address",
			"the API server's name: %v", err)
	}
	return s.ok("%s is %s", u.Hostname(), strings.Join(addresses, " "))
}

// apiServerName asks nothing: it is in the kubeconfig.
func apiServerName(kubeconfig string) string {
	server, err := apiServer{kubeconfig}.url()
	if err != nil {
		return ""
	}
	return server.String()
}

// existingFolder is the nearest folder above that exists: the agent makes the rest.
func existingFolder(folder string) (string, error) {
	for {
		_, err := os.Stat(folder)
		if err == nil || !errors.Is(err, fs.ErrNotExist) {
			return folder, err
		}
		above := filepath.Dir(folder)
		if above == folder {
			return folder, err
		}
		folder = above
	}
}
