package trace

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"strings"

	corev1 "k8s.io/api/core/v1"

	api "github.com/weftnet/weft/models/api/observe/v1alpha1"
	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/ovn/ovntrace"
)

// object reads one object off the API server. It is listed, since the rights of a door are to list. nil is none.
func object[T any](ctx context.Context, t *Tracer, resource, namespace, name string) (*T, error) {
	text, err := t.Kubernetes.Get().AbsPath("/api/v1/namespaces", namespace, resource).
		SetHeader("Accept", "application/json").Param("fieldSelector", "metadata.name="+name).Do(ctx).Raw()
	if err != nil {
		return nil, fmt.Errorf("list %s of namespace %s: %w", resource, namespace, err)
	}
	var list struct{ Items []T }
	if err := json.Unmarshal(text, &list); err != nil {
		return nil, fmt.Errorf("read the list of %s of namespace %s: %w", resource, namespace, err)
	}
	if len(list.Items) == 0 {
		return nil, nil
	}
	return &list.Items[0], nil
}

// node is what Weft has noted at a Node.
type node struct {
	name      string
	facts     contract.NodeFacts
	network   contract.NodeNetwork
	addresses []netip.Addr
}

// allNodes are the Nodes by name. What cannot be read of one is left out.
func (t *Tracer) allNodes() map[string]*node {
	found := map[string]*node{}
	for _, o := range t.Nodes() {
		n := &node{name: o.Name}
		n.facts, _, _ = contract.Parse[contract.NodeFacts](o.Annotations, contract.NodeFactsAnnotation)
		n.network, _, _ = contract.Parse[contract.NodeNetwork](o.Annotations, contract.NodeNetworkAnnotation)
		for _, a := range o.Status.Addresses {
			if addr, err := netip.ParseAddr(a.Address); err == nil && a.Type == corev1.NodeInternalIP {
				n.addresses = append(n.addresses, addr.Unmap())
			}
		}
		found[o.Name] = n
	}
	return found
}

// inside says whether an address is one that the node's host reaches through OVN.
func (n *node) inside(addr netip.Addr) bool {
	for _, list := range [][]netip.Prefix{n.network.ClusterCIDRs, n.network.ServiceCIDRs} {
		for _, p := range list {
			if p.Contains(addr) {
				return true
			}
		}
	}
	return false
}

// service is a Service's port.
type service struct {
	key       string // namespace/name
	addresses []netip.Addr
	port      corev1.ServicePort
	local     bool // by its internalTrafficPolicy, only endpoints on the client's node count
}

// service reads the Service that a question names.
func (t *Tracer) service(ctx context.Context, q *question) (*service, error) {
	key := q.to.Namespace + "/" + q.to.Name
	o, err := object[corev1.Service](ctx, t, "services", q.to.Namespace, q.to.Name)
	switch {
	case err != nil:
		return nil, err
	case o == nil:
		return nil, questionErrorf("spec.destination", "there is no Service %s", key)
	case o.Spec.Type == corev1.ServiceTypeExternalName:
		return nil, questionErrorf("spec.destination", "Service %s is a name, %s, and has no address; trace that name", key,
			o.Spec.ExternalName)
	case o.Spec.ClusterIP == corev1.ClusterIPNone || len(o.Spec.ClusterIPs) == 0:
		return nil, questionErrorf("spec.destination", "Service %s has no address of its own (it is headless): its clients "+
			"connect to its pods; trace one of them", key)
	}
	policy := o.Spec.InternalTrafficPolicy
	s := &service{key: key, local: policy != nil && *policy == corev1.ServiceInternalTrafficPolicyLocal}
	for _, text := range o.Spec.ClusterIPs {
		if addr, err := netip.ParseAddr(text); err == nil {
			s.addresses = append(s.addresses, addr)
		}
	}
	s.port, err = portOfService(q, key, o.Spec.Ports)
	return s, err
}

// portOfService is the one that a question means.
func portOfService(q *question, key string, ports []corev1.ServicePort) (corev1.ServicePort, error) {
	var fitting []corev1.ServicePort
	var have []string
	number, numbered := q.number()
	for _, p := range ports {
		have = append(have, fmt.Sprintf("%s %d/%s", p.Name, p.Port, strings.ToLower(string(p.Protocol))))
		if (q.port == "" || numbered && p.Port == int32(number) || !numbered && p.Name == q.port) &&
			(q.protocol == "" || q.protocol == protocolOf(p)) {
			fitting = append(fitting, p)
		}
	}
	list := strings.TrimSpace(strings.Join(have, ", "))
	switch {
	case len(ports) == 0:
		return corev1.ServicePort{}, questionErrorf("spec.port", "Service %s has no ports; trace one of its pods", key)
	case len(fitting) == 0:
		return corev1.ServicePort{}, questionErrorf("spec.port", "Service %s has no port %s; name one that it has, by "+
			"number or name, and protocol: %s", key, q.portText(), list)
	case len(fitting) > 1:
		return corev1.ServicePort{}, questionErrorf("spec.port", "%d ports of Service %s fit; name one of: %s (number or "+
			"name, and protocol)", len(fitting), key, list)
	}
	return fitting[0], nil
}

func protocolOf(p corev1.ServicePort) ovntrace.Protocol {
	return ovntrace.Protocol(strings.ToLower(string(p.Protocol)))
}

// whyNoPort says why a pod has no logical port, or whose port it has.
func (t *Tracer) whyNoPort(ctx context.Context, field string, e api.TraceEnd) (host string, err error) {
	key := e.Namespace + "/" + e.Name
	pod, err := object[corev1.Pod](ctx, t, "pods", e.Namespace, e.Name)
	switch {
	case err != nil:
		return "", err
	case pod == nil:
		return "", questionErrorf(field, "there is no pod %s", key)
	case pod.Spec.NodeName == "":
		return "", questionErrorf(field, "pod %s is on no node yet; `kubectl describe pod` says why", key)
	case pod.Spec.HostNetwork:
		return pod.Spec.NodeName, nil
	case pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed:
		return "", questionErrorf(field, "pod %s is over (%s) and has no network any more", key, pod.Status.Phase)
	}
	return "", questionErrorf(field, "pod %s has no port in the Southbound yet; `weft status` says what it waits for", key)
}
