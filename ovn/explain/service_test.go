package explain

import (
	"fmt"
	"strings"
	"testing"
)

// frontends are Services before the pods of twoNodes, by all sorts of addresses.
const frontends = twoNodes + `
---
{apiVersion: v1, kind: Pod, metadata: {name: lan, labels: {app: lan}}, spec: {nodeName: n1, containers: []}, status: {podIPs: [{ip: 10.1.0.9}]}}
---
{apiVersion: v1, kind: Service, metadata: {namespace: default, name: db}, spec: {type: LoadBalancer, clusterIP: 10.2.0.1, clusterIPs: [10.2.0.1], externalIPs: [192.0.2.12, 192.0.2.60], loadBalancerSourceRanges: [10.1.1.0/24, 198.51.100.0/24], ports: [{port: 80, nodePort: 30080, protocol: TCP}]}, status: {loadBalancer: {ingress: [{ip: 203.0.113.1}]}}}
---
{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {namespace: default, name: db-1, labels: {kubernetes.io/service-name: db}}, addressType: IPv4, ports: [{name: "", port: 5432}], endpoints: [{addresses: [10.1.0.8], nodeName: n1}]}
---
{apiVersion: v1, kind: Service, metadata: {namespace: default, name: local}, spec: {type: NodePort, externalTrafficPolicy: Local, clusterIP: 10.2.0.2, clusterIPs: [10.2.0.2], ports: [{port: 80, nodePort: 30081, protocol: TCP}]}}
---
{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {namespace: default, name: local-1, labels: {kubernetes.io/service-name: local}}, addressType: IPv4, ports: [{name: "", port: 5432}], endpoints: [{addresses: [10.1.0.8], nodeName: n1}]}
---
{apiVersion: v1, kind: Service, metadata: {namespace: default, name: none}, spec: {clusterIP: 10.2.0.3, clusterIPs: [10.2.0.3], ports: [{port: 80, protocol: TCP}, {port: 53, protocol: UDP}]}}
---
{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {name: lan}, spec: {podSelector: {matchLabels: {app: lan}}, policyTypes: [Egress], egress: [{to: [{ipBlock: {cidr: 10.2.0.0/16}}, {ipBlock: {cidr: 203.0.113.0/24}}]}]}}`

func TestAddressesOfServices(t *testing.T) {
	const endpoint = "10.1.1.7 -> 10.1.0.8:5432: allowed\n"
	answers(t, frontends, []question{
		{"web", "10.2.0.1:80", "allowed\n10.2.0.1:80 is a ClusterIP of Service default/db: this is about each endpoint " +
			"that the client may get\n\n" + endpoint},
		{"web", "10.2.0.1:81", "10.2.0.1 is a ClusterIP of Service default/db, which has no port 81/tcp; ask for one of " +
			"its ports: 80/tcp"},
		{"web", "10.2.0.3:53", "ask for one of its ports: 80/tcp, 53/udp"},
		{"web", "10.2.0.3:80", "the Service default/none has no ready endpoint for port 80/tcp"},
		{"web", "10.2.0.1:icmp", "Services have no ICMP"},
		{"web", "10.2.0.9:80", "10.2.0.9 is in the Services' range 10.2.0.0/16, and no Service has it; ask for one that is " +
			"there, as svc/NAMESPACE/NAME:PORT"},
		{"10.2.0.1", "web:80", "10.2.0.1 is a Service's address, and a Service opens no connections"},
		{"agent2", "10.2.0.1:80", "10.1.1.2 -> 10.1.0.8:5432: refused"},

		// Egress is judged by the endpoint, whatever address was asked for.
		{"lan", "10.2.0.1:80", "egress of default/lan: refused\n    NetworkPolicy  Deny: isolated by NetworkPolicy " +
			"default/lan, no rule of which allows it\n"},
		{"lan", "203.0.113.9:80", "203.0.113.9:80: allowed"},

		{"web", "203.0.113.1:80", "203.0.113.1:80 is the load balancer's address of Service default/db: this is about each " +
			"endpoint that the client may get\n\n" + endpoint},
		{"lan", "203.0.113.1:80", "refused\n  egress of default/lan: refused\n    before all     Deny: the client is in " +
			"none of spec.loadBalancerSourceRanges of Service default/db\n"},
		{"web", "203.0.113.1:81", "203.0.113.1 is no pod's address"},
		{"web", "192.0.2.60:80", "192.0.2.60:80 is an external address of Service default/db"},
		{"web", "192.0.2.12:80", "192.0.2.12 is an address of Node n2"}, // nobody's by spec.externalIPs
		{"web", "192.0.2.12:22", "192.0.2.12 is an address of Node n2"},

		// NodePorts of the own node are balanced on its switch, others behind that node's gateway.
		{"web", "192.0.2.12:30080", "192.0.2.12:30080 is Node n2's NodePort of Service default/db: this is about each " +
			"endpoint that the client may get\n\n" + endpoint},
		{"web", "192.0.2.11:30080", "10.1.1.7 -> 10.1.0.8:5432: refused\n  egress of default/web: allowed"},
		{"web", "192.0.2.11:30080", "note: it leaves for 192.0.2.11:30080 and comes in by the gateway of Node n1, behind " +
			"which the endpoint sees the client 100.64.0.2\n"},
		{"lan", "192.0.2.12:30080", "egress of default/lan: refused\n    NetworkPolicy  Deny: isolated by NetworkPolicy " +
			"default/lan"},
		{"198.51.100.7", "172.16.0.11:30080", "the agent of Node n1 serves NodePorts at this address, and endpoints see " +
			"its host as the client; ask from that, or for one of its gateway's addresses: 192.0.2.11"},
		{"lan", "172.16.0.11:30080", "172.16.0.11:30080 is Node n1's NodePort of Service default/db"},
		{"198.51.100.7", "203.0.113.1:80", "behind which the endpoint sees the client 100.64.0.2\n"},
		{"192.0.2.99", "203.0.113.1:80", "the client is in none of spec.loadBalancerSourceRanges"},
		{"web", "192.0.2.11:30081", "behind which the endpoint sees the client 192.0.2.12\n"},
		{"agent2", "192.0.2.11:30081", "behind which the endpoint sees the client 192.0.2.12\n"},
		{"198.51.100.7", "192.0.2.11:30081", "behind which the endpoint sees the client 198.51.100.7\n"},
		{"198.51.100.7", "192.0.2.12:30081", "the Service default/local has no ready endpoint for port 80/tcp on Node n2, " +
			"and externalTrafficPolicy is Local"},
		{"web", "192.0.2.12:30081", endpoint},
	})
}

// TestClientsBehindGateways: whatever gateway a pod's node has, another node's gateway meets that as the client.
func TestClientsBehindGateways(t *testing.T) {
	const (
		network = `{"id":2,`
		gateway = `"gateway":{"network":"external","mac":"02:00:00:00:00:02","addresses":["192.0.2.12/24"],` +
			`"nextHops":["192.0.2.1"],"hostAddresses":true}`
	)
	for want, change := range map[string]*strings.Replacer{
		"192.0.2.12":    strings.NewReplacer(gateway, strings.TrimSuffix(gateway, "}")+`,"routed":true}`),
		"203.0.113.200": strings.NewReplacer(network, network+`"sharedGateways":["203.0.113.200"],`, gateway, `"sharedGateway":true`),
	} {
		answers(t, change.Replace(frontends), []question{
			{"web", "192.0.2.11:30081", "behind which the endpoint sees the client " + want + "\n"}})
	}
}

// TestEndpointsOfClients has questions about Services whose clients do not all get the same endpoints: a client is told
// of those alone that the rows give it.
func TestEndpointsOfClients(t *testing.T) {
	const (
		onN1, onN2 = "10.1.0.8", "10.1.1.7" // db and web
		first      = "{addresses: [10.1.0.8], nodeName: n1%s}"
		second     = "{addresses: [10.1.1.7], nodeName: n2%s}"
	)
	endpoints := func(list ...string) string { return "endpoints: [" + strings.Join(list, ", ") + "]" }
	with := func(format, more string) string { return fmt.Sprintf(format, more) }
	both := endpoints(with(first, ""), with(second, ""))
	other := func(spec string) string {
		return "\n---\n{apiVersion: v1, kind: Service, metadata: {namespace: default, name: other, creationTimestamp: " +
			"\"2024-01-01T00:00:00Z\"}, spec: {clusterIP: 10.2.0.2, clusterIPs: [10.2.0.2], " + spec
	}
	for _, c := range []struct {
		name, meta, spec, slice, more string
		asks                          map[string]string // "client address" to the endpoints, or what is said
	}{
		{name: "all", slice: both, asks: map[string]string{"lan 10.2.0.1:80": onN1 + " " + onN2,
			"far svc/default/shop:80": onN1 + " " + onN2}},
		{name: "local within", spec: "internalTrafficPolicy: Local", slice: both,
			asks: map[string]string{"lan 10.2.0.1:80": onN1, "far svc/default/shop:80": onN2, "far 10.2.0.1:80": onN2}},
		{name: "local within, nobody here", spec: "internalTrafficPolicy: Local", slice: endpoints(with(first, "")),
			asks: map[string]string{"far 10.2.0.1:80": "has no ready endpoint for port 80/tcp on Node n2, and " +
				"internalTrafficPolicy is Local"}},
		{name: "local from outside", spec: "type: NodePort, externalTrafficPolicy: Local, externalIPs: [198.51.100.1]",
			slice: both,
			asks: map[string]string{"192.0.2.99 192.0.2.11:30080": onN1, "192.0.2.99 192.0.2.12:30080": onN2,
				"far 192.0.2.12:30080": onN1 + " " + onN2,
				"far 192.0.2.11:30080": onN1, "192.0.2.99 198.51.100.1:80": onN1 + " " + onN2}},
		{name: "hints of nodes", slice: endpoints(with(first, ", hints: {forNodes: [{name: n1}]}"),
			with(second, ", hints: {forNodes: [{name: n2}]}")),
			asks: map[string]string{"lan 10.2.0.1:80": onN1, "far 10.2.0.1:80": onN2}},
		{name: "hints of zones", slice: endpoints(with(first, ", hints: {forZones: [{name: z1}]}"),
			with(second, ", hints: {forZones: [{name: z2}]}")),
			asks: map[string]string{"lan 10.2.0.1:80": onN1, "far 10.2.0.1:80": onN1 + " " + onN2}},
		{name: "a second address", slice: endpoints("{addresses: [10.1.0.8, 10.1.1.7]}"),
			asks: map[string]string{"lan 10.2.0.1:80": onN1}},
		{name: "terminating", slice: endpoints(with(first, ", conditions: {ready: false, serving: true, terminating: true}"),
			with(second, ", conditions: {ready: false}")),
			asks: map[string]string{"lan 10.2.0.1:80": onN1}},
		{name: "terminating beside ready", slice: endpoints(with(first, ", conditions: {ready: false, serving: true, "+
			"terminating: true}"), with(second, "")),
			asks: map[string]string{"lan 10.2.0.1:80": onN2}},
		{name: "not ready, published", spec: "publishNotReadyAddresses: true",
			slice: endpoints(with(first, ", conditions: {ready: false}")),
			asks:  map[string]string{"lan 10.2.0.1:80": onN1}},
		{name: "another proxy's", meta: "labels: {service.kubernetes.io/service-proxy-name: mine}", slice: both,
			asks: map[string]string{"lan svc/default/shop:80": "leaves it to somebody else, and weft does not serve it",
				"lan 10.2.0.1:80": "no Service has it"}},
		{name: "an older Service's address", spec: "externalIPs: [198.51.100.1]", slice: both,
			more: other("externalIPs: [198.51.100.1], ports: [{port: 80, protocol: TCP}]}}"),
			asks: map[string]string{"lan 198.51.100.1:80": "the Service default/other has no ready endpoint"}},
		{name: "a load balancer's address", spec: "externalIPs: [198.51.100.1]", slice: both,
			more: strings.Replace(other("type: LoadBalancer, ports: [{port: 80, protocol: TCP}]}, status: {loadBalancer: "+
				"{ingress: [{ip: 198.51.100.1}]}}}"), "2024", "2026", 1),
			asks: map[string]string{"lan 198.51.100.1:80": "the Service default/other has no ready endpoint"}},
		{name: "twice", slice: endpoints(with(first, ""), with(first, "")), asks: map[string]string{"lan 10.2.0.1:80": onN1}},
		{name: "leading zeros", slice: endpoints(with(first, ""), "{addresses: [010.1.1.7]}"),
			asks: map[string]string{"lan 10.2.0.1:80": onN1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			objects := strings.Replace(twoNodes, "name: n1, annotations", "name: n1, labels: {topology.kubernetes.io/zone: z1}, annotations", 1) + fmt.Sprintf(`
---
{apiVersion: v1, kind: Pod, metadata: {name: lan}, spec: {nodeName: n1, containers: []}, status: {podIPs: [{ip: 10.1.0.9}]}}
---
{apiVersion: v1, kind: Pod, metadata: {name: far}, spec: {nodeName: n2, containers: []}, status: {podIPs: [{ip: 10.1.1.9}]}}
---
{apiVersion: v1, kind: Service, metadata: {namespace: default, name: shop, creationTimestamp: "2025-01-01T00:00:00Z", %s}, spec: {clusterIP: 10.2.0.1, clusterIPs: [10.2.0.1], ports: [{port: 80, nodePort: 30080, protocol: TCP}], %s}}
---
{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {namespace: default, name: shop-1, labels: {kubernetes.io/service-name: shop}}, addressType: IPv4, ports: [{name: "", port: 5432}, {name: "", port: 70968}], %s}`, c.meta, c.spec, c.slice) + c.more
			cluster, err := newCluster(read(t, objects), nil, true)
			if err != nil {
				t.Fatal(err)
			}
			for asked, want := range c.asks {
				from, to, _ := strings.Cut(asked, " ")
				q, err := ParseQuestion(from, to, "default")
				if err != nil {
					t.Fatal(err)
				}
				a, err := cluster.Ask(q, "")
				if err != nil {
					if !strings.Contains(err.Error(), want) {
						t.Errorf("%s: %v, want %s", asked, err, want)
					}
					continue
				}
				var got []string
				for _, p := range a.Paths {
					if got = append(got, p.Dst.String()); p.Port != 5432 {
						t.Errorf("%s: port %d", asked, p.Port)
					}
				}
				if strings.Join(got, " ") != want {
					t.Errorf("%s: endpoints %s, want %s", asked, got, want)
				}
			}
		})
	}
}

// TestGatewaysAreJudged has policies about what the endpoint and the client's switch see of a connection between them.
func TestGatewaysAreJudged(t *testing.T) {
	const allows = "\n---\n{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {name: gateways}, spec: " +
		"{podSelector: {matchLabels: {app: db}}, ingress: [{from: [{ipBlock: {cidr: 100.64.0.2/32}}]}]}}"
	answers(t, frontends+allows, []question{
		{"web", "192.0.2.11:30080", "10.1.1.7 -> 10.1.0.8:5432: allowed"},
		{"198.51.100.7", "203.0.113.1:80", "198.51.100.7 -> 10.1.0.8:5432: allowed"},
		{"198.51.100.7", "192.0.2.11:30081", "198.51.100.7 -> 10.1.0.8:5432: refused"},
		{"lan", "192.0.2.12:30080", "10.1.0.9 -> 10.1.0.8:5432: refused"},
	})
	const to = "\n---\n{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {name: to}, spec: " +
		"{podSelector: {matchLabels: {app: lan}}, policyTypes: [Egress], egress: [{to: [{ipBlock: {cidr: 192.0.2.12/32}}], " +
		"ports: [{port: 30080}]}]}}"
	answers(t, strings.Replace(frontends, "cidr: 10.2.0.0/16", "cidr: 10.1.0.8/32", 1)+allows, []question{
		{"lan", "192.0.2.11:30080", "egress of default/lan: allowed\n    NetworkPolicy  Accept by NetworkPolicy default/lan"},
		{"lan", "192.0.2.12:30080", "10.1.0.9 -> 10.1.0.8:5432: refused"},
	})
	answers(t, frontends+strings.Replace(allows, "100.64.0.2", "100.64.0.3", 1)+to, []question{
		{"lan", "192.0.2.12:30080", "10.1.0.9 -> 10.1.0.8:5432: allowed"},
	})
}

func TestServicesOfManifests(t *testing.T) {
	c, err := New(read(t, twoNodes), nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := ask(t, c, "web", "10.2.0.1:80"); !strings.Contains(got, "manifests do not say where a Service leads; ask "+
		"about its pods") {
		t.Error(got)
	}
}
