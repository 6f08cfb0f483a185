package v1alpha1

import (
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Names of captures.
const (
	// CaptureResource and NodeCaptureResource have an entry for each Pod and each Node, by its name. Nothing is kept of
	// them: the subresource [CaptureSubresource] is created, and the answer to the request is the packets, as pcapng.
	CaptureResource     = "captures"
	NodeCaptureResource = "nodecaptures" // of the cluster
	CaptureKind         = "Capture"
	// CaptureSubresource is one of those whose requests the API server lets take as long as they take. It ends others
	// after a minute.
	CaptureSubresource = "attach"
	// CaptureRole is the ClusterRole that lets users capture the packets of pods. NodeCaptureRole is that for nodes. An
	// administrator binds them.
	CaptureRole     = "weft-observe-capture"
	NodeCaptureRole = "weft-observe-node-capture"
)

// Capture asks for the packets of a Pod, or for those of a Node's tunnels.
type Capture struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	// Spec is which packets are captured, and how many.
	Spec CaptureSpec `json:"spec"`
}

// CaptureSpec says which packets are captured, and when that ends. On a Linux node, the bound that is reached first
// ends it. On a Windows node, the duration alone ends it, and the other bounds are those of the answer. The log of
// Packet Monitor there has a bound, too: when it is full, new packets take the places of the oldest.
type CaptureSpec struct {
	// Filter is which packets are captured. For a Node it is about the packets inside of the tunnels.
	Filter CaptureFilter `json:"filter,omitzero"`
	// SnapLength is how many bytes of a packet are kept. 0 is 65535.
	SnapLength int `json:"snapLength,omitempty"`
	// Packets is how many packets there are at most. 0 is no bound.
	Packets int64 `json:"packets,omitempty"`
	// Bytes is how many bytes of pcapng the packets have at most. 0 is 100 MiB.
	Bytes int64 `json:"bytes,omitempty"`
	// Duration is how long the capture lasts. 0 is 30 seconds.
	Duration metav1.Duration `json:"duration,omitzero"`
}

// CaptureFilter chooses packets that are as all its fields say.
type CaptureFilter struct {
	// Protocol is one of tcp, udp, sctp, icmp and arp. Empty is any.
	Protocol string `json:"protocol,omitempty"`
	// Address is the address of one of the packet's ends. Empty is any.
	Address string `json:"address,omitempty"`
	// Port is the port of one of the packet's ends. 0 is any.
	Port uint16 `json:"port,omitempty"`
}

// String is the filter in libpcap's language, as tcpdump takes it. Without any field it is empty.
func (f CaptureFilter) String() string {
	var parts []string
	if f.Protocol != "" {
		parts = append(parts, f.Protocol)
	}
	if f.Address != "" {
		parts = append(parts, "host "+f.Address)
	}
	if f.Port != 0 {
		parts = append(parts, "port "+strconv.Itoa(int(f.Port)))
	}
	return strings.Join(parts, " and ")
}
