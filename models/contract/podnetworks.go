package contract

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// PodNetworksNamespace is the namespace of all objects PodNetworks, and of the Roles by which a node reads its own.
const PodNetworksNamespace = "weft-nodes"

// PodAddresses are the addresses of a pod, as a line of its node's PodNetworks has them:
//
//	NAMESPACE/NAME UID ADDRESS/LENGTH...
//
// A line is a string, and no object with fields, since an API server needs much less time for it.
type PodAddresses struct {
	Pod       string // NAMESPACE/NAME, for people
	UID       string // metadata.uid
	Addresses []netip.Prefix
}

func (p PodAddresses) String() string {
	var line strings.Builder
	line.WriteString(p.Pod + " " + p.UID)
	for _, a := range p.Addresses {
		line.WriteString(" " + a.String())
	}
	return line.String()
}

// Equal says whether two lines say the same.
func (p PodAddresses) Equal(o PodAddresses) bool {
	return p.Pod == o.Pod && p.UID == o.UID && slices.Equal(p.Addresses, o.Addresses)
}

// ParsePodAddresses reads a line.
func ParsePodAddresses(line string) (p PodAddresses, err error) {
	fields := strings.Fields(line)
	if len(fields) < 3 {
		return p, fmt.Errorf("line %.80q of PodNetworks is not a pod, its UID and its addresses", line)
	}
	p.Pod, p.UID = fields[0], fields[1]
	for _, text := range fields[2:] {
		address, wrong := netip.ParsePrefix(text)
		p.Addresses, err = append(p.Addresses, address), errors.Join(err, wrong)
	}
	if err = errors.Join(err, checkPrefixes("addresses", p.Addresses)); err != nil {
		return PodAddresses{}, fmt.Errorf("line %.80q of PodNetworks: %w", line, err)
	}
	return p, nil
}
