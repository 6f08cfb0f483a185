package objects

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/weftnet/weft/ovn/policy"
)

// TestNumbersBehindANameCountInOrder: of too many numbers those of TCP count first, the smallest of them before others.
func TestNumbersBehindANameCountInOrder(t *testing.T) {
	o := &corev1.Pod{}
	add := func(protocol corev1.Protocol, number int32) {
		o.Spec.Containers = append(o.Spec.Containers, corev1.Container{Ports: []corev1.ContainerPort{{Name: "web",
			Protocol: protocol, ContainerPort: number}}})
	}
	for i := range int32(MaxNumbers) {
		add(corev1.ProtocolSCTP, 1+i)
	}
	add(corev1.ProtocolUDP, 10)
	add(corev1.ProtocolTCP, 30)
	add(corev1.ProtocolTCP, 20)
	got := TrimPod(o).Numbers("web")
	want := []PortNumber{{policy.TCP, 20}, {policy.TCP, 30}, {policy.UDP, 10}, {policy.SCTP, 1}}
	if len(got) != MaxNumbers || !slices.Equal(got[:len(want)], want) {
		t.Errorf("%v, want %d that begin with %v", got, MaxNumbers, want)
	}
}
