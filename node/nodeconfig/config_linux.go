package nodeconfig

import (
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/weftnet/weft/cni"
	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/node/ipsec"
)

// DefaultOVNRunDir is where OVN's programs have their control sockets.
const DefaultOVNRunDir = "/var/run/ovn"

// Default has a value for every key that has one.
func Default() Config {
	return Config{
		OVSDatabase:      "unix:/var/run/openvswitch/db.sock",
		OVSOfctl:         "ovs-ofctl",
		Chassis:          ChassisLocal,
		TunnelAddress:    ":16642",
		DatapathType:     DatapathSystem,
		EncapType:        "geneve",
		Encryption:       ipsec.Off,
		EncryptionCharon: "/var/run/charon.vici",
		GatewayBridge:    "br-ex",
		GatewayNetwork:   "external",
		CNISocket:        cni.DefaultSocket,
		DataDir:          "/var/lib/weft/node",
		CNIConfDir:       "/etc/cni/net.d",
		CNIConfName:      "10-weft.conflist",
		CNITimeout:       50 * time.Second,
		VNICTimeout:      time.Minute,
		DNSServices:      slices.Clone(contract.DNSServices),
		MetricsAddress:   "127.0.0.1:9471",
	}
}

// validSocket checks the path of a unix socket.
func validSocket(path string) error {
	if !filepath.IsAbs(path) {
		return fmt.Errorf("%q is not an absolute path", path)
	}
	if len(path) > 107 {
		return fmt.Errorf("%q is longer than the 107 bytes of a unix socket's address", path)
	}
	return nil
}
