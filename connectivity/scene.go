package connectivity

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// scene is what a test has made.
type scene struct {
	nodes    []Node
	pods     map[string]pod     // by name
	services map[string]service // by name
	options  Options
	// allStarted is since when all pods have started that ever will; zero: they have not.
	allStarted time.Time
}

// pod is one of the test's.
type pod struct {
	End
	role      role
	addresses []netip.Addr
	started   bool // it has an address, and its container runs
	ready     bool
	over      bool   // it will not start any more
	problem   string // why it has not started, or is not Ready
}

// port is where a pod takes requests.
func (s *scene) port(r role) int {
	if r == hostRole {
		return s.options.HostPort
	}
	return httpPort
}

// service is one of the test's.
type service struct {
	addresses []netip.Addr
	nodePort  int // for TCP
}

func (s *scene) end(r role, number int) End {
	node := s.nodes[number]
	return End{Pod: numbered(r, number), Node: node.Name, System: node.System}
}

func (s *scene) host(number int) End {
	return End{Node: s.nodes[number].Name, System: s.nodes[number].System}
}

// families are those of the cluster's Services.
func (s *scene) families() (list []corev1.IPFamily) {
	for _, addr := range s.services[allServers].addresses {
		list = append(list, familyOf(addr))
	}
	return list
}

// askers are the pods that ask others, or themselves. The guarded ones are not: clients alone may reach them.
func (s *scene) askers() (list []pod) {
	for number, node := range s.nodes {
		for _, r := range rolesOf(node, s.options.HostNetwork) {
			if r != guardedRole {
				list = append(list, s.pods[numbered(r, number)])
			}
		}
	}
	return list
}

// look takes the pods as they are now. Those that the API server has refused have its reasons.
func (s *scene) look(list []corev1.Pod, refused map[string]string, now time.Time) {
	s.pods = map[string]pod{}
	for number, node := range s.nodes {
		for _, r := range rolesOf(node, s.options.HostNetwork) {
			p := pod{End: s.end(r, number), role: r}
			p.problem, p.over = refused[p.Pod]
			if at := slices.IndexFunc(list, func(o corev1.Pod) bool { return o.Name == p.Pod }); at >= 0 {
				p.read(&list[at])
			}
			s.pods[p.Pod] = p
		}
	}
	switch {
	case !s.all(func(p pod) bool { return p.started || p.over }):
		s.allStarted = time.Time{}
	case s.allStarted.IsZero():
		s.allStarted = now
	}
}

// settled says whether there is nothing left to wait for: each pod is Ready, or has had its time to become so.
func (s *scene) settled(now time.Time) bool {
	late := !s.allStarted.IsZero() && now.Sub(s.allStarted) > readyTimeout
	return late || s.all(func(p pod) bool { return p.ready || p.over })
}

func (s *scene) all(is func(pod) bool) bool {
	for _, p := range s.pods {
		if !is(p) {
			return false
		}
	}
	return true
}

// progress says how many pods are ready, and why the others are not.
func (s *scene) progress() string {
	var waiting []string
	for _, name := range slices.Sorted(maps.Keys(s.pods)) {
		if p := s.pods[name]; !p.ready {
			waiting = append(waiting, fmt.Sprintf("%s: %s", p.End, cmp.Or(p.problem, "not ready yet")))
		}
	}
	text := fmt.Sprintf("%d of %d pods are ready", len(s.pods)-len(waiting), len(s.pods))
	if len(waiting) > 0 {
		text += " (" + strings.Join(waiting, ", ") + ")"
	}
	return text
}

// read takes a pod's state.
func (p *pod) read(o *corev1.Pod) {
	var texts []string
	for _, ip := range o.Status.PodIPs {
		texts = append(texts, ip.IP)
	}
	p.addresses = parseAddresses(texts)
	p.ready = slices.ContainsFunc(o.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
	p.over = o.Status.Phase == corev1.PodFailed || o.Status.Phase == corev1.PodSucceeded
	p.problem = o.Status.Reason
	for _, c := range o.Status.ContainerStatuses {
		p.started = c.State.Running != nil && len(p.addresses) > 0
		p.over = p.over || c.RestartCount >= restarts
		switch {
		case c.State.Waiting != nil:
			p.problem = c.State.Waiting.Reason
		case c.State.Terminated != nil:
			p.problem = c.State.Terminated.Reason
		}
	}
}
