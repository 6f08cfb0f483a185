package status

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	api "github.com/weftnet/weft/models/api/observe/v1alpha1"
	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/node/nodetest"
	"github.com/weftnet/weft/ovsdb"
	"github.com/weftnet/weft/ovsdb/ovsdbtest"
)

func TestMain(m *testing.M) { nodetest.Main(m) }

// TestWhoIsBehind: of real daemons that hang, the one that does is named.
func TestWhoIsBehind(t *testing.T) {
	o := nodetest.StartOVN(t)
	o.VS("set", "Open_vSwitch", ".", "external_ids:system-id=id-1", "external_ids:hostname=n1",
		"external_ids:ovn-remote="+o.Southbound(), "external_ids:ovn-encap-type=geneve",
		"external_ids:ovn-encap-ip=127.0.0.1", "external_ids:ovn-bridge-datapath-type="+nodetest.Datapath())
	o.NB("--timeout=60", "--wait=hv", "sync")
	sources := &Sources{Door: "c1",
		Northbound:   ovsdb.Config{Endpoints: o.Northbound(), Logger: ovsdbtest.Logger(t)},
		Southbound:   ovsdb.Config{Endpoints: o.Southbound(), Logger: ovsdbtest.Logger(t)},
		Kubernetes:   empty(t),
		Nodes:        func() []*corev1.Node { return []*corev1.Node{oldNode("n1", "id-1")} },
		Certificates: func() ([]api.Certificate, error) { return nil, errors.New("no such file") },
	}
	says := func(what string, want ...string) (s api.NetworkStatus) {
		t.Helper()
		nodetest.Eventually(t, nodetest.Patience, func() error {
			s = sources.Read(t.Context()).Items[0]
			var got []string
			for _, f := range s.Findings {
				got = append(got, f.Reason+" "+f.Object)
			}
			all := append(want, "Unread certificates of the door")
			if strings.Join(got, ", ") != strings.Join(all, ", ") {
				return fmt.Errorf("%s: %v, want %v", what, got, all)
			}
			return nil
		})
		return s
	}
	// A sync does not wait for a chassis that OVN does not know yet.
	nodetest.Eventually(t, nodetest.Patience, func() error {
		if c := sources.Read(t.Context()).Items[0].Configuration; c.Chassis != 1 {
			return fmt.Errorf("the chassis has %d", c.Chassis)
		}
		return nil
	})
	s := says("all is well", "NoLeader Lease kube-system/weft-controller")
	if s.NotJudged != notJudged {
		t.Errorf("it does not say what it has not looked at, and says %q", s.NotJudged)
	}
	if c := s.Configuration; c.OVN == "" || c.Northbound != 1 || c.Southbound != 1 || c.Chassis != 1 ||
		time.Since(c.Translated.Time) > time.Hour || s.Nodes[0].Configuration != 1 {
		t.Errorf("%+v, and the chassis has %d", c, s.Nodes[0].Configuration)
	}

	o.Pause(nodetest.OVNController)
	o.NB("--timeout=60", "--wait=sb", "sync")
	s = sources.Read(t.Context()).Items[0]
	if n := s.Nodes[0]; n.Behind != 1 || n.Configuration != 1 {
		t.Errorf("ovn-controller hangs, and the chassis has %d, %d behind", n.Configuration, n.Behind)
	}
	s.Time = metav1.NewMicroTime(s.Time.Add(catchingUp + time.Second))
	late := false
	for _, f := range Judge(&s) {
		late = late || f.Reason == "ChassisBehind" && f.Object == "Node n1"
	}
	if !late {
		t.Errorf("half a minute later: %+v", Judge(&s))
	}
	o.Resume(nodetest.OVNController)

	o.Pause(nodetest.Northd)
	o.NB("set", "NB_Global", ".", "nb_cfg=3")
	says("ovn-northd hangs", "NorthdBehind ovn-northd", "NoLeader Lease kube-system/weft-controller")
	o.Resume(nodetest.Northd)
	says("ovn-northd goes on", "NoLeader Lease kube-system/weft-controller")

	o.Kill(nodetest.SBServer)
	says("the Southbound is lost", "DatabaseSilent database OVN_Southbound", "NoLeader Lease kube-system/weft-controller")
}

// oldNode is a Node that has all it needs.
func oldNode(name, chassis string) *corev1.Node {
	o := nodeObject(name, contract.NodeFacts{Chassis: chassis}, "10.244.0.0/24")
	o.CreationTimestamp = metav1.NewTime(time.Now().Add(-time.Hour))
	return o
}

// empty is an API server without objects.
func empty(t *testing.T) rest.Interface {
	t.Helper()
	return serving(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"metadata": {}, "items": []}`) })
}

func serving(t *testing.T, answer http.HandlerFunc) rest.Interface {
	t.Helper()
	server := httptest.NewServer(answer)
	t.Cleanup(server.Close)
	client, err := kubernetes.NewForConfig(&rest.Config{Host: server.URL, QPS: -1})
	if err != nil {
		t.Fatal(err)
	}
	return client.CoreV1().RESTClient()
}

// TestChassisHostsAreKnownByTheirIdentity: a node's Lease names the host, and a host's the process.
func TestChassisHostsAreKnownByTheirIdentity(t *testing.T) {
	c := &cluster{serving(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		items := ""
		if r.URL.Query().Get("labelSelector") == contract.ChassisLeaseLabel {
			items = `{"metadata": {"labels": {"weft.net/chassis": "host"}}, "spec": {"holderIdentity": "` +
				contract.ChassisInstance("rack_1", "k3v") + `"}}, {"metadata": {"labels": {"weft.net/chassis": "node"},
				"annotations": {"weft.net/node": "w1"}}, "spec": {"holderIdentity": "rack_1"}}`
		}
		fmt.Fprintf(w, `{"metadata": {}, "items": [%s]}`, items)
	})}
	leases, err := c.leases(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if host, there := leases.hosts[leases.nodes["w1"]]; !there || host.lease.Holder != "rack_1" {
		t.Errorf("the hosts are %+v, and the nodes %v", leases.hosts, leases.nodes)
	}
}

// TestPages: a list is read whole, or as far as it may be; what is forbidden is an error, and what the API server does
// not know is nothing.
func TestPages(t *testing.T) {
	asked := 0
	c := &cluster{serving(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		q := r.URL.Query()
		switch r.URL.Path {
		case "/forbidden":
			w.WriteHeader(http.StatusForbidden)
		case "/unknown":
			w.WriteHeader(http.StatusNotFound)
		default:
			asked++
			if q.Get("limit") != fmt.Sprint(page) || q.Get("fieldSelector") != "a=b" || r.Header.Get("Accept") == "" {
				t.Errorf("asked for %s, %v", r.URL, r.Header)
			}
			from := cmp.Or(q.Get("continue"), "0")
			next := map[string]string{"0": "1", "1": "2", "2": ""}[from]
			fmt.Fprintf(w, `{"metadata": {"continue": %q}, "items": [%s"x"]}`, next, strings.Repeat(`"x",`, page-1))
		}
	})}
	for _, q := range []struct {
		query
		items     int
		truncated bool
	}{
		{query{path: "/all", fields: "a=b"}, 3 * page, false},
		{query{path: "/some", fields: "a=b", most: 2 * page}, 2 * page, true},
		{query{path: "/exact", fields: "a=b", most: 3 * page}, 3 * page, false},
	} {
		items, truncated, err := list[string](t.Context(), c, q.query)
		if err != nil || len(items) != q.items || truncated != q.truncated {
			t.Errorf("%s: %d items, truncated: %t, %v", q.path, len(items), truncated, err)
		}
	}
	if asked != 8 {
		t.Errorf("%d questions", asked)
	}
	if _, err := optional[string](t.Context(), c, query{path: "/unknown"}); err != nil {
		t.Errorf("a kind that is not known: %v", err)
	}
	if _, err := optional[string](t.Context(), c, query{path: "/forbidden"}); err == nil || !strings.Contains(err.Error(),
		"list /forbidden") {
		t.Errorf("a kind that is forbidden: %v", err)
	}
}
