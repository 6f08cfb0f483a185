package ovn

import (
	corev1 "k8s.io/api/core/v1"
)

// flushAnnotation on a Service says, as "true" or "false", whether clients on Windows nodes leave its UDP
// endpoints that go, at the price that hyperVLimits tells of. Without it all do but DNS' clients.
const flushAnnotation = "weft.net/flush-on-windows"

const dnsPort = 53

// trimFlush decides whether a Service's UDP load balancers are flushed on Windows nodes. A datagram socket
// that never rests would never leave an endpoint that is gone. DNS clients ask from a new port each time,
// and are almost all pods: each of them would lose its connections for nothing.
func (s *service) trimFlush(o *corev1.Service) {
	for _, p := range s.ports {
		s.flushWindows = s.flushWindows || p.protocol == "udp" && p.port != dnsPort
	}
	switch text, ok := o.Annotations[flushAnnotation]; {
	case !s.uses("udp"):
	case text == "true", text == "false":
		s.flushWindows = text == "true"
	case ok:
		s.badFlush = quoted(text)
	}
}

func flushProblems(s *service) []problem {
	if s.badFlush == "" {
		return nil
	}
	return []problem{problemf("Service", &s.ObjectMeta, "BadAnnotation",
		"annotation %s: %q is neither \"true\" nor \"false\"; until it is, only Services with a UDP port other than %d are flushed on Windows nodes", flushAnnotation, s.badFlush, dnsPort)}
}
