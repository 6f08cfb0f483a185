package trace

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/ovn"
	"github.com/weftnet/weft/ovn/northbound"
	"github.com/weftnet/weft/ovn/ovntest"
	"github.com/weftnet/weft/ovn/ovntrace"
	"github.com/weftnet/weft/ovsdb"
	"github.com/weftnet/weft/ovsdb/ovsdbtest"
)

// cluster are the objects of testdata/cluster.yaml as a controller translates them, and ovn-northd after it.
type cluster struct {
	*Tracer
	t testing.TB
	// southbound is the endpoint of the database's server, which is real, and not of the read-only socket beside it.
	southbound string
	objects    []runtime.Object
}

// newCluster makes the cluster. All pods' ports but those that are named are on the chassis of their nodes.
func newCluster(t testing.TB, objects []runtime.Object, unbound ...string) *cluster {
	t.Helper()
	d := ovsdbtest.Northbound(t)
	north, south := ovsdbtest.Server(t, d), ovsdbtest.Server(t, ovsdbtest.Southbound(t))
	ovsdbtest.Northd(t, north, south)
	c := &cluster{t: t, southbound: south.Endpoint, objects: objects}
	c.write(d, north)
	c.bind(unbound)
	c.sync(north)
	c.Tracer = &Tracer{Program: ovntrace.New(ovsdbtest.Program(t, "ovn-trace"), south.Endpoint, 1),
		Northbound: ovsdb.Config{Endpoints: north.Endpoint}, Southbound: ovsdb.Config{Endpoints: south.Endpoint},
		Kubernetes: c.apiServer(), Nodes: c.annotated}
	return c
}

// write has a controller's rows in the Northbound, and chassis in the Southbound.
func (c *cluster) write(d ovsdbtest.Database, north *ovsdbtest.Process) {
	c.t.Helper()
	config := ovntest.Config()
	ovntest.Dual(&config)
	config.AllocateNodeCIDRs = true
	r, err := ovn.NewRehearsal(config)
	if err == nil {
		err = r.Update(c.objects, nil)
	}
	if err != nil {
		c.t.Fatal(err)
	}
	for _, problem := range r.Problems() {
		c.t.Logf("the controller says: %s", problem)
	}
	engine := ovsdb.NewEngine(ovsdbtest.Connect(c.t, d, north.Endpoint, northbound.Tables...))
	if err := engine.Replace(c.t.Context(), r.Rows()); err != nil {
		c.t.Fatal(err)
	}
	for i := range c.annotated() {
		c.sbctl("chassis-add", fmt.Sprintf("chassis-%d", 1+i), "geneve", fmt.Sprintf("192.0.2.%d", 1+i))
	}
	c.sync(north)
}

func (c *cluster) sync(north *ovsdbtest.Process) {
	c.t.Helper()
	ovsdbtest.Run(c.t, "ovn-nbctl", "--timeout=300", "--db="+north.Endpoint, "--wait=sb", "sync")
}

func (c *cluster) sbctl(args ...string) string {
	c.t.Helper()
	return ovsdbtest.Run(c.t, "ovn-sbctl", append([]string{"--db=" + c.southbound}, args...)...)
}

// bind does what ovn-controllers do.
func (c *cluster) bind(unbound []string) {
	c.t.Helper()
	left := map[string]bool{}
	for _, port := range unbound {
		left[port] = true
	}
	chassis := map[string]string{}
	for i, n := range c.annotated() {
		chassis[n.Name] = fmt.Sprintf("chassis-%d", 1+i)
		c.sbctl("lsp-bind", contract.ManagementPort(n.Name), chassis[n.Name])
	}
	for _, o := range c.objects {
		if pod, ok := o.(*corev1.Pod); ok && !pod.Spec.HostNetwork && !left[contract.PodPort(pod.Namespace, pod.Name)] {
			c.sbctl("lsp-bind", contract.PodPort(pod.Namespace, pod.Name), chassis[pod.Spec.NodeName])
		}
	}
}

// annotated are the Nodes with what the controller writes to them, as far as it is read.
func (c *cluster) annotated() (nodes []*corev1.Node) {
	for _, o := range c.objects {
		n, ok := o.(*corev1.Node)
		if !ok {
			continue
		}
		n = n.DeepCopy()
		metav1.SetMetaDataAnnotation(&n.ObjectMeta, contract.NodeNetworkAnnotation, contract.Format(contract.NodeNetwork{
			ID: 1 + len(nodes), ClusterCIDRs: ranges("10.244.0.0/16", "fd00:10:244::/48"),
			ServiceCIDRs: ranges("10.96.0.0/16", "fd00:10:96::/112")}))
		nodes = append(nodes, n)
	}
	return nodes
}

func ranges(texts ...string) (list []netip.Prefix) {
	for _, text := range texts {
		list = append(list, netip.MustParsePrefix(text))
	}
	return list
}

// apiServer answers as one does that is asked for the pod or the Service of a name.
func (c *cluster) apiServer() rest.Interface {
	c.t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var items []any
		for _, o := range c.objects {
			var resource string
			switch o.(type) {
			case *corev1.Pod:
				resource = "pods"
			case *corev1.Service:
				resource = "services"
			default:
				continue
			}
			meta := o.(metav1.Object)
			if r.URL.Path == "/api/v1/namespaces/"+meta.GetNamespace()+"/"+resource &&
				r.URL.Query().Get("fieldSelector") == "metadata.name="+meta.GetName() {
				items = append(items, o)
			}
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"items": items}) // the client tells what it lacks
	}))
	c.t.Cleanup(server.Close)
	client, err := kubernetes.NewForConfig(&rest.Config{Host: server.URL, QPS: -1})
	if err != nil {
		c.t.Fatal(err)
	}
	return client.CoreV1().RESTClient()
}

// readObjects are those of a file, in which nodes have facts by their numbers.
func readObjects(t testing.TB, file string) (objects []runtime.Object) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	nodes := 0
	for document := range strings.SplitSeq(string(text), "\n---\n") {
		o, _, err := scheme.Codecs.UniversalDeserializer().Decode([]byte(document), nil, nil)
		if err != nil {
			t.Fatalf("%v: %s", err, document)
		}
		if n, ok := o.(*corev1.Node); ok {
			nodes++
			metav1.SetMetaDataAnnotation(&n.ObjectMeta, contract.NodeFactsAnnotation, ovntest.Facts(nodes, true))
		}
		objects = append(objects, o)
	}
	return objects
}
