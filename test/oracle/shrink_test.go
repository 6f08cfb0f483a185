package oracle

import (
	"iter"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// shrink takes away what a dispute does not need: first all packets but one, then objects, then their parts.
func shrink(t testing.TB, knp *kubeNetworkPolicies, s *scene, ks []connection) (*scene, connection) {
	i := slices.IndexFunc(ks, func(k connection) bool { return dispute(t, knp, s, []connection{k}, nil) != "" })
	k := ks[max(i, 0)]
	for again := true; again; {
		again = false
		for less := range s.less(k) {
			if dispute(t, knp, less, []connection{k}, nil) != "" {
				s, again = less, true
				break
			}
		}
	}
	return s, k
}

// less yields copies that lack something each.
func (s *scene) less(k connection) iter.Seq[*scene] {
	return func(yield func(*scene) bool) {
		for i := 0; ; i++ {
			c := s.copy()
			if !cut(c, k, i) {
				return
			}
			if !yield(c) {
				return
			}
		}
	}
}

// cut removes the i-th of all that can be removed from a scene, objects first; it says whether there is one.
func cut(c *scene, k connection, i int) (done bool) {
	visit := func(n int, remove func(i int)) {
		if !done && i < n {
			remove(i)
			done = true
		}
		i -= n
	}
	of(&c.wide, 0, visit)
	of(&c.policies, 0, visit)
	others := slices.DeleteFunc(slices.Clone(c.pods), func(p *corev1.Pod) bool {
		return slices.Contains([]string{k.from, k.to}, p.Namespace+"/"+p.Name)
	})
	visit(len(others), func(i int) {
		c.pods = slices.DeleteFunc(c.pods, func(p *corev1.Pod) bool { return p == others[i] })
	})
	lists(c, visit)
	return done
}

// lists visits every list in a scene that can be shorter.
func lists(c *scene, visit func(n int, remove func(i int))) {
	for _, p := range c.policies {
		of(&p.Spec.Ingress, 0, visit)
		of(&p.Spec.Egress, 0, visit)
		for i := range p.Spec.Ingress {
			of(&p.Spec.Ingress[i].From, 0, visit)
			of(&p.Spec.Ingress[i].Ports, 0, visit)
		}
		for i := range p.Spec.Egress {
			of(&p.Spec.Egress[i].To, 0, visit)
			of(&p.Spec.Egress[i].Ports, 0, visit)
		}
	}
	for _, p := range c.wide {
		of(&p.Spec.Ingress, 0, visit)
		of(&p.Spec.Egress, 0, visit)
		for i := range p.Spec.Ingress {
			of(&p.Spec.Ingress[i].From, 1, visit)
			of(&p.Spec.Ingress[i].Protocols, 0, visit)
		}
		for i := range p.Spec.Egress {
			of(&p.Spec.Egress[i].To, 1, visit)
			of(&p.Spec.Egress[i].Protocols, 0, visit)
		}
	}
	for _, s := range selectors(c) {
		of(&s.MatchExpressions, 0, visit)
		keys(s.MatchLabels, visit)
	}
	for _, p := range c.pods {
		for i := range p.Spec.Containers {
			of(&p.Spec.Containers[i].Ports, 0, visit)
		}
		of(&p.Spec.InitContainers, 0, visit)
		keys(p.Labels, visit)
	}
}

func of[T any](list *[]T, least int, visit func(int, func(int))) {
	if len(*list) > least {
		visit(len(*list), func(i int) { *list = slices.Delete(*list, i, i+1) })
	}
}

func keys(m map[string]string, visit func(int, func(int))) {
	var names []string
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	visit(len(names), func(i int) { delete(m, names[i]) })
}

// selectors are all of a scene's policies.
func selectors(c *scene) (all []*metav1.LabelSelector) {
	add := func(list ...*metav1.LabelSelector) {
		for _, s := range list {
			if s != nil {
				all = append(all, s)
			}
		}
	}
	for _, p := range c.policies {
		add(&p.Spec.PodSelector)
		for _, rule := range p.Spec.Ingress {
			for _, peer := range rule.From {
				add(peer.PodSelector, peer.NamespaceSelector)
			}
		}
		for _, rule := range p.Spec.Egress {
			for _, peer := range rule.To {
				add(peer.PodSelector, peer.NamespaceSelector)
			}
		}
	}
	for _, p := range c.wide {
		add(p.Spec.Subject.Namespaces)
		if pods := p.Spec.Subject.Pods; pods != nil {
			add(&pods.NamespaceSelector, &pods.PodSelector)
		}
		for _, rule := range p.Spec.Ingress {
			for _, peer := range rule.From {
				add(peer.Namespaces)
				if peer.Pods != nil {
					add(&peer.Pods.NamespaceSelector, &peer.Pods.PodSelector)
				}
			}
		}
		for _, rule := range p.Spec.Egress {
			for _, peer := range rule.To {
				add(peer.Namespaces, peer.Nodes)
				if peer.Pods != nil {
					add(&peer.Pods.NamespaceSelector, &peer.Pods.PodSelector)
				}
			}
		}
	}
	return all
}
