package explain

import (
	"strings"
	"testing"
)

// frontends are Services before the pods of twoNodes, by all sorts of addresses.
const frontends = twoNodes + `
---
{apiVersion: v1, kind: Pod, metadata: {name: lan, labels: {app: lan}}, spec: {nodeName: n1, containers: []}, status: {podIPs: [{ip: 10.1.0.9}]}}
---
{apiVersion: v1, kind: Service, metadata: {namespace: default, name: db}, spec: {type: LoadBalancer, clusterIP: 10.2.0.1, clusterIPs: [10.2.0.1], externalIPs: [192.0.2.12], loadBalancerSourceRanges: [10.1.1.0/24, 198.51.100.0/24], ports: [{port: 80, nodePort: 30080, protocol: TCP}]}, status: {loadBalancer: {ingress: [{ip: 203.0.113.1}]}}}
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
		{"web", "10.2.0.1:80", "allowed\n10.2.0.1:80 is a ClusterIP of Service default/db: this is about each of its ready endpoints\n\n" + endpoint},
		{"web", "10.2.0.1:81", "10.2.0.1 is a ClusterIP of Service default/db, which has no port 81/tcp; ask for one of its ports: 80/tcp"},
		{"web", "10.2.0.3:53", "ask for one of its ports: 80/tcp, 53/udp"},
		{"web", "10.2.0.3:80", "the Service default/none has no ready endpoint for port 80/tcp"},
		{"web", "10.2.0.1:icmp", "Services have no ICMP"},
		{"web", "10.2.0.9:80", "10.2.0.9 is in the Services' range 10.2.0.0/16, and no Service has it; ask for one that is there, as svc/NAMESPACE/NAME:PORT"},
		{"10.2.0.1", "web:80", "10.2.0.1 is a Service's address, and a Service opens no connections"},
		{"agent2", "10.2.0.1:80", "10.1.1.2 -> 10.1.0.8:5432: refused"},

		// Egress is judged by the endpoint, whatever address was asked for.
		{"lan", "10.2.0.1:80", "egress of default/lan: refused\n    NetworkPolicy  Deny: isolated by NetworkPolicy default/lan, no rule of which allows it\n"},
		{"lan", "203.0.113.9:80", "203.0.113.9:80: allowed"},

		{"web", "203.0.113.1:80", "203.0.113.1:80 is the load balancer's address of Service default/db: this is about each of its ready endpoints\n\n" + endpoint},
		{"lan", "203.0.113.1:80", "refused\n  egress of default/lan: refused\n    before all     Deny: the client is in none of spec.loadBalancerSourceRanges of Service default/db\n"},
		{"web", "203.0.113.1:81", "203.0.113.1 is no pod's address"},
		{"web", "192.0.2.12:80", "192.0.2.12:80 is an external address of Service default/db"},
		{"web", "192.0.2.12:22", "192.0.2.12 is an address of Node n2"},

		// NodePorts of the own node are balanced on its switch, others behind that node's gateway.
		{"web", "192.0.2.12:30080", "192.0.2.12:30080 is Node n2's NodePort of Service default/db: this is about each of its ready endpoints\n\n" + endpoint},
		{"web", "192.0.2.11:30080", "10.1.1.7 -> 10.1.0.8:5432: refused\n  egress of default/web: allowed"},
		{"web", "192.0.2.11:30080", "note: it leaves for 192.0.2.11:30080 and comes in by the gateway of Node n1, behind which the endpoint sees the client 100.64.0.2\n"},
		{"lan", "192.0.2.12:30080", "egress of default/lan: refused\n    NetworkPolicy  Deny: isolated by NetworkPolicy default/lan"},
		{"198.51.100.7", "172.16.0.11:30080", "the agent of Node n1 serves NodePorts at this address, and endpoints see its host as the client; ask from that, or for one of its gateway's addresses: 192.0.2.11"},
		{"lan", "172.16.0.11:30080", "172.16.0.11:30080 is Node n1's NodePort of Service default/db"},
		{"198.51.100.7", "203.0.113.1:80", "behind which the endpoint sees the client 100.64.0.2\n"},
		{"192.0.2.99", "203.0.113.1:80", "the client is in none of spec.loadBalancerSourceRanges"},
		{"web", "192.0.2.11:30081", "behind which the endpoint sees the client 192.0.2.12\n"},
		{"agent2", "192.0.2.11:30081", "behind which the endpoint sees the client 192.0.2.12\n"},
		{"198.51.100.7", "192.0.2.11:30081", "behind which the endpoint sees the client 198.51.100.7\n"},
		{"198.51.100.7", "192.0.2.12:30081", "the Service default/local has no ready endpoint for port 80/tcp on Node n2, and externalTrafficPolicy is Local"},
		{"web", "192.0.2.12:30081", endpoint},
	})
}

// TestGatewaysAreJudged has policies about what the endpoint and the client's switch see of a connection between them.
func TestGatewaysAreJudged(t *testing.T) {
	const allows = "\n---\n{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {name: gateways}, spec: {podSelector: {matchLabels: {app: db}}, ingress: [{from: [{ipBlock: {cidr: 100.64.0.2/32}}]}]}}"
	answers(t, frontends+allows, []question{
		{"web", "192.0.2.11:30080", "10.1.1.7 -> 10.1.0.8:5432: allowed"},
		{"198.51.100.7", "203.0.113.1:80", "198.51.100.7 -> 10.1.0.8:5432: allowed"},
		{"198.51.100.7", "192.0.2.11:30081", "198.51.100.7 -> 10.1.0.8:5432: refused"},
		{"lan", "192.0.2.12:30080", "10.1.0.9 -> 10.1.0.8:5432: refused"},
	})
	const to = "\n---\n{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {name: to}, spec: {podSelector: {matchLabels: {app: lan}}, policyTypes: [Egress], egress: [{to: [{ipBlock: {cidr: 192.0.2.12/32}}], ports: [{port: 30080}]}]}}"
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
	if got := ask(t, c, "web", "10.2.0.1:80"); !strings.Contains(got, "manifests do not say where a Service leads; ask about its pods") {
		t.Error(got)
	}
}
