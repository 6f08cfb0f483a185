package contract

// Some zones of connection tracking are shared by all pods of a Windows node. Each may have [NodeNetwork.Connections]
// times its share. Each of the gateway router's two has one, and so have that of the node's switch, for pods that are
// their own client by a Service, and the external bridge's of clients whose addresses the host sees by its alias.
const (
	// HostShare is that of the host's zone on its node's switch: kubelet's probes of all pods are there.
	HostShare = 2
	// BridgeShare is that of the external bridge's zone, where the host's own connections with the outside are, too:
	// pods that fill the gateway router's zones leave it most of its places.
	BridgeShare = 3
	// Shares is how many there are.
	Shares = 2 + 1 + 1 + HostShare + BridgeShare
)
