package flows

import (
	"fmt"
	"strings"
	"testing"

	api "github.com/weftnet/weft/models/api/observe/v1alpha1"
)

// Ends of the flows of the tests.
var (
	shopWeb = api.FlowEnd{Kind: api.PodEnd, Namespace: "shop", Name: "web", Node: "n1", Address: "10.244.1.3", Port: 4000}
	shopDB  = api.FlowEnd{Kind: api.PodEnd, Namespace: "shop", Name: "db", Node: "n2", Address: "10.244.2.3", Port: 80}
	vault   = api.FlowEnd{Kind: api.PodEnd, Namespace: "bank", Name: "vault", Node: "n3", Address: "10.244.3.3", Port: 443}
	host    = api.FlowEnd{Kind: api.NodeEnd, Name: "n4", Address: "192.0.2.4", Port: 22}
	router  = api.FlowEnd{Kind: api.GatewayEnd, Name: "gw-n4", Address: "100.64.0.4", Port: 22}
	world   = api.FlowEnd{Kind: api.OutsideEnd, Address: "198.51.100.9", Port: 53}
)

func service(namespace, name, address string) *api.FlowService {
	return &api.FlowService{Namespace: namespace, Name: name, Address: address, Port: 80}
}

// What a user with the right in namespace shop sees of each flow.
func TestView(t *testing.T) {
	nodes := []string{"n1", "n3"}
	for name, c := range map[string]struct {
		flow api.Flow
		may  string // namespaces where the user has the right, too
		want string // "" if it is not of the namespace
	}{
		"within it": {
			api.Flow{Source: shopWeb, Destination: shopDB, Service: service("shop", "db", "10.96.0.1"), Nodes: nodes}, "",
			"Pod/shop/web/n1 10.244.1.3 4000 > Pod/shop/db/n2 10.244.2.3 80 by shop/db 10.96.0.1 80  []"},
		"between others": {api.Flow{Source: vault, Destination: host}, "", ""},
		"to another's pod": {api.Flow{Source: shopWeb, Destination: vault, Nodes: nodes}, "",
			"Pod/shop/web/n1 10.244.1.3 4000 > Address 10.244.3.3 443  []"},
		"to another's Service": {api.Flow{Source: shopWeb, Destination: vault, Service: service("bank", "safe", "10.96.0.2")},
			"", "Pod/shop/web/n1 10.244.1.3 4000 > Address 10.96.0.2 80  []"},
		"to another's Service, with the right there": {
			api.Flow{Source: shopWeb, Destination: vault, Service: service("bank", "safe", "10.96.0.2"), Nodes: nodes}, "bank",
			"Pod/shop/web/n1 10.244.1.3 4000 > Pod/bank/vault/n3 10.244.3.3 443 by bank/safe 10.96.0.2 80  []"},
		"to an own Service with another's endpoint": {
			api.Flow{Source: vault, Destination: vault, Service: service("shop", "db", "10.96.0.1")}, "",
			"Address 10.244.3.3 443 > Address 10.244.3.3 443 by shop/db 10.96.0.1 80  []"},
		"to an own endpoint of another's Service": {
			api.Flow{Source: shopWeb, Destination: shopDB, Service: service("bank", "safe", "10.96.0.2")}, "",
			"Pod/shop/web/n1 10.244.1.3 4000 > Pod/shop/db/n2 10.244.2.3 80  []"},
		"to a Service that is gone": {
			api.Flow{Source: shopWeb, Destination: vault, Service: service("", "", "10.96.0.3")}, "",
			"Pod/shop/web/n1 10.244.1.3 4000 > Address 10.96.0.3 80  []"},
		"of another's pod": {api.Flow{Source: vault, Destination: shopDB, SeenAs: "100.64.0.3:9"}, "",
			"Address 10.244.3.3 443 > Pod/shop/db/n2 10.244.2.3 80  []"},
		"of a node": {api.Flow{Source: host, Destination: shopDB}, "bank",
			"Address 192.0.2.4 22 > Pod/shop/db/n2 10.244.2.3 80  []"},
		"of a router": {api.Flow{Source: router, Destination: shopDB}, "bank",
			"Address 100.64.0.4 22 > Pod/shop/db/n2 10.244.2.3 80  []"},
		"to the outside": {api.Flow{Source: shopWeb, Destination: world, SeenAs: "192.0.2.1:7"}, "",
			"Pod/shop/web/n1 10.244.1.3 4000 > Outside 198.51.100.9 53 seen as 192.0.2.1:7  []"},
		"of a node, with the right in all": {api.Flow{Source: host, Destination: shopDB, Nodes: nodes}, "all",
			"Node/n4 192.0.2.4 22 > Pod/shop/db/n2 10.244.2.3 80  [n1 n3]"},
	} {
		t.Run(name, func(t *testing.T) {
			view := View{Namespace: "shop", May: func(namespace string) bool {
				return c.may == "all" || namespace != "" && namespace == c.may
			}}
			if !view.Has(&c.flow) {
				if c.want != "" {
					t.Error("it is not of the namespace")
				}
				return
			}
			if got := strings.TrimSpace(told([]api.Flow{view.Cut(c.flow)})); got != c.want {
				t.Errorf("got\n%s\nwant\n%s", got, c.want)
			}
		})
	}
}

func TestNamespacesThatFlowsTellOf(t *testing.T) {
	view := View{Namespace: "shop"}
	got := view.Namespaces([]api.Flow{{Source: shopWeb, Destination: vault}, {Source: host, Destination: shopDB,
		Service: service("mail", "smtp", "10.96.0.4")}, {Source: vault, Destination: world}})
	if want := "[ bank mail]"; strings.Join(got, ",") != ",bank,mail" {
		t.Errorf("got %v, want %s", got, want)
	}
}

func TestFilter(t *testing.T) {
	bought := api.Flow{Source: shopWeb, Destination: shopDB, Service: service("shop", "orders", "10.96.0.1"),
		Protocol: "TCP", State: "ESTABLISHED", Nodes: []string{"n1", "n2"}}
	asked := api.Flow{Source: shopWeb, Destination: world, Protocol: "UDP", Nodes: []string{"n1"}}
	login := api.Flow{Source: host, Destination: vault, Protocol: "TCP", State: "SYN_SENT", Nodes: []string{"n3"}}
	all := map[string]*api.Flow{"bought": &bought, "asked": &asked, "login": &login}
	for _, c := range []struct{ selector, namespace, want string }{
		{"", "", "asked bought login"},
		{"pod=web", "", "asked bought"}, {"pod=db", "shop", "bought"}, {"pod=vault", "shop", ""}, {"pod=outside", "", ""},
		{"service=orders", "shop", "bought"}, {"service=orders", "bank", ""}, {"service=db", "", ""},
		{"spec.nodeName=n2", "", "bought"}, {"spec.nodeName=n4", "", "login"}, {"spec.nodeName=n1", "", "asked bought"},
		{"source=web", "shop", "asked bought"}, {"source=shop/web", "", "asked bought"}, {"source=bank/web", "", ""},
		{"source=node/n4", "", "login"}, {"source=10.244.0.0/16", "", "asked bought"}, {"source=192.0.2.4", "", "login"},
		{"destination=outside", "", "asked"}, {"destination=svc/shop/orders", "", "bought"},
		{"destination=svc/orders", "bank", ""}, {"destination=10.96.0.1", "", "bought"},
		{"destination=bank/vault,protocol=tcp", "", "login"}, {"destination=198.51.100.0/24,protocol=tcp", "", ""},
		{"state=established", "", "bought"}, {"protocol=Udp", "", "asked"},
		{"protocol=47", "", ""}, {"state=Time_Wait", "", ""},
	} {
		filter, err := ParseFilter(c.selector, c.namespace)
		if err != nil {
			t.Errorf("%s: %v", c.selector, err)
			continue
		}
		var got []string
		for _, name := range []string{"asked", "bought", "login"} {
			if filter.Fits(all[name]) {
				got = append(got, name)
			}
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s of %q: got %v, want %s", c.selector, c.namespace, got, c.want)
		}
	}
}

// TestFlowsFromOwnNodes are what the host of a pod's node begins with the pod itself, and no others.
func TestFlowsFromOwnNodes(t *testing.T) {
	kubelet := api.FlowEnd{Kind: api.NodeEnd, Name: "n1", Address: "10.244.1.2", Port: 5}
	web := service("shop", "web", "10.96.0.1")
	for name, c := range map[string]struct {
		flow api.Flow
		want bool
	}{
		"a probe of kubelet":            {api.Flow{Source: kubelet, Destination: shopWeb}, true},
		"the host by a Service":         {api.Flow{Source: kubelet, Destination: shopWeb, Service: web}, false},
		"the host of another node":      {api.Flow{Source: host, Destination: shopWeb}, false},
		"a pod to its node":             {api.Flow{Source: shopWeb, Destination: kubelet}, false},
		"a pod of the node":             {api.Flow{Source: shopWeb, Destination: shopWeb}, false},
		"a node to a node of this name": {api.Flow{Source: kubelet, Destination: kubelet}, false},
	} {
		for selector, leaves := range map[string]bool{"": false, "fromOwnNode=false": c.want, "fromOwnNode=true": !c.want} {
			filter, err := ParseFilter(selector, "")
			if err != nil || filter.LeavesOut(&c.flow) != leaves || !filter.Fits(&c.flow) {
				t.Errorf("%s, %q: %v, left out: %v", name, selector, err, filter.LeavesOut(&c.flow))
			}
		}
	}
}

func TestFiltersThatAreRefused(t *testing.T) {
	for selector, want := range map[string]string{
		"metadata.name=x":       `metadata.name="x" is not served: give KEY=VALUE with one of the keys destination, fromOwnNode, pod`,
		"fromOwnNode=perhaps":   `fromOwnNode: "perhaps" is neither true nor false`,
		"fromOwnNode!=true":     `fromOwnNode!="true" is not served`,
		"pod!=web":              `pod!="web" is not served`,
		"pod=":                  `pod="" is not served`,
		"pod":                   "invalid selector",
		"source=svc/shop/db":    `source: "svc/shop/db" is a Service, which begins no connections; name a pod`,
		"destination=a/b/c":     `destination: "a/b/c" is neither a pod`,
		"destination=svc/":      "is neither a pod",
		"source=/":              "is neither a pod",
		"destination=svc/a/b/c": "is neither a pod",
		"destination=Web":       "is neither a pod",
		"source=node/":          "is neither a pod",
		"pod=shop/web":          `pod: "shop/web" is no name: give the name alone`,
		"service=svc/db":        `"svc/db" is no name`,
		"spec.nodeName=node/n1": `"node/n1" is no name`,
		"protocol=bogus": `protocol: "bogus" is no protocol: give one of TCP, UDP, SCTP, ICMP, ICMPV6, UDPLITE, DCCP, ` +
			"IGMP, or the number of another one",
		"protocol=256": `"256" is no protocol`,
		"state=bogus":  `state: "bogus" is no state of a TCP or SCTP connection: give one of LISTEN, `,
	} {
		if filter, err := ParseFilter(selector, ""); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, %v; want %s", selector, filter, err, want)
		}
	}
}

// Whatever a filter names can be looked for.
func TestObjectsOfAFilter(t *testing.T) {
	for selector, want := range map[string]string{
		"":                          "[]",
		"pod=web,service=db":        "[{Pod shop web} {Service shop db}]",
		"spec.nodeName=n1":          "[{Node  n1}]",
		"source=node/n1":            "[{Node  n1}]",
		"source=bank/vault":         "[{Pod bank vault}]",
		"destination=svc/db":        "[{Service shop db}]",
		"destination=outside":       "[]",
		"destination=10.0.0.0/8":    "[]",
		"protocol=tcp,state=CLOSED": "[]",
	} {
		filter, err := ParseFilter(selector, "shop")
		if got := fmt.Sprint(filter.Objects()); err != nil || got != want {
			t.Errorf("%s: got %s, %v; want %s", selector, got, err, want)
		}
	}
}
