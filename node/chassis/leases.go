//go:build linux

package chassis

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/weftnet/weft/models/contract"
)

const (
	nodeLeasePrefix = "weft-chassis-"
	// hostLeasePrefix cannot begin a node's Lease's name, whatever the node is called.
	hostLeasePrefix = "weft-chassis.host-"

	// leavingAnnotation is the annotation of a Lease of a chassis host: the host is about to end, and gives its nodes to
	// others.
	leavingAnnotation = "weft.net/leaving"
)

// nodeLease is the name of a node's Lease.
func nodeLease(node string) string {
	return shortened(nodeLeasePrefix+node, validation.DNS1123SubdomainMaxLength)
}

func hostLease(identity string) string { return hostLeasePrefix + identity }

// shortened is a name of at most that many bytes, with a hash where something had to go.
func shortened(name string, limit int) string {
	if len(name) <= limit {
		return name
	}
	sum := sha256.Sum256([]byte(name))
	hash := hex.EncodeToString(sum[:4])
	return strings.TrimRight(name[:limit-len(hash)-1], "-.") + "-" + hash
}

func transitions(lease *coordinationv1.Lease) int32 {
	if lease == nil || lease.Spec.LeaseTransitions == nil {
		return 0
	}
	return *lease.Spec.LeaseTransitions
}

// duration of a host's Lease, as that host has written it.
func duration(lease *coordinationv1.Lease, fallback time.Duration) time.Duration {
	if lease == nil || lease.Spec.LeaseDurationSeconds == nil || *lease.Spec.LeaseDurationSeconds <= 0 {
		return fallback
	}
	return time.Duration(*lease.Spec.LeaseDurationSeconds) * time.Second
}

// acquired is a node's Lease after a host has acquired it; before is nil if there is none yet.
func acquired(before *coordinationv1.Lease, namespace, node, identity string, duration time.Duration,
	now time.Time) *coordinationv1.Lease {
	after := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: nodeLease(node)}}
	number := int32(0)
	if before != nil {
		after, number = before.DeepCopy(), transitions(before)+1
	}
	label(after, contract.LeaseOfNode)
	if after.Annotations == nil {
		after.Annotations = map[string]string{}
	}
	after.Annotations[contract.ChassisNodeAnnotation] = node
	seconds, stamp := wholeSeconds(duration), metav1.NewMicroTime(now)
	after.Spec.HolderIdentity, after.Spec.LeaseDurationSeconds = &identity, &seconds
	after.Spec.AcquireTime, after.Spec.RenewTime, after.Spec.LeaseTransitions = &stamp, &stamp, &number
	return after
}

// released is a node's Lease without a holder.
func released(before *coordinationv1.Lease) *coordinationv1.Lease {
	after := before.DeepCopy()
	none := ""
	after.Spec.HolderIdentity = &none
	return after
}

func label(lease *coordinationv1.Lease, kind string) {
	if lease.Labels == nil {
		lease.Labels = map[string]string{}
	}
	lease.Labels[contract.ChassisLeaseLabel] = kind
}

// wholeSeconds rounds up: others must not believe in less than the holder does.
func wholeSeconds(d time.Duration) int32 { return int32((d + time.Second - 1) / time.Second) }
