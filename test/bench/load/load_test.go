package load

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/weftnet/weft/models/contract"
)

// server counts what it is sent, by method and kind of object.
type server struct {
	mutex  sync.Mutex
	bodies map[string][]string
	refuse string // a path
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if s.refuse != "" && strings.HasSuffix(r.URL.Path, s.refuse) {
		http.Error(w, "no more room", http.StatusConflict)
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	words := strings.Split(r.URL.Path, "/")
	kind := words[len(words)-1]
	if r.Method != http.MethodPost {
		kind = words[len(words)-2]
	}
	s.bodies[r.Method+" "+kind] = append(s.bodies[r.Method+" "+kind], string(body))
}

func serve(t *testing.T) (*server, *API) {
	s := &server{bodies: map[string][]string{}}
	h := httptest.NewServer(s)
	t.Cleanup(h.Close)
	return s, &API{URL: h.URL, Client: h.Client(), Workers: 4}
}

func TestAll(t *testing.T) {
	s, api := serve(t)
	l := Default()
	for _, phase := range []func(context.Context, *API) (Phase, error){l.CreateNodes, l.CreateNamespaces, l.CreatePods,
		l.CreateServices, l.CreatePolicies, l.DeletePods, l.RecreatePods, l.ScaleServices} {
		p, err := phase(t.Context(), api)
		if err != nil {
			t.Fatal(err)
		}
		if p.Took() <= 0 || p.P50 <= 0 || p.P99 < p.P50 {
			t.Errorf("phase %+v", p)
		}
	}
	for request, want := range map[string]int{
		"POST nodes": 20, "PATCH pn00": 1, "POST namespaces": 20, "POST pods": 2500, "POST services": 1050,
		"POST endpointslices": 1050, "PATCH endpointslices": 200, "POST networkpolicies": 400, "DELETE pods": 500,
	} {
		if got := len(s.bodies[request]); got != want {
			t.Errorf("%d requests %q, want %d", got, request, want)
		}
	}
	perNode := map[string]int{}
	for _, body := range s.bodies["POST pods"][:l.Pods] {
		perNode[decode[corev1.Pod](t, body).Spec.NodeName]++
	}
	for node, n := range perNode {
		if n != 100 {
			t.Errorf("node %s has %d pods, want 100", node, n)
		}
	}
	backends := 0
	for _, body := range s.bodies["POST endpointslices"] {
		slice := decode[discoveryv1.EndpointSlice](t, body)
		backends += len(slice.Ports) * len(slice.Endpoints)
	}
	if backends != l.Backends() || backends != 20500 {
		t.Errorf("%d backends, Backends says %d, want 20500", backends, l.Backends())
	}
}

func TestReplaceEndpoint(t *testing.T) {
	s, api := serve(t)
	l := Default()
	if err := l.ReplaceEndpoint(t.Context(), api, 7, netip.MustParseAddr("10.244.0.250")); err != nil {
		t.Fatal(err)
	}
	before := l.endpoints(7, l.Endpoints)
	after := decode[discoveryv1.EndpointSlice](t, s.bodies["PATCH endpointslices"][0]).Endpoints
	if len(after) != len(before) || after[0].Addresses[0] != "10.244.0.250" {
		t.Errorf("%d endpoints, first %v", len(after), after[0])
	}
	if !reflect.DeepEqual(after[1:], before[1:]) {
		t.Errorf("the others are %v, were %v", after[1:], before[1:])
	}
}

// TestEndpointsDiffer: within a Service, and between Services.
func TestEndpointsDiffer(t *testing.T) {
	for _, nodes := range []int{3, 20} {
		l, sets := Load{Nodes: nodes}, map[string]int{}
		for i := range 5000 {
			var addrs []string
			for _, e := range l.endpoints(i, 10) {
				addrs = append(addrs, e.Addresses[0])
			}
			slices.Sort(addrs)
			if n := len(slices.Compact(addrs)); n != 10 {
				t.Fatalf("Service %d has %d different endpoints among %d nodes", i, n, nodes)
			}
			sets[strings.Join(addrs, " ")]++
		}
		if len(sets) < 4900 {
			t.Errorf("5000 Services have %d different sets of endpoints among %d nodes", len(sets), nodes)
		}
	}
}

func TestWindowsNodes(t *testing.T) {
	l := Load{Nodes: 3, Windows: 1, HostAddresses: true}
	var systems []string
	for i := range l.Nodes {
		node := l.Node(i)
		facts, ok, err := contract.Parse[contract.NodeFacts](node.Annotations, contract.NodeFactsAnnotation)
		if err != nil || !ok {
			t.Fatal(ok, err)
		}
		if facts.Gateway.Addresses[0].Addr() != facts.Addresses[0] || !facts.Gateway.HostAddresses {
			t.Errorf("%s has a gateway with the addresses %v, its own are %v", node.Name, facts.Gateway.Addresses,
				facts.Addresses)
		}
		systems = append(systems, facts.OS+" "+node.Labels[corev1.LabelOSStable])
	}
	if want := []string{" linux", " linux", "windows windows"}; !slices.Equal(systems, want) {
		t.Errorf("systems %q, want %q", systems, want)
	}
}

func decode[T any](t *testing.T, text string) (value T) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &value); err != nil {
		t.Fatal(err)
	}
	return value
}

func TestRefusal(t *testing.T) {
	s, api := serve(t)
	s.refuse = "/ns03/pods"
	_, err := Default().CreatePods(t.Context(), api)
	if err == nil || !strings.Contains(err.Error(), "no more room") || !strings.Contains(err.Error(), "pods, job") {
		t.Errorf("error %v names neither the job nor the server's reason", err)
	}
}
