package contract

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	api "github.com/weftnet/weft/models/api/observe/v1alpha1"
)

// Bounds of a capture.
const (
	MinSnapLength      = 64
	MaxSnapLength      = 1<<16 - 1
	MaxCaptureBytes    = 1 << 30
	MaxCaptureDuration = 10 * time.Minute

	defaultCaptureBytes    = 100 << 20
	defaultCaptureDuration = 30 * time.Second
)

// CaptureRequest is what `weft observe` asks a node's agent, as JSON, once a stream. The agent answers with a
// [CaptureReply], a line of JSON. Without an error in it, packets follow as pcapng. The statistics of the interface
// are last, so a stream that ends without them was broken off. The agent ends a capture when its caller goes.
type CaptureRequest struct {
	// Pod is the pod that is captured; nil: the node's tunnels.
	Pod *PodReference `json:"pod,omitempty"`
	// User is the user of the API server who asks, for the agent's log.
	User string `json:"user"`
	// Spec has no field that stands for a default, see [CaptureDefaults].
	Spec api.CaptureSpec `json:"spec"`
}

// CaptureReply says why there are no packets, if there are none.
type CaptureReply struct {
	Error string `json:"error,omitempty"`
	// Late says that packets come when the capture has ended, and not before. A caller that goes earlier gets none.
	Late bool `json:"late,omitempty"`
}

// CaptureLateness is how long the packets of a late capture may take to come, once it has ended.
const CaptureLateness = 3 * time.Minute

// CaptureDefaults gives the fields that are empty their defaults.
func CaptureDefaults(spec api.CaptureSpec) api.CaptureSpec {
	if spec.SnapLength == 0 {
		spec.SnapLength = MaxSnapLength
	}
	if spec.Bytes == 0 {
		spec.Bytes = defaultCaptureBytes
	}
	if spec.Duration.Duration == 0 {
		spec.Duration.Duration = defaultCaptureDuration
	}
	return spec
}

// CheckCapture reports every mistake of a spec that has its defaults.
func CheckCapture(spec api.CaptureSpec) error {
	var errs []error
	if spec.SnapLength < MinSnapLength || spec.SnapLength > MaxSnapLength {
		errs = append(errs, fmt.Errorf("spec.snapLength: %d is outside %d to %d", spec.SnapLength, MinSnapLength,
			MaxSnapLength))
	}
	if spec.Packets < 0 {
		errs = append(errs, fmt.Errorf("spec.packets: %d is negative; give 0 for no bound", spec.Packets))
	}
	if spec.Bytes < 1 || spec.Bytes > MaxCaptureBytes {
		errs = append(errs, fmt.Errorf("spec.bytes: %d is outside 1 to %d", spec.Bytes, MaxCaptureBytes))
	}
	if d := spec.Duration.Duration; d < time.Second || d > MaxCaptureDuration {
		errs = append(errs, fmt.Errorf("spec.duration: %v is outside 1s to %v", d, MaxCaptureDuration))
	}
	return errors.Join(append(errs, checkCaptureFilter(spec.Filter))...)
}

// Protocols of a filter.
var captureProtocols = []string{"tcp", "udp", "sctp", "icmp", "arp"}

func checkCaptureFilter(f api.CaptureFilter) error {
	if f.Protocol != "" && !slices.Contains(captureProtocols, f.Protocol) {
		return fmt.Errorf("spec.filter.protocol: %q is none of %q", f.Protocol, captureProtocols)
	}
	if f.Port != 0 && (f.Protocol == "icmp" || f.Protocol == "arp") {
		return fmt.Errorf("spec.filter.port: %s has no ports; leave one of them out", f.Protocol)
	}
	if f.Address == "" {
		return nil
	}
	addr, err := netip.ParseAddr(f.Address)
	if err != nil || addr.Zone() != "" || addr.Is4In6() {
		return fmt.Errorf("spec.filter.address: %q is no IP address without a zone", f.Address)
	}
	if f.Protocol == "arp" && !addr.Is4() {
		return fmt.Errorf("spec.filter.address: %v is of IPv6, which has no ARP; use icmp", addr)
	}
	return nil
}

// ParseCaptureFilter reads a part of libpcap's language: a protocol, "host ADDRESS" and "port NUMBER", with or without
// "and" between them. The empty text chooses all packets.
func ParseCaptureFilter(text string) (f api.CaptureFilter, err error) {
	words := strings.Fields(text)
	for i := 0; i < len(words); i++ {
		word, value := words[i], ""
		if word == "host" || word == "port" {
			if i++; i == len(words) {
				return f, fmt.Errorf("%q ends after %q", text, word)
			}
			value = words[i]
		}
		switch {
		case word == "and" && i > 0 && i+1 < len(words) && words[i-1] != "and":
		case word == "host" && f.Address == "":
			f.Address = value
		case word == "port" && f.Port == 0:
			port, err := strconv.ParseUint(value, 10, 16)
			if err != nil || port == 0 {
				return f, fmt.Errorf("%q is no port from 1 to 65535", value)
			}
			f.Port = uint16(port)
		case slices.Contains(captureProtocols, word) && f.Protocol == "":
			f.Protocol = word
		default:
			return f, fmt.Errorf("%q is not understood at %q; write it like \"tcp and host 10.0.0.1 and port 443\", with one "+
				"protocol of %s", text, word, strings.Join(captureProtocols, ", "))
		}
	}
	return f, checkCaptureFilter(f)
}
