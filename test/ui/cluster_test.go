package ui

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/weftnet/weft/models/api/observe/v1alpha1"
	"github.com/weftnet/weft/models/contract"
)

// cluster is what a stub of an API server answers from, in the types of the API.
type cluster struct {
	mu       sync.Mutex
	topology api.NetworkTopology
	status   api.NetworkStatus
	services []corev1.Service
	slices   []discoveryv1.EndpointSlice
	policies []networkingv1.NetworkPolicy
	flows    api.NetworkFlows
	hits     []api.PolicyHits
	// trace is the answer to each trace, and asked the last one.
	trace api.TraceStatus
	asked api.Trace
	// refused is the resources that the user has no right to.
	refused []string
	// questions is how often each resource was asked for.
	questions map[string]int
}

// change lets a test change the cluster while the page asks.
func (c *cluster) change(how func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	how()
}

func (c *cluster) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	resource := r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:]
	w.Header().Set("Content-Type", "application/json")
	if c.questions == nil {
		c.questions = map[string]int{}
	}
	c.questions[resource]++
	var answer any
	switch resource {
	case api.NetworkFlowsResource:
		answer = api.NetworkFlowsList{Items: []api.NetworkFlows{c.flows}}
	case api.PolicyHitsResource:
		answer = api.PolicyHitsList{Items: c.hits}
	case api.NetworkTopologyResource:
		answer = api.NetworkTopologyList{Items: []api.NetworkTopology{c.topology}}
	case api.NetworkStatusResource:
		answer = api.NetworkStatusList{Items: []api.NetworkStatus{c.status}}
	case api.TraceResource:
		if err := json.NewDecoder(r.Body).Decode(&c.asked); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		answer = api.Trace{Spec: c.asked.Spec, Status: c.trace}
		w.WriteHeader(http.StatusCreated)
	case "services":
		answer = corev1.ServiceList{Items: c.services}
	case "endpointslices":
		answer = discoveryv1.EndpointSliceList{Items: c.slices}
	case "networkpolicies":
		answer = networkingv1.NetworkPolicyList{Items: c.policies}
	case "namespaces":
		answer = corev1.NamespaceList{}
	case "nodes":
		answer = c.nodes()
	case "pods":
		answer = c.pods()
	default: // the API server has none of the other kinds of policies
		answer = metav1.Status{Status: metav1.StatusFailure, Reason: metav1.StatusReasonNotFound, Code: http.StatusNotFound}
		w.WriteHeader(http.StatusNotFound)
	}
	if slices.Contains(c.refused, resource) {
		answer = metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure,
			Reason: metav1.StatusReasonForbidden, Code: http.StatusForbidden, Message: resource + " is forbidden to alice"}
		w.WriteHeader(http.StatusForbidden)
	}
	_ = json.NewEncoder(w).Encode(answer)
}

// nodes are those of the topology as Kubernetes has them, with what the controller has written.
func (c *cluster) nodes() (list corev1.NodeList) {
	for i, node := range c.topology.Nodes {
		var n corev1.Node
		n.Name = node.Name
		n.Annotations = map[string]string{contract.NodeNetworkAnnotation: fmt.Sprintf(
			`{"id": %d, "podCIDRs": ["10.244.%d.0/24"], "clusterCIDRs": ["10.244.0.0/16"], "serviceCIDRs": ["10.96.0.0/16"]}`,
			i+1, i)}
		list.Items = append(list.Items, n)
	}
	return list
}

// pods are those of the topology as Kubernetes has them. An app is a pod's name without what follows a hyphen.
func (c *cluster) pods() (list corev1.PodList) {
	for _, node := range c.topology.Nodes {
		for _, port := range node.Pods {
			app, _, _ := strings.Cut(port.Name, "-")
			var pod corev1.Pod
			pod.Namespace, pod.Name, pod.Labels = port.Namespace, port.Name, map[string]string{"app": app}
			pod.Spec = corev1.PodSpec{NodeName: node.Name, Containers: []corev1.Container{{Name: "c",
				Ports: []corev1.ContainerPort{{ContainerPort: 8080}}}}}
			for _, address := range port.Addresses {
				pod.Status.PodIPs = append(pod.Status.PodIPs, corev1.PodIP{IP: address})
			}
			list.Items = append(list.Items, pod)
		}
	}
	return list
}

// port is a pod's, which works.
func port(node, namespace, name, address string) api.PortTopology {
	return api.PortTopology{Namespace: namespace, Name: name, Addresses: []string{address}, MAC: "0a:58:0a:f4:00:05",
		Chassis: node, Up: true}
}

// service is one with endpoints, each a pod of its namespace.
func service(namespace, name string, pods ...string) (corev1.Service, discoveryv1.EndpointSlice) {
	s := corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: corev1.ServiceSpec{
		Type: corev1.ServiceTypeClusterIP, ClusterIPs: []string{"10.96.0.10"},
		Ports: []corev1.ServicePort{{Name: "http", Port: 80, Protocol: corev1.ProtocolTCP}}}}
	slice := discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name + "-1",
		Labels: map[string]string{discoveryv1.LabelServiceName: name}}}
	for i, pod := range pods {
		slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{Addresses: []string{fmt.Sprintf("10.244.9.%d", i)},
			TargetRef: &corev1.ObjectReference{Kind: "Pod", Namespace: namespace, Name: pod}})
	}
	return s, slice
}

// add adds a Service.
func (c *cluster) add(namespace, name string, pods ...string) {
	s, slice := service(namespace, name, pods...)
	c.services, c.slices = append(c.services, s), append(c.slices, slice)
}

// market is a cluster of both systems in which not all is well.
func market() *cluster {
	c := &cluster{}
	lost := port("w1", "bank", "teller-1", "10.244.2.4")
	lost.Up = false
	c.topology.Nodes = []api.NodeTopology{
		{Name: "l1", System: "linux", Chassis: "l1", Switch: "l1",
			Router:  &api.RouterPortTopology{Name: "rtos-l1", Networks: []string{"10.244.0.1/24"}},
			Gateway: &api.RouterTopology{Name: "gw-l1", Chassis: "l1"},
			Pods: []api.PortTopology{port("l1", "kube-system", "coredns-1", "10.244.0.3"),
				port("l1", "shop", "cart-1", "10.244.0.4"),
				port("l1", "shop", "web-1", "10.244.0.5"), port("l1", "shop", "web-2", "10.244.0.6")}},
		{Name: "l2", System: "linux", Chassis: "l2", Switch: "l2",
			Router: &api.RouterPortTopology{Name: "rtos-l2", Networks: []string{"10.244.1.1/24"}},
			Pods: []api.PortTopology{port("l2", "bank", "safe-1", "10.244.1.3"),
				port("l2", "kube-system", "coredns-2", "10.244.1.4"), port("l2", "shop", "db-1", "10.244.1.5")}},
		{Name: "w1", System: "windows", Chassis: "w1", Switch: "w1",
			Router: &api.RouterPortTopology{Name: "rtos-w1", Networks: []string{"10.244.2.1/24"}},
			Pods:   []api.PortTopology{port("w1", "shop", "web-3", "10.244.2.3"), lost}},
	}
	c.add("kube-system", "kube-dns", "coredns-1", "coredns-2")
	c.add("shop", "web", "web-1", "web-2", "web-3")
	c.add("shop", "db", "db-1")
	c.add("shop", "cart", "cart-1")
	c.add("bank", "teller")
	c.status = api.NetworkStatus{Result: api.Failed, Policies: 3, Findings: []api.Finding{
		{Severity: api.Failed, Reason: "PodsNotUp", Object: "Pod bank/teller-1", Text: "its port on node w1 is not up for 5m",
			Remedy: "`kubectl describe pod` tells of an Event; else look at the log of weft node on w1"},
		{Severity: api.Warning, Reason: "ChassisUnreachable", Object: "Node w1", Text: "its agent was not reached, 2 times",
			Remedy: "docs/reference/events.md says what to do about ChassisUnreachable", More: 2}},
		NotInForce: []api.PolicyStatus{{Kind: "NetworkPolicy", Namespace: "shop", Name: "db", InForce: true,
			Condition: api.Condition{Reason: "NamedPortUnknown",
				Message: "spec.ingress[0].ports[0]: no pod has a port \"sql\""}}}}
	for _, node := range c.topology.Nodes {
		c.status.Nodes = append(c.status.Nodes, api.NodeStatus{Name: node.Name, System: node.System, Ready: true, Agent: true,
			Version: "1.2.0", Subnets: []api.SubnetStatus{{CIDR: "10.244.0.0/24", Used: 4, Free: 250}}})
	}
	c.policies = []networkingv1.NetworkPolicy{{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "db"},
		Spec: networkingv1.NetworkPolicySpec{PodSelector: metav1.LabelSelector{MatchLabels: map[string]string{"app": "db"}},
			Ingress: []networkingv1.NetworkPolicyIngressRule{{From: []networkingv1.NetworkPolicyPeer{{
				PodSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "cart"}}}}}}}}}
	c.trace = api.TraceStatus{Result: api.Refused,
		Reason: "ingress: Deny: isolated by NetworkPolicy shop/db, no rule of which allows it",
		Remedy: "allow it by a rule in spec.ingress of one of these policies", Endpoints: []string{"10.244.1.5:8080"},
		Request: []api.TraceStep{
			{Kind: api.StepStart, Node: "l1", Object: "Pod shop/web-1",
				Text: "pod shop/web-1 sends the first packet of a connection by TCP from 10.244.0.5:40000 to 10.96.0.10:80"},
			{Kind: api.StepPolicy, Node: "l1", Text: "egress: no policy selects it: allowed by default"},
			{Kind: api.StepService, Node: "l1", Object: "Service shop/db",
				Text: "Service shop/db: the destination 10.96.0.10:80 becomes 10.244.1.5:8080, the only endpoint"},
			{Kind: api.StepTunnel, Node: "l1", Text: "it goes from node l1 to node l2 by GENEVE, from 192.0.2.1 to 192.0.2.2"},
			{Kind: api.StepPolicy, Node: "l2", Object: "NetworkPolicy shop/db",
				Text: "ingress: Deny: isolated by NetworkPolicy shop/db, no rule of which allows it"},
			{Kind: api.StepEnd, Node: "l2", Text: "it is dropped"}}}
	return c
}

// large is a cluster of so many pods on 40 nodes, in 20 namespaces, with a Service in front of each 20 of them.
func large(pods int) *cluster {
	c := &cluster{status: api.NetworkStatus{Result: api.OK}}
	const nodes, namespaces = 40, 20
	for n := range nodes {
		name := fmt.Sprintf("node-%d", n)
		node := api.NodeTopology{Name: name, System: "linux", Chassis: name, Switch: name}
		c.topology.Nodes = append(c.topology.Nodes, node)
	}
	members := map[string][]string{}
	for p := range pods {
		node := &c.topology.Nodes[p%nodes]
		namespace, name := fmt.Sprintf("team-%02d", p/nodes%namespaces), fmt.Sprintf("app-%d", p)
		address := fmt.Sprintf("10.244.%d.%d", p>>8, p&255)
		node.Pods = append(node.Pods, port(node.Name, namespace, name, address))
		members[namespace] = append(members[namespace], name)
	}
	for namespace, names := range members {
		for i, some := range slices.Collect(slices.Chunk(names, 20)) {
			c.add(namespace, fmt.Sprintf("service-%d", i), some...)
		}
	}
	return c
}
