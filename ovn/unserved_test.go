package ovn

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weftnet/weft/ovn/objects"
)

// TestWhatWeftDoesNotServeIsTold once, with the annotation and a remedy, for each line of the table.
func TestWhatWeftDoesNotServeIsTold(t *testing.T) {
	for _, u := range objects.UnservedAnnotations {
		t.Run(u.Annotation, func(t *testing.T) {
			s := newScene(t, nil)
			s.do(s.node("n1", "10.244.1.0/24"))
			make := func(value string) any {
				meta := metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "web",
					Annotations: map[string]string{u.Annotation: value}}
				if u.Kind == objects.ServiceKind.String() {
					return trim(&corev1.Service{ObjectMeta: meta, Spec: corev1.ServiceSpec{ClusterIPs: []string{"10.96.0.10"},
						Ports: []corev1.ServicePort{{Port: 80}}}})
				}
				return trim(&corev1.Pod{ObjectMeta: meta, Spec: corev1.PodSpec{NodeName: "n1"}})
			}
			s.do(make(""))
			s.wantReasons()
			value := "10M"
			if u.Value != "" {
				s.do(make("false"))
				s.wantReasons()
				value = u.Value
			}
			s.do(make(value)) // an annotation may come later
			s.wantMessage(u.Kind+" default/web", u.Reason.Name, u.Annotation, u.Effect, u.Remedy)
			s.do(make(value))
			s.wantReasons()
			for _, p := range objects.UnservedProblems(objects.PodKind, &metav1.ObjectMeta{}, ^objects.Unserved(0)) {
				if !p.Lasting {
					t.Errorf("a controller that starts tells it again: %s", p.Message)
				}
				if strings.HasSuffix(p.Message, "…") {
					t.Errorf("a message has no room for its remedy: %s", p.Message)
				}
			}
		})
	}
	host := trim(&corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{"k8s.v1.cni.cncf.io/networks": "a"}},
		Spec:       corev1.PodSpec{HostNetwork: true}}).(*objects.Pod)
	if host.Asked != 0 {
		t.Error("a pod on the host network, which has none of weft's, is told of it")
	}
}
