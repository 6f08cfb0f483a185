package nodeconfig

import (
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/windows"

	"github.com/weftnet/weft/cni"
)

// DefaultOVNRunDir is where a user's own ovn-controller.exe has its control socket.
const DefaultOVNRunDir = `C:\openvswitch\var\run\openvswitch`

// Default has a value for every key that has one. The folders are those of containerd
// (its config.toml on Windows, plugins."io.containerd.grpc.v1.cri".cni.conf_dir) and of Open
// vSwitch's build for Windows.
func Default() Config {
	return Config{
		OVSDatabase:    `unix:C:\openvswitch\var\run\openvswitch\db.sock`,
		OVSOfctl:       "ovs-ofctl",
		Chassis:        ChassisHosted,
		TunnelAddress:  ":16642",
		HNSNetwork:     "weft",
		DatapathType:   DatapathSystem,
		EncapType:      "geneve",
		GatewayNetwork: "external",
		CNISocket:      cni.DefaultSocket,
		StateDir:       filepath.Join(systemFolder(windows.FOLDERID_ProgramData, `C:\ProgramData`), "weft"),
		CNIConfDir: filepath.Join(systemFolder(windows.FOLDERID_ProgramFiles, `C:\Program Files`), "containerd", "cni",
			"conf"),
		CNIConfName:     "10-weft.conflist",
		CNITimeout:      50 * time.Second,
		VNICTimeout:     time.Minute,
		ConntrackLookup: LookupAuto,
		MetricsAddress:  "127.0.0.1:9471",
	}
}

// systemFolder asks Windows, since a service's environment may have other values than a person's.
func systemFolder(id *windows.KNOWNFOLDERID, otherwise string) string {
	if path, err := windows.KnownFolderPath(id, 0); err == nil {
		return path
	}
	return otherwise
}

// validSocket checks the name of a named pipe, see CreateNamedPipeW: `\\.\pipe\NAME`, at most 256
// characters, none of them a backslash in NAME.
func validSocket(path string) error {
	name, isPipe := strings.CutPrefix(strings.ToLower(path), `\\.\pipe\`)
	if !isPipe || name == "" || strings.Contains(name, `\`) || len(path) > 256 {
		return fmt.Errorf(`%q is not the name of a pipe; write it like "\\.\pipe\weft-cni"`, path)
	}
	return nil
}
