package ovn

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// of, port and flush edit a Service.
func of(protocol corev1.Protocol) func(*corev1.Service) {
	return func(s *corev1.Service) { s.Spec.Ports[0].Protocol = protocol }
}

func port(number int32) func(*corev1.Service) {
	return func(s *corev1.Service) { s.Spec.Ports[0].Port = number }
}

func flush(text string) func(*corev1.Service) {
	return func(s *corev1.Service) { s.Annotations = map[string]string{flushAnnotation: text} }
}

func TestWhatIsFlushedOnWindowsNodes(t *testing.T) {
	also := func(protocol corev1.Protocol, number int32) func(*corev1.Service) {
		return func(s *corev1.Service) {
			s.Spec.Ports = append(s.Spec.Ports, corev1.ServicePort{Name: "also", Protocol: protocol, Port: number})
		}
	}
	udp := of(corev1.ProtocolUDP)
	for _, c := range []struct {
		name    string
		service *corev1.Service
		want    bool
		problem string
	}{
		{"UDP", web(udp), true, ""},
		{"DNS", web(udp, port(53)), false, ""},
		{"DNS over TCP, too", web(udp, port(53), also(corev1.ProtocolTCP, 53)), false, ""},
		{"DNS and another TCP port", web(udp, port(53), also(corev1.ProtocolTCP, 9153)), false, ""},
		{"DNS and another UDP port", web(udp, port(53), also(corev1.ProtocolUDP, 514)), true, ""},
		{"DNS, but asked for", web(udp, port(53), flush("true")), true, ""},
		{"UDP, but asked not to", web(udp, flush("false")), false, ""},
		{"asked for nonsense", web(udp, flush("yes")), true, `annotation weft.net/flush-on-windows: "yes" is neither`},
		{"DNS, asked for nonsense", web(udp, port(53), flush("")), false, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := must(trim(c.service)).(*service)
			if s.flushWindows != c.want {
				t.Errorf("flushed: %v", s.flushWindows)
			}
			switch found := flushProblems(s); {
			case c.problem == "" && len(found) > 0, c.problem != "" && (len(found) != 1 || !strings.Contains(found[0].message, c.problem)):
				t.Errorf("problems %v, want %q", found, c.problem)
			}
		})
	}
}
