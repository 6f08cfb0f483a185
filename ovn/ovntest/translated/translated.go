// Package translated gives tests a small cluster whose objects a controller has translated, and ovn-northd after it.
package translated

import (
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/network-policy-api/apis/v1alpha2"

	"github.com/weftnet/weft/models/api/v1alpha1"
	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/ovn"
	"github.com/weftnet/weft/ovn/northbound"
	"github.com/weftnet/weft/ovn/ovntest"
	"github.com/weftnet/weft/ovsdb"
	"github.com/weftnet/weft/ovsdb/ovsdbtest"
)

// Shop is a cluster of two nodes with policies and Services.
//
//go:embed cluster.yaml
var Shop string

// Outside is what is known outside of a cluster that has Shop, too.
//
//go:embed outside.yaml
var Outside string

// NodePorts is a cluster of nodes with several kinds of gateways, and NodePorts. [Gateways] gives the nodes these.
//
//go:embed nodeports.yaml
var NodePorts string

// Gateways has what the agents of some nodes say of their gateways be otherwise.
func Gateways(objects []runtime.Object, change map[string]func(*contract.NodeFacts)) {
	for _, o := range objects {
		if n, ok := o.(*corev1.Node); ok && change[n.Name] != nil {
			facts := ovntest.ReadFacts(n.Annotations[contract.NodeFactsAnnotation])
			change[n.Name](&facts)
			n.Annotations[contract.NodeFactsAnnotation] = contract.Format(facts)
		}
	}
}

// SharesAddresses gives a node a gateway with the host's own addresses.
func SharesAddresses(f *contract.NodeFacts) {
	f.Gateway.HostAddresses, f.Gateway.Addresses = true, nil
	for _, addr := range f.Addresses {
		f.Gateway.Addresses = append(f.Gateway.Addresses, netip.PrefixFrom(addr, addr.BitLen()*3/4))
	}
	f.Gateway.NextHops = []netip.Addr{netip.MustParseAddr("192.0.2.254"), netip.MustParseAddr("2001:db8:1::ffff")}
}

// Large is a cluster of nodes with pods, 20 of which are an app behind a Service that a policy isolates.
func Large(nodes, pods int) string {
	var text strings.Builder
	for i := range nodes {
		fmt.Fprintf(&text, "apiVersion: v1\nkind: Node\nmetadata: {name: n%d}\n---\n", i)
	}
	for i := range pods {
		fmt.Fprintf(&text, "apiVersion: v1\nkind: Pod\nmetadata: {namespace: shop, name: p%d, labels: {app: a%d}}\n"+
			"spec: {nodeName: n%d}\n---\n", i, i/20, i%nodes)
	}
	for app := range pods / 20 {
		address := netip.AddrFrom4([4]byte{10, 96, 1, byte(app)})
		fmt.Fprintf(&text, "apiVersion: v1\nkind: Service\nmetadata: {namespace: shop, name: a%[1]d}\nspec: {clusterIP: "+
			"%[2]s, clusterIPs: [%[2]s], ipFamilies: [IPv4], ports: [{port: 80, protocol: TCP}]}\n---\n"+
			"apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {namespace: shop, name: a%[1]d}\nspec: "+
			"{podSelector: {matchLabels: {app: a%[1]d}}, policyTypes: [Ingress], ingress: [{ports: [{port: 80}]}]}\n---\n",
			app, address)
	}
	return text.String() + "apiVersion: v1\nkind: Namespace\nmetadata: {name: shop}"
}

// Cluster are objects, and the databases that have what they ask for.
type Cluster struct {
	// Northbound and Southbound are endpoints of real servers.
	Northbound, Southbound string
	Objects                []runtime.Object
}

// Start makes a cluster. Nodes' chassis are chassis-1 and so on. All pods' ports are on the chassis of their nodes but
// those that are named.
func Start(t testing.TB, objects []runtime.Object, unbound ...string) *Cluster {
	t.Helper()
	d := ovsdbtest.Northbound(t)
	north, south := ovsdbtest.Server(t, d), ovsdbtest.Server(t, ovsdbtest.Southbound(t))
	ovsdbtest.Northd(t, north, south)
	c := &Cluster{Northbound: north.Endpoint, Southbound: south.Endpoint, Objects: objects}
	c.write(t, d)
	for i := range c.Nodes() {
		c.Sbctl(t, "chassis-add", chassis(i), "geneve", fmt.Sprintf("192.0.2.%d", 1+i))
	}
	c.sync(t)
	c.bind(t, unbound)
	c.sync(t)
	return c
}

func chassis(node int) string { return fmt.Sprintf("chassis-%d", 1+node) }

// write has a controller's rows in the Northbound.
func (c *Cluster) write(t testing.TB, d ovsdbtest.Database) {
	t.Helper()
	config := ovntest.Config()
	ovntest.Dual(&config)
	config.AllocateNodeCIDRs = true
	r, err := ovn.NewRehearsal(config)
	if err == nil {
		err = r.Update(c.Objects, nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, problem := range r.Problems() {
		if !problem.Lasting { // as what Windows nodes lack
			t.Fatalf("the controller says: %s", problem)
		}
	}
	engine := ovsdb.NewEngine(ovsdbtest.Connect(t, d, c.Northbound, northbound.Tables...))
	if err := engine.Replace(t.Context(), r.Rows()); err != nil {
		t.Fatal(err)
	}
}

// sync waits until ovn-northd has followed.
func (c *Cluster) sync(t testing.TB) {
	t.Helper()
	ovsdbtest.Run(t, "ovn-nbctl", "--timeout=300", "--db="+c.Northbound, "--wait=sb", "sync")
}

// Sbctl runs ovn-sbctl.
func (c *Cluster) Sbctl(t testing.TB, args ...string) string {
	t.Helper()
	return ovsdbtest.Run(t, "ovn-sbctl", append([]string{"--db=" + c.Southbound}, args...)...)
}

// bind does what ovn-controllers do.
func (c *Cluster) bind(t testing.TB, unbound []string) {
	t.Helper()
	of := map[string]string{}
	var commands []string
	bind := func(port, node string) {
		if !slices.Contains(unbound, port) {
			commands = append(commands, "--", "lsp-bind", port, of[node])
		}
	}
	for i, n := range c.Nodes() {
		of[n.Name] = chassis(i)
		bind(contract.ManagementPort(n.Name), n.Name)
	}
	for _, o := range c.Objects {
		if pod, ok := o.(*corev1.Pod); ok && !pod.Spec.HostNetwork {
			bind(contract.PodPort(pod.Namespace, pod.Name), pod.Spec.NodeName)
		}
	}
	c.Sbctl(t, commands[1:]...)
}

// Nodes are the Nodes with what the controller writes to them, as far as users' verbs read it.
func (c *Cluster) Nodes() (nodes []*corev1.Node) {
	for _, o := range c.Objects {
		n, ok := o.(*corev1.Node)
		if !ok {
			continue
		}
		n = n.DeepCopy()
		metav1.SetMetaDataAnnotation(&n.ObjectMeta, contract.NodeNetworkAnnotation, contract.Format(contract.NodeNetwork{
			ID: 1 + len(nodes), PodCIDRs: ranges(fmt.Sprintf("10.244.%d.0/24", len(nodes)), subnet6(len(nodes))),
			ClusterCIDRs: ranges("10.244.0.0/16", "fd00:10:244::/48"),
			ServiceCIDRs: ranges("10.96.0.0/16", "fd00:10:96::/112")}))
		nodes = append(nodes, n)
	}
	return nodes
}

// subnet6 is what ranges of pods give a node by its number.
func subnet6(node int) string {
	if node == 0 {
		return "fd00:10:244::/64"
	}
	return fmt.Sprintf("fd00:10:244:%x::/64", node)
}

func ranges(texts ...string) (list []netip.Prefix) {
	for _, text := range texts {
		list = append(list, netip.MustParsePrefix(text))
	}
	return list
}

// APIServer answers as one does that is asked for the pod or the Service of a name.
func (c *Cluster) APIServer(t testing.TB) rest.Interface {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		items := []any{}
		for _, o := range c.Objects {
			if meta, ok := o.(metav1.Object); ok && r.URL.Path == "/api/v1/namespaces/"+meta.GetNamespace()+"/"+resource(o) &&
				r.URL.Query().Get("fieldSelector") == "metadata.name="+meta.GetName() {
				items = append(items, o)
			}
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"items": items}) // the client tells what it lacks
	}))
	t.Cleanup(server.Close)
	client, err := kubernetes.NewForConfig(&rest.Config{Host: server.URL, QPS: -1})
	if err != nil {
		t.Fatal(err)
	}
	return client.CoreV1().RESTClient()
}

func resource(o runtime.Object) string {
	switch o.(type) {
	case *corev1.Pod:
		return "pods"
	case *corev1.Service:
		return "services"
	}
	return "none"
}

// Read reads objects. Nodes get facts by their numbers, and addresses of both families.
func Read(t testing.TB, text string) (objects []runtime.Object) {
	t.Helper()
	kinds := runtime.NewScheme()
	if err := errors.Join(scheme.AddToScheme(kinds), v1alpha2.Install(kinds), v1alpha1.AddToScheme(kinds)); err != nil {
		t.Fatal(err)
	}
	decoder := serializer.NewCodecFactory(kinds).UniversalDeserializer()
	nodes := 0
	for document := range strings.SplitSeq(text, "\n---\n") {
		o, _, err := decoder.Decode([]byte(document), nil, nil)
		if err != nil {
			t.Fatalf("%v: %s", err, document)
		}
		if n, ok := o.(*corev1.Node); ok {
			nodes++
			facts := ovntest.Facts(nodes, true)
			metav1.SetMetaDataAnnotation(&n.ObjectMeta, contract.NodeFactsAnnotation, facts)
			for _, addr := range ovntest.ReadFacts(facts).Addresses {
				n.Status.Addresses = append(n.Status.Addresses, corev1.NodeAddress{Type: corev1.NodeInternalIP,
					Address: addr.String()})
			}
		}
		objects = append(objects, o)
	}
	return objects
}
