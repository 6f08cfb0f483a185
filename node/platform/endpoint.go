package platform

import (
	"net"
	"net/netip"

	"github.com/containernetworking/cni/pkg/types"

	"github.com/weftnet/weft/cni"
)

// Endpoint is a pod's interface.
type Endpoint struct {
	Attachment cni.Attachment
	// Device is the name of the host's end, [cni.HostInterface] of the attachment.
	Device string
	// Sandbox is the path of a network namespace (Linux) or the GUID of an HCN namespace (Windows).
	Sandbox string
	// Label is the pod's name for people who look at the host's devices.
	Label     string
	MAC       net.HardwareAddr
	Addresses []netip.Prefix
	Gateways  []netip.Addr
	MTU       int
	// DNS is what the sandbox's resolver must use, where the platform configures it.
	DNS types.DNS
}
