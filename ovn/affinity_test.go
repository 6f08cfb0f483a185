package ovn

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/weftnet/weft/ovn/loadbalancer"
	"github.com/weftnet/weft/ovn/objects"
)

// sticky is the web Service with affinity for some seconds.
func sticky(seconds int32, edits ...func(*corev1.Service)) *corev1.Service {
	return web(append(edits, func(s *corev1.Service) {
		s.Spec.SessionAffinity = corev1.ServiceAffinityClientIP
		s.Spec.SessionAffinityConfig = &corev1.SessionAffinityConfig{ClientIP: &corev1.ClientIPConfig{
			TimeoutSeconds: &seconds}}
	})...)
}

// TestLongAffinityIsTold: Kubernetes allows a day, OVN less.
func TestLongAffinityIsTold(t *testing.T) {
	for seconds, want := range map[int32]int{1: 0, 10800: 0, objects.MaxSticky: 0, objects.MaxSticky + 1: 1, 86400: 1} {
		s := trim(sticky(seconds)).(*objects.Service)
		found := loadbalancer.Problems(s, nil, loadbalancer.SizeOf(s, nil), &loadbalancer.Nodes{})
		if len(found) != want {
			t.Errorf("%d seconds: %v, want %d problems", seconds, found, want)
		}
		for _, p := range found {
			for _, word := range []string{"Service default/web", "timeoutSeconds: ", "65535", "choose"} {
				if !strings.Contains(p.String(), word) {
					t.Errorf("%q lacks %q", p, word)
				}
			}
		}
		if got := s.AffinityTimeout(); want > 0 && got != "65535" {
			t.Errorf("%d seconds: OVN is given %s", seconds, got)
		}
	}
}
