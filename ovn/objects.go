package ovn

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"unique"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/models/endpointslice"
	"github.com/weftnet/weft/models/outside"
)

// Labels by which an owner takes a Service away from the cluster's network.
const (
	headlessLabel  = contract.HeadlessLabel
	proxyNameLabel = contract.ProxyNameLabel
)

// The types below are Kubernetes objects cut down to what the translation reads. The informers keep
// them in place of the real ones, which are some ten times as large, and two of them are equal
// exactly if the translation sees no difference: a heartbeat makes no work.

// node is a Node.
type node struct {
	metav1.ObjectMeta
	podCIDRs []string
	network  string // contract.NodeNetworkAnnotation, as it stands there
	facts    string // contract.NodeFactsAnnotation
	os       string // the label kubernetes.io/os
	gateway  string // the label weft.net/gateway, "true" where it has no value
	zone     string // the label topology.kubernetes.io/zone
	labels   labelSet
	ready    bool // the condition Ready
	// addresses are those of its status, internal and external.
	addresses []netip.Addr
}

// pod is a Pod.
type pod struct {
	metav1.ObjectMeta
	node        string
	hostNetwork bool         // a host-process pod of Windows has it, too: the API server demands it
	completed   bool         // Succeeded or Failed: its containers will not run again
	controlled  bool         // see madeByController
	network     string       // contract.PodNetworkAnnotation
	ips         []netip.Addr // status.podIPs
	labels      labelSet
	hostPorts   []hostPort
	// hostPortsLeft is how many more it has than are served.
	hostPortsLeft int
	ports         []containerPort // that have a name, sorted
	asked         wishes          // of what weft does not serve
}

// hostPort is a port of a pod's node that leads to the pod.
type hostPort struct {
	protocol   protocol
	ip         netip.Addr // of the host; none: all
	port, into uint16     // the host's and the container's
}

// service is a Service.
type service struct {
	metav1.ObjectMeta
	ignored         bool // headless, ExternalName, or somebody else's
	clusterIPs      []netip.Addr
	ports           []servicePort
	nodePorts       []nodePort
	externalIPs     []netip.Addr // as the user gave them
	ingress         []netip.Addr // of a load balancer in front of the nodes that hands packets on as they are
	leftOut         int          // how many more addresses it has outside than are served
	portsLeft       int          // how many more ports
	rangesLeft      int          // how many more sourceRanges
	unreadable      []string     // what is wrong with addresses that are left out
	publishNotReady bool
	internalLocal   bool   // internalTrafficPolicy: Local
	externalLocal   bool   // externalTrafficPolicy: Local
	healthPort      uint16 // healthCheckNodePort, 0 without one
	clientIP        bool   // sessionAffinity: ClientIP
	stickySeconds   int    // with it: for how long after its last new connection a client keeps its endpoint
	sourceRanges    []string
	denied          *denial // not the API server's: what of it others have, see judge
	balancer        balancer
	asked           wishes // of what weft does not serve
}

type servicePort struct {
	name     string
	protocol protocol
	port     uint16
}

// nodePort is one of a Service's ports that every node has, too.
type nodePort struct {
	servicePort
	number uint16
}

// slice is an EndpointSlice.
type slice struct {
	metav1.ObjectMeta
	service   string // the Service's name
	ignored   bool
	ipv6      bool
	ports     []servicePort // port is the endpoints', which is why it differs by slice
	endpoints []endpoint
	bad       []badAddress
	badPorts  []string
}

type endpoint struct {
	addr                        netip.Addr
	node                        string
	ready, serving, terminating bool
	zones, nodes                hints
	pod                         types.UID // of endpoints where DNS is spoken
}

// badAddress is an endpoint's address that cannot be served.
type badAddress struct {
	index int
	text  string
	why   string
}

// protocol is one of OVN's load balancer protocols.
type protocol string

func protocolOf(p corev1.Protocol) (protocol, bool) {
	switch p {
	case corev1.ProtocolTCP, "":
		return "tcp", true
	case corev1.ProtocolUDP:
		return "udp", true
	case corev1.ProtocolSCTP:
		return "sctp", true
	}
	return "", false
}

// trimMeta keeps what names an object and one incarnation of it.
func trimMeta(m *metav1.ObjectMeta) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: shared(m.Namespace), Name: m.Name, UID: m.UID, ResourceVersion: m.ResourceVersion,
		CreationTimestamp: m.CreationTimestamp}
}

// shared returns a string that all its equals share: names of nodes, namespaces and ports come many
// times over.
func shared(s string) string { return unique.Make(s).Value() }

// trim is the informers' transform. What it does not know, it hands on.
func trim(object any) (any, error) {
	switch o := object.(type) {
	case *corev1.Node:
		return trimNode(o), nil
	case *corev1.Pod:
		return trimPod(o), nil
	case *corev1.Service:
		return trimService(o), nil
	case *discoveryv1.EndpointSlice:
		return trimSlice(o), nil
	case *corev1.Namespace:
		return trimNamespace(o), nil
	case *networkingv1.NetworkPolicy:
		return trimNetworkPolicy(o), nil
	case *unstructured.Unstructured:
		return trimUnstructured(o), nil
	}
	return object, nil
}

func trimNode(o *corev1.Node) *node {
	n := &node{
		ObjectMeta: trimMeta(&o.ObjectMeta),
		podCIDRs:   o.Spec.PodCIDRs,
		network:    o.Annotations[contract.NodeNetworkAnnotation],
		facts:      o.Annotations[contract.NodeFactsAnnotation],
		os:         shared(o.Labels[corev1.LabelOSStable]),
		zone:       shared(o.Labels[corev1.LabelTopologyZone]),
	}
	n.labels = newLabelSet(o.Labels)
	for _, a := range o.Status.Addresses {
		if addr, err := netip.ParseAddr(a.Address); err == nil && (a.Type == corev1.NodeInternalIP || a.Type == corev1.NodeExternalIP) {
			n.addresses = append(n.addresses, addr.Unmap())
		}
	}
	for _, condition := range o.Status.Conditions {
		n.ready = n.ready || condition.Type == corev1.NodeReady && condition.Status == corev1.ConditionTrue
	}
	if gateway, ok := o.Labels[gatewayLabel]; ok {
		n.gateway = cmp.Or(gateway, "true")
	}
	if len(n.podCIDRs) == 0 && o.Spec.PodCIDR != "" {
		n.podCIDRs = []string{o.Spec.PodCIDR}
	}
	return n
}

func trimPod(o *corev1.Pod) *pod {
	p := &pod{
		ObjectMeta:  trimMeta(&o.ObjectMeta),
		node:        shared(o.Spec.NodeName),
		hostNetwork: o.Spec.HostNetwork,
		completed:   o.Status.Phase == corev1.PodSucceeded || o.Status.Phase == corev1.PodFailed,
		network:     o.Annotations[contract.PodNetworkAnnotation],
		labels:      newLabelSet(o.Labels),
		controlled:  madeByController(o),
	}
	if !p.hostNetwork { // which has no network of weft's
		p.asked = trimUnserved("Pod", o.Annotations)
	}
	p.trimHostPorts(o)
	p.trimPorts(o)
	for _, ip := range o.Status.PodIPs {
		if addr, err := netip.ParseAddr(ip.IP); err == nil {
			p.ips = append(p.ips, addr)
		}
	}
	return p
}

// trimHostPorts reads those of all containers.
func (p *pod) trimHostPorts(o *corev1.Pod) {
	if p.hostNetwork {
		return
	}
	ports, more := outside.HostPorts(o)
	p.hostPortsLeft = more
	for i := range ports {
		kind, ok := protocolOf(ports[i].Protocol)
		ip, readable := contract.HostIP(ports[i].HostIP)
		if ok && readable && !ip.IsLoopback() { // the agent serves the host's own
			p.hostPorts = append(p.hostPorts, hostPort{kind, ip, uint16(ports[i].HostPort), uint16(ports[i].ContainerPort)})
		}
	}
}

func trimService(o *corev1.Service) *service {
	s := &service{
		ObjectMeta:      trimMeta(&o.ObjectMeta),
		ignored:         contract.Unserved(o.Labels) || o.Spec.Type == corev1.ServiceTypeExternalName,
		balancer:        trimBalancer(o),
		publishNotReady: o.Spec.PublishNotReadyAddresses,
		internalLocal:   o.Spec.InternalTrafficPolicy != nil && *o.Spec.InternalTrafficPolicy == corev1.ServiceInternalTrafficPolicyLocal,
		clientIP:        o.Spec.SessionAffinity == corev1.ServiceAffinityClientIP,
		asked:           trimUnserved("Service", o.Annotations),
	}
	if s.clientIP {
		s.stickySeconds = stickySeconds(o.Spec.SessionAffinityConfig)
	}
	s.rangesLeft = len(o.Spec.LoadBalancerSourceRanges) - len(outside.Ranges(o))
	for _, text := range outside.Ranges(o) {
		s.sourceRanges = append(s.sourceRanges, strings.TrimSpace(text))
	}
	ips := o.Spec.ClusterIPs
	if len(ips) == 0 && o.Spec.ClusterIP != "" {
		ips = []string{o.Spec.ClusterIP}
	}
	for _, text := range ips {
		if text == corev1.ClusterIPNone || o.Spec.Type == corev1.ServiceTypeExternalName {
			continue
		}
		if addr, ok := s.parseAddr("spec.clusterIPs", text); ok {
			s.clusterIPs = append(s.clusterIPs, addr)
		}
	}
	s.ignored = s.ignored || len(s.clusterIPs) == 0
	ports := outside.Ports(o)
	s.portsLeft = len(o.Spec.Ports) - len(ports)
	for i := range ports {
		p := &ports[i]
		if protocol, ok := protocolOf(p.Protocol); ok {
			port := servicePort{shared(p.Name), protocol, uint16(p.Port)}
			s.ports = append(s.ports, port)
			if p.NodePort != 0 {
				s.nodePorts = append(s.nodePorts, nodePort{port, uint16(p.NodePort)})
			}
		}
	}
	s.trimExternal(o)
	return s
}

// trimExternal reads by what addresses a Service is known outside.
func (s *service) trimExternal(o *corev1.Service) {
	s.externalLocal = o.Spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal
	if o.Spec.Type == corev1.ServiceTypeLoadBalancer && s.externalLocal {
		s.healthPort = uint16(o.Spec.HealthCheckNodePort)
	}
	a := outside.Read(o, len(s.ports))
	s.externalIPs, s.ingress, s.leftOut = a.External, a.Balancer, a.LeftOut
	for _, bad := range a.Unreadable {
		s.noteUnreadable(bad.Field, bad.Text, bad.Why)
	}
}

func (s *service) noteUnreadable(field, text, why string) {
	s.unreadable = append(s.unreadable, fmt.Sprintf("%s: %q: %s", field, quoted(text), why))
}

// parseAddr reads an address of a Service's, or notes why it cannot be read.
func (s *service) parseAddr(field, text string) (addr netip.Addr, ok bool) {
	addr, why := endpointslice.ParseIP(text)
	if why != "" {
		s.noteUnreadable(field, text, why)
	}
	return addr, why == ""
}

func trimSlice(o *discoveryv1.EndpointSlice) *slice {
	s := &slice{
		ObjectMeta: trimMeta(&o.ObjectMeta),
		service:    shared(o.Labels[discoveryv1.LabelServiceName]),
		ipv6:       o.AddressType == discoveryv1.AddressTypeIPv6,
		ignored:    contract.Unserved(o.Labels) || o.AddressType == discoveryv1.AddressTypeFQDN,
	}
	if s.ignored || s.service == "" {
		s.ignored = true
		return s
	}
	for i := range o.Ports {
		p := &o.Ports[i]
		kind, ok := protocolOf(deref(p.Protocol, corev1.ProtocolTCP))
		if !ok || p.Port == nil { // a slice without a port number means "any port": no Service port can be mapped to it
			continue
		}
		number, why := endpointslice.ParsePort(*p.Port)
		if why != "" {
			s.badPorts = append(s.badPorts, fmt.Sprintf("ports[%d] port %d: %s", i, *p.Port, why))
			continue
		}
		s.ports = append(s.ports, servicePort{shared(deref(p.Name, "")), kind, number})
	}
	s.endpoints = make([]endpoint, 0, len(o.Endpoints))
	for i := range o.Endpoints {
		s.addEndpoint(i, &o.Endpoints[i])
	}
	return s
}

// addEndpoint takes an endpoint's first address: the others mean the same endpoint, and the API says
// that consumers need not look at them.
func (s *slice) addEndpoint(index int, e *discoveryv1.Endpoint) {
	if len(e.Addresses) == 0 {
		s.bad = append(s.bad, badAddress{index, "", "the endpoint has no address"})
		return
	}
	addr, why := endpointslice.ParseAddr(e.Addresses[0], s.ipv6)
	if why != "" {
		s.bad = append(s.bad, badAddress{index, e.Addresses[0], why})
		return
	}
	c := endpointslice.ReadConditions(e.Conditions)
	s.endpoints = append(s.endpoints, endpoint{
		addr: addr, node: shared(deref(e.NodeName, "")), ready: c.Ready, serving: c.Serving, terminating: c.Terminating,
		zones: zoneHints(e.Hints), nodes: nodeHints(e.Hints),
	})
	if of := e.TargetRef; of != nil && of.Kind == "Pod" && s.speaksDNS() {
		s.endpoints[len(s.endpoints)-1].pod = of.UID
	}
}

// speaksDNS: of the endpoints of other Services nobody asks which pods they are.
func (s *slice) speaksDNS() bool {
	return slices.ContainsFunc(s.ports, func(p servicePort) bool { return contract.DNSPort(p.name, p.port) })
}

func deref[T any](p *T, otherwise T) T {
	if p == nil {
		return otherwise
	}
	return *p
}

func (n *node) equal(o *node) bool {
	return n.UID == o.UID && n.network == o.network && n.facts == o.facts && n.os == o.os && n.gateway == o.gateway && n.labels == o.labels && n.ready == o.ready &&
		n.zone == o.zone && slices.Equal(n.addresses, o.addresses) && slices.Equal(n.podCIDRs, o.podCIDRs)
}

func (p *pod) equal(o *pod) bool {
	return p.UID == o.UID && p.node == o.node && p.hostNetwork == o.hostNetwork && p.completed == o.completed && p.controlled == o.controlled &&
		p.network == o.network && p.asked == o.asked && p.labels == o.labels && p.hostPortsLeft == o.hostPortsLeft && slices.Equal(p.hostPorts, o.hostPorts) && slices.Equal(p.ports, o.ports) && slices.Equal(p.ips, o.ips)
}

func (s *service) equal(o *service) bool {
	return s.UID == o.UID && s.ignored == o.ignored && s.asked == o.asked && s.balancer == o.balancer && s.publishNotReady == o.publishNotReady && s.internalLocal == o.internalLocal &&
		s.leftOut == o.leftOut && s.portsLeft == o.portsLeft && s.rangesLeft == o.rangesLeft && slices.Equal(s.unreadable, o.unreadable) &&
		s.externalLocal == o.externalLocal && s.healthPort == o.healthPort && slices.Equal(s.nodePorts, o.nodePorts) && slices.Equal(s.externalIPs, o.externalIPs) && slices.Equal(s.ingress, o.ingress) &&
		s.clientIP == o.clientIP && s.stickySeconds == o.stickySeconds && slices.Equal(s.sourceRanges, o.sourceRanges) &&
		slices.Equal(s.clusterIPs, o.clusterIPs) && slices.Equal(s.ports, o.ports)
}

func (s *slice) equal(o *slice) bool {
	return s.UID == o.UID && s.ignored == o.ignored && s.service == o.service && s.ipv6 == o.ipv6 &&
		slices.Equal(s.ports, o.ports) && slices.Equal(s.endpoints, o.endpoints) && slices.Equal(s.bad, o.bad) && slices.Equal(s.badPorts, o.badPorts)
}

// changed says whether an update carries anything that the translation reads.
func changed(before, after any) bool {
	switch a := after.(type) {
	case *node:
		b, ok := before.(*node)
		return !ok || !a.equal(b)
	case *pod:
		b, ok := before.(*pod)
		return !ok || !a.equal(b)
	case *service:
		b, ok := before.(*service)
		return !ok || !a.equal(b)
	case *slice:
		b, ok := before.(*slice)
		return !ok || !a.equal(b)
	case *namespace:
		b, ok := before.(*namespace)
		return !ok || a.UID != b.UID || a.labels != b.labels || a.logging != b.logging
	case *egressIP:
		b, ok := before.(*egressIP)
		return !ok || !a.equal(&b.custom)
	case *policyObject:
		b, ok := before.(*policyObject)
		return !ok || !a.equal(b)
	case *serviceCIDR:
		b, ok := before.(*serviceCIDR)
		return !ok || !a.equal(b)
	case *addressPool:
		b, ok := before.(*addressPool)
		return !ok || !a.equal(&b.custom)
	}
	return true
}

// parse reads an annotation's value, "" being none. Its error does not quote all of it.
func parse[T any](key, value string) (T, error) {
	parsed, _, err := contract.Parse[T](annotationMap(key, value), key)
	if err != nil {
		return parsed, errors.New(quoted(err.Error()))
	}
	return parsed, nil
}

func key(namespace, name string) string {
	if namespace == "" {
		return name
	}
	return namespace + "/" + name
}

func (b badAddress) String() string {
	return fmt.Sprintf("endpoints[%d] address %q: %s", b.index, quoted(b.text), strings.TrimSpace(b.why))
}

// madeByController says whether a controller of the control plane has made a pod, and no node.
func madeByController(o *corev1.Pod) bool {
	if _, mirror := o.Annotations[corev1.MirrorPodAnnotationKey]; mirror {
		return false
	}
	owner := metav1.GetControllerOf(o)
	return owner != nil && owner.Kind != "Node"
}

func compareContainerPorts(a, b containerPort) int {
	return cmp.Or(cmp.Compare(a.name, b.name), cmp.Compare(a.protocol, b.protocol), cmp.Compare(a.number, b.number))
}

// gatewayLabel makes a node one of those that carry the shared gateway.
const gatewayLabel = "weft.net/gateway"

func annotationMap(key, value string) map[string]string {
	if value == "" {
		return nil
	}
	return map[string]string{key: value}
}

// stickySeconds is what a Service with sessionAffinity ClientIP asks for.
func stickySeconds(config *corev1.SessionAffinityConfig) int {
	if config == nil || config.ClientIP == nil || config.ClientIP.TimeoutSeconds == nil {
		return int(corev1.DefaultClientIPServiceAffinitySeconds)
	}
	return int(*config.ClientIP.TimeoutSeconds)
}

// parseNetwork reads the annotation as it stands at the pod.
func (p *pod) parseNetwork() (contract.PodNetwork, error) {
	return parse[contract.PodNetwork](contract.PodNetworkAnnotation, p.network)
}

// look is an [endpointslice.Look].
func (e *endpoint) look() (addr netip.Addr, node string, c endpointslice.Conditions) {
	return e.addr, e.node, endpointslice.Conditions{Ready: e.ready, Serving: e.serving, Terminating: e.terminating}
}
