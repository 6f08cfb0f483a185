package topology

import (
	"encoding/json"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/models/nb"
	"github.com/weftnet/weft/ovn/northbound"
)

// network has two nodes: l1 with a gateway of its own and two pods, and n2 that has nothing yet.
func network() *reading {
	node := func(name, chassis string) *corev1.Node {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name,
			Labels:      map[string]string{corev1.LabelOSStable: "linux"},
			Annotations: map[string]string{contract.NodeFactsAnnotation: contract.Format(contract.NodeFacts{Chassis: chassis})}}}
	}
	up, down := true, false
	return &reading{at: time.UnixMilli(0), nodes: []*corev1.Node{node("n2", "id-2"), node("l1", "id-1")}, balancers: 4,
		switches: map[string]*nb.LogicalSwitch{
			northbound.SwitchID("l1"): {Name: "l1", Ports: []string{"stor", "host", "db", "web", "gone"},
				LoadBalancer: []string{"x"}, LoadBalancerGroup: []string{"all"}},
			"join": {Name: "join", Ports: []string{"jtor", "jtor-gw"}},
			"ext":  {Name: "ext-l1", Ports: []string{"etor", "localnet"}},
		},
		ports: map[string]*nb.LogicalSwitchPort{
			"stor":     {Name: "stor-l1", Type: "router", Options: map[string]string{"router-port": "rtos-l1"}},
			"host":     {Name: "mgmt-l1", Addresses: []string{"0a:58:0a:f4:00:02 10.244.0.2"}, Up: &up},
			"db":       {Name: "shop_db", Addresses: []string{"0a:58:0a:f4:00:04 10.244.0.4 fd00::4"}, Up: &down},
			"web":      {Name: "bank_web", Addresses: []string{"0a:58:0a:f4:00:03 10.244.0.3"}, Up: &up},
			"jtor":     {Name: "jtor", Type: "router", Options: map[string]string{"router-port": "rtoj"}},
			"jtor-gw":  {Name: "jtor-gw-l1", Type: "router", Options: map[string]string{"router-port": "rtoj-gw-l1"}},
			"etor":     {Name: "etor-l1", Type: "router", Options: map[string]string{"router-port": "rtoe-l1"}},
			"localnet": {Name: "localnet-l1", Type: "localnet", Options: map[string]string{"network_name": "external"}},
		},
		routers: map[string]*nb.LogicalRouter{
			northbound.ClusterRouterID: {Name: "cluster", Ports: []string{"rtoj", "rtos"}},
			northbound.GatewayID("l1"): {Name: "gw-l1", Ports: []string{"rtoj-gw", "rtoe"}, LoadBalancer: []string{"x"},
				Options: map[string]string{"chassis": "id-1"}},
		},
		inward: map[string]*nb.LogicalRouterPort{
			"rtoj":    {Name: "rtoj", MAC: "0a:58:64:40:00:01", Networks: []string{"100.64.0.1/16"}},
			"rtos":    {Name: "rtos-l1", MAC: "0a:58:0a:f4:00:01", Networks: []string{"10.244.0.1/24"}},
			"rtoj-gw": {Name: "rtoj-gw-l1", MAC: "0a:58:64:40:00:02", Networks: []string{"100.64.0.2/16"}},
			"rtoe":    {Name: "rtoe-l1", MAC: "52:54:00:00:00:01", Networks: []string{"192.0.2.11/24"}},
		},
		groups: map[string]int{"all": 3}, chassis: map[string]struct{}{"id-1": {}},
		claimed: map[string]string{"bank_web": "id-1", "mgmt-l1": "id-1"},
	}
}

const whole = `items:
- nodes:
  - name: l1
    system: linux
    chassis: id-1
    switch: l1
    router: {name: rtos-l1, mac: "0a:58:0a:f4:00:01", networks: [10.244.0.1/24], switch: l1}
    host: {name: mgmt-l1, mac: "0a:58:0a:f4:00:02", addresses: [10.244.0.2], chassis: id-1, up: true}
    loadBalancers: 4
    gateway:
      name: gw-l1
      chassis: id-1
      loadBalancers: 1
      ports:
      - {name: rtoe-l1, mac: "52:54:00:00:00:01", networks: [192.0.2.11/24], switch: ext-l1, network: external}
      - {name: rtoj-gw-l1, mac: "0a:58:64:40:00:02", networks: [100.64.0.2/16], switch: join}
    pods:
    - {namespace: bank, name: web, mac: "0a:58:0a:f4:00:03", addresses: [10.244.0.3], chassis: id-1, up: true}
    - {namespace: shop, name: db, mac: "0a:58:0a:f4:00:04", addresses: [10.244.0.4, "fd00::4"], up: false}
  - {name: n2, system: linux}
  routers:
  - name: cluster
    ports:
    - {name: rtoj, mac: "0a:58:64:40:00:01", networks: [100.64.0.1/16], switch: join}
  loadBalancers: 4
`

// What each question gets: a namespace's pods alone, and nothing else of the cluster.
const (
	ofShop = `items: [{nodes: [{name: l1, pods: [{namespace: shop, name: db, mac: "0a:58:0a:f4:00:04",
  addresses: [10.244.0.4, "fd00::4"], up: false}]}]}]`
	ofNobody = `items: [{nodes: []}]`
)

func TestEachQuestionGetsItsPart(t *testing.T) {
	for _, c := range []struct{ name, namespace, node, want string }{
		{"of all", "", "", whole},
		{"of a namespace", "shop", "", ofShop},
		{"of a namespace on a node", "shop", "l1", ofShop},
		{"of a namespace on another node", "shop", "n2", ofNobody},
		{"of a namespace without pods", "sho", "", ofNobody},
		{"of a node that is none", "shop", "n3", ofNobody},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := json.Marshal(Of(network().list(), c.namespace, c.node))
			if err != nil {
				t.Fatal(err)
			}
			if plain(t, got) != plain(t, []byte(c.want)) {
				t.Errorf("got\n%s\nwant\n%s", plain(t, got), plain(t, []byte(c.want)))
			}
		})
	}
}

// TestANodesPart has the routers that it shares with others, too.
func TestANodesPart(t *testing.T) {
	list := Of(network().list(), "", "l1")
	if l1 := list.Items[0]; len(l1.Nodes) != 1 || l1.Nodes[0].Gateway == nil || len(l1.Routers) != 1 {
		t.Errorf("%+v", l1)
	}
	if all := network().list(); len(Of(all, "shop", "").Items[0].Nodes) != 1 || len(all.Items[0].Nodes) != 2 ||
		len(all.Items[0].Nodes[0].Pods) != 2 {
		t.Error("a question has changed the answer that others share")
	}
}

// plain is a text of JSON or YAML in one form, without what all answers have.
func plain(t *testing.T, text []byte) string {
	t.Helper()
	var list struct{ Items []map[string]any }
	if err := yaml.Unmarshal(text, &list); err != nil {
		t.Fatal(err)
	}
	for _, item := range list.Items {
		for _, key := range []string{"kind", "apiVersion", "metadata", "time"} {
			delete(item, key)
		}
	}
	out, err := yaml.Marshal(list.Items)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}
