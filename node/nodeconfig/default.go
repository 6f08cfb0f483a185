package nodeconfig

import (
	"slices"
	"time"

	"github.com/containernetworking/cni/libcni"

	"github.com/weftnet/weft/cni"
	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/node/ipsec"
)

// LinuxDefault has a value for every key of a Linux node that has one.
func LinuxDefault() Config {
	return Config{
		OVSDatabase:      "unix:/var/run/openvswitch/db.sock",
		OVSOfctl:         "ovs-ofctl",
		Chassis:          ChassisLocal,
		TunnelAddress:    ":16642",
		Capture:          CaptureOff,
		MonitorAll:       true,
		DatapathType:     DatapathSystem,
		EncapType:        "geneve",
		Encryption:       ipsec.Off,
		EncryptionCharon: "/var/run/charon.vici",
		GatewayBridge:    "br-ex",
		GatewayNetwork:   "external",
		CNISocket:        cni.LinuxSocket,
		DataDir:          "/var/lib/weft/node",
		CNIConfDir:       "/etc/cni/net.d",
		CNIConfName:      "10-weft.conflist",
		CNICacheDir:      libcni.CacheDir,
		CNITimeout:       50 * time.Second,
		VNICTimeout:      time.Minute,
		DNSServices:      slices.Clone(contract.DNSServices),
		MetricsAddress:   "127.0.0.1:9471",
	}
}

// Where Windows has its folders, unless it says otherwise.
const (
	ProgramData  = `C:\ProgramData`
	ProgramFiles = `C:\Program Files`
)

// WindowsDefault is the same of a Windows node, which has these folders. The others are those of containerd (its
// config.toml on Windows, plugins."io.containerd.grpc.v1.cri".cni.conf_dir) and of Open vSwitch's build for Windows.
//
// containerd does not set libcni's folder (https://github.com/containerd/containerd/issues/9825), so it is
// libcni.CacheDir, a path of the drive on which containerd runs. That this is C: is assumed.
func WindowsDefault(programData, programFiles string) Config {
	return Config{
		OVSDatabase:     `unix:C:\openvswitch\var\run\openvswitch\db.sock`,
		OVSOfctl:        "ovs-ofctl",
		Chassis:         ChassisHosted,
		TunnelAddress:   ":16642",
		Capture:         CaptureOff,
		MonitorAll:      true,
		HNSNetwork:      "weft",
		DatapathType:    DatapathSystem,
		EncapType:       "geneve",
		GatewayNetwork:  "external",
		CNISocket:       cni.WindowsSocket,
		StateDir:        programData + `\weft`,
		CNIConfDir:      programFiles + `\containerd\cni\conf`,
		CNIConfName:     "10-weft.conflist",
		CNICacheDir:     `C:\var\lib\cni`,
		CNITimeout:      50 * time.Second,
		VNICTimeout:     time.Minute,
		ConntrackLookup: LookupAuto,
		MetricsAddress:  "127.0.0.1:9471",
	}
}
