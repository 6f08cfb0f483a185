package explain

import (
	"net/netip"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/weftnet/weft/ovn/manifest"
)

// read makes objects of YAML documents; Services and slices are among them.
func read(t *testing.T, text string) []runtime.Object {
	t.Helper()
	var list []runtime.Object
	var rest []string
	for document := range strings.SplitSeq(text, "\n---\n") {
		var o runtime.Object
		switch {
		case strings.Contains(document, "kind: Service,"):
			o = &corev1.Service{}
		case strings.Contains(document, "kind: EndpointSlice,"):
			o = &discoveryv1.EndpointSlice{}
		default:
			rest = append(rest, document)
			continue
		}
		if err := yaml.UnmarshalStrict([]byte(document), o); err != nil {
			t.Fatal(err)
		}
		list = append(list, o)
	}
	s, err := manifest.Read(strings.NewReader(strings.Join(rest, "\n---\n")), "default", "-")
	if err != nil {
		t.Fatal(err)
	}
	return append(list, s.Objects...)
}

// ask gives an answer's text; a question that has none gives the error's.
func ask(t *testing.T, c *Cluster, from, to string) string {
	t.Helper()
	q, err := ParseQuestion(from, to, "default")
	if err != nil {
		t.Fatal(err)
	}
	a, err := c.Ask(q, "")
	if err != nil {
		return err.Error()
	}
	return a.String()
}

// running is a cluster whose pods and nodes have addresses of their own.
const running = `
{apiVersion: v1, kind: Node, metadata: {name: n1, annotations: {weft.net/node-network: '{"id":1,"podCIDRs":["10.1.0.0/24"],"clusterCIDRs":["10.1.0.0/16"],"serviceCIDRs":["10.2.0.0/16"]}'}}, status: {addresses: [{type: InternalIP, address: 192.0.2.11}]}}
---
{apiVersion: v1, kind: Pod, metadata: {name: web, labels: {app: web}}, spec: {nodeName: n1, containers: [{name: c, image: i, ports: [{name: http, containerPort: 8080}]}]}, status: {podIPs: [{ip: 10.1.0.7}]}}
---
{apiVersion: v1, kind: Pod, metadata: {name: db, labels: {app: db}}, spec: {nodeName: n1, containers: []}, status: {podIPs: [{ip: 10.1.0.8}]}}
---
{apiVersion: v1, kind: Pod, metadata: {name: agent}, spec: {nodeName: n1, hostNetwork: true, containers: []}, status: {hostIPs: [{ip: 192.0.2.11}]}}
---
{apiVersion: v1, kind: Pod, metadata: {name: over}, spec: {nodeName: n1, containers: []}, status: {phase: Succeeded, podIPs: [{ip: 10.1.0.9}]}}
---
{apiVersion: v1, kind: Pod, metadata: {name: new}, spec: {nodeName: n1, containers: []}}
---
{apiVersion: v1, kind: Service, metadata: {namespace: default, name: web}, spec: {clusterIP: 10.2.0.1, clusterIPs: [10.2.0.1], ports: [{name: http, port: 80}]}}
---
{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {namespace: default, name: web-1, labels: {kubernetes.io/service-name: web}}, addressType: IPv4, ports: [{name: http, port: 8080}], endpoints: [{addresses: [10.1.0.7]}, {addresses: [192.0.2.99]}, {addresses: [10.1.0.8], conditions: {ready: false}}]}
---
{apiVersion: v1, kind: Service, metadata: {namespace: default, name: none}, spec: {clusterIP: None, ports: [{port: 80}]}}
---
{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {name: web}, spec: {podSelector: {matchLabels: {app: web}}, policyTypes: [Ingress, Egress], ingress: [{from: [{ipBlock: {cidr: 10.1.0.8/32}}], ports: [{port: http}]}]}}`

func TestARunningCluster(t *testing.T) {
	c, err := newCluster(read(t, running), nil, true)
	if err != nil {
		t.Fatal(err)
	}
	for _, q := range []struct{ from, to, want string }{
		{"db", "web:8080", "10.1.0.8 -> 10.1.0.7:8080: allowed\n  egress of default/db: allowed\n    no policy selects it: " +
			"allowed by default\n  ingress of default/web: allowed\n    NetworkPolicy  Accept by NetworkPolicy default/web, " +
			"spec.ingress[0], port http (8080/tcp)\n"},
		{"db", "10.1.0.7:8080", "ingress of default/web: allowed"},
		{"10.1.0.8", "web:8080", "egress of default/db: allowed"},
		{"db", "web:8081", "Deny: isolated by NetworkPolicy default/web, no rule of which allows it"},
		{"agent", "web:22", "egress of default/agent: allowed\n    the pod shares its node's address, so that no policy " +
			"selects it\n  ingress of default/web: allowed\n    before all     Accept: a node reaches the pods on it, " +
			"whatever policies say"},
		{"agent", "web:22", "10.1.0.2 -> 10.1.0.7:22"},
		{"web", "agent:22", "10.1.0.7 -> 192.0.2.11:22: refused"},
		{"192.0.2.11", "web:22", "192.0.2.11 is an address of Node n1: no policy is about it\n  ingress of " +
			"default/web: allowed"},
		{"192.0.2.12", "web:8080",
			"192.0.2.12 is no pod's address: no policy is about it\n  ingress of default/web: refused"},
		{"db", "svc/default/web:80", "allowed\n\n10.1.0.8 -> 10.1.0.7:8080: allowed"},
		{"db", "svc/default/web:80", "10.1.0.8 -> 192.0.2.99:8080: allowed"},
		{"web", "svc/default/web:80", "1 of 2 allowed\n\n10.1.0.7 -> 10.1.0.7:8080: allowed"},
		{"web", "svc/default/web:80", "Accept: a pod reaches itself by its Service, whatever policies say"},
		{"db", "svc/default/web:81", "has no port 81/tcp; ask for one of its ports: "},
		{"db", "svc/web:htp", "has no port htp; ask for one of its ports: "},
		{"db", "svc/default/web:80/udp", "has no port 80/udp"},
		{"db", "svc/default/none:80", "has no ClusterIP"},
		{"db", "svc/default/nosuch:80", "no Service default/nosuch"},
		{"db", "[2001:db8::1]:80", "no addresses of one address family"},
		{"over", "web:80", "is over (Succeeded)"},
		{"db", "new:80", "has no address yet"},
		{"nosuch", "web:80", "no pod default/nosuch"},
	} {
		if got := ask(t, c, q.from, q.to); !strings.Contains(got, q.want) {
			t.Errorf("%s -> %s: there is no %q in:\n%s", q.from, q.to, q.want, got)
		}
	}
}

func TestRangesOfPods(t *testing.T) {
	for _, c := range []struct {
		name, objects string
		podCIDRs      []string
		want          string // pod's address, or an error
	}{
		{"made up", "{apiVersion: v1, kind: Pod, metadata: {name: a}}", nil, "10.244.0.0/16"},
		{"as told", "{apiVersion: v1, kind: Pod, metadata: {name: a}}", []string{"10.0.0.0/8"}, "10.0.0.0/8"},
		{"as noted", running + "\n---\n{apiVersion: v1, kind: Pod, metadata: {name: a}}", nil, "10.1.0.0/16"},
		{"no note", "{apiVersion: v1, kind: Node, metadata: {name: n9, annotations: {weft.net/node-network: x}}}", nil,
			"node n9"},
		{"no range", "{apiVersion: v1, kind: Node, metadata: {name: n9}}", []string{"10.0.0.1/8"}, "10.0.0.0/8"},
	} {
		t.Run(c.name, func(t *testing.T) {
			cluster, err := New(read(t, c.objects), c.podCIDRs)
			if err != nil {
				if !strings.Contains(err.Error(), c.want) {
					t.Error(err)
				}
				return
			}
			if a := cluster.pods["default/a"]; len(a.addresses) == 0 || !netip.MustParsePrefix(c.want).Contains(a.addresses[0]) {
				t.Errorf("%+v", a)
			}
		})
	}
}
