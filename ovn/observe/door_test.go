package observe

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"

	api "github.com/weftnet/weft/models/api/observe/v1alpha1"
)

func must(t *testing.T, address string) netip.AddrPort {
	t.Helper()
	parsed, err := netip.ParseAddrPort(address)
	if err != nil {
		t.Fatal(err)
	}
	return parsed
}

func TestPathsOfLists(t *testing.T) {
	const prefix = "/apis/observe.weft.net/v1alpha1/"
	for path, want := range map[string]string{
		prefix + "policyhits": "all", prefix + "namespaces/shop/policyhits": "shop",
		prefix + "namespaces//policyhits": "none", prefix + "namespaces/../policyhits": "none",
		prefix + "namespaces/shop/../policyhits": "none",
		prefix + "namespaces/a.b/policyhits":     "none", prefix + "namespaces/shop/policyhits/": "none",
		prefix + "policyhits/":                   "none",
		prefix + "namespaces/shop/policyhits/db": "none", prefix + "namespaces/Shop/policyhits": "none",
		"/apis/observe.weft.net/v1/policyhits": "none", "": "none",
	} {
		namespace, ok := listPath(path, api.PolicyHitsResource)
		got := namespace
		switch {
		case !ok:
			got = "none"
		case namespace == "":
			got = "all"
		}
		if got != want {
			t.Errorf("%q is of %s, want %s", path, got, want)
		}
	}
}

// While discovery of an aggregated API fails, namespaces are not deleted: whoever has taken all places leaves it alone.
func TestDiscoveryNeedsNoPlace(t *testing.T) {
	h := &handler{limits: &limits{all: maxRequests}, answered: func(int) {}, who: func(*http.Request) (user.Info, error) {
		return &user.DefaultInfo{Name: "carol"}, nil
	}}
	for path, want := range map[string]int{
		"/apis/observe.weft.net": http.StatusOK, "/apis/observe.weft.net/v1alpha1": http.StatusOK,
		"/apis/observe.weft.net/v1alpha1/policyhits": http.StatusTooManyRequests,
	} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		if w.Code != want {
			t.Errorf("%s: %d, want %d: %s", path, w.Code, want, w.Body)
		}
	}
}

// TestKubectlPrintsFindings: a row for each, or one that there is none.
func TestKubectlPrintsFindings(t *testing.T) {
	list := &api.NetworkStatusList{Items: []api.NetworkStatus{{Result: api.OK, NotJudged: "Not looked at: x."}}}
	asks := "nora"
	h := &handler{limits: &limits{}, answered: func(int) {}, who: func(*http.Request) (user.Info, error) {
		return &user.DefaultInfo{Name: asks}, nil
	}, may: func(_ context.Context, who user.Info, to right) (bool, error) {
		return who.GetName() == "nora" && to == right{verb: "list", resource: api.NetworkStatusResource}, nil
	}, status: func(context.Context) (*api.NetworkStatusList, error) { return list, nil }}
	rows := func() string {
		t.Helper()
		r := httptest.NewRequest(http.MethodGet, statusPath, nil)
		r.Header.Set("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io,application/json")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		var table metav1.Table
		if err := json.Unmarshal(w.Body.Bytes(), &table); err != nil || w.Code != http.StatusOK {
			t.Fatalf("%d, %v: %s", w.Code, err, w.Body)
		}
		var lines []string
		for _, row := range table.Rows {
			lines = append(lines, fmt.Sprint(row.Cells...))
		}
		return strings.Join(lines, "\n")
	}
	if got := rows(); got != "okallall is wellNot looked at: x." {
		t.Errorf("got %q", got)
	}
	list.Items[0].Findings = []api.Finding{{Severity: api.Failed, Object: "Node l1", Text: "it is gone", Remedy: "look",
		More: 2}, {Severity: api.Warning, Object: "Node l2", Text: "it is slow", Remedy: "wait"}}
	if got := rows(); got != "failedNode l1it is gone (and 2 more)look\nwarningNode l2it is slowwait" {
		t.Errorf("got %q", got)
	}
	asks = "mallory" // whom the API server has let in by mistake
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, statusPath, nil))
	if text := w.Body.String(); w.Code != http.StatusForbidden || !strings.Contains(text, api.NetworkStatusRole) ||
		strings.Contains(text, "l1") {
		t.Errorf("mallory is told %d: %s", w.Code, text)
	}
}

// TestKubectlPrintsEveryList: each has a table of its own, and warnings of what is missing in it.
func TestKubectlPrintsEveryList(t *testing.T) {
	unread := []api.Unread{{Source: "OVN_Northbound", Reason: "away"}}
	const notRead = `299 - "not read: OVN_Northbound: away"`
	web := api.FlowEnd{Kind: api.PodEnd, Namespace: "shop", Name: "web", Address: "10.0.0.1", Port: 4000}
	h := &handler{limits: &limits{}, answered: func(int) {},
		who: func(*http.Request) (user.Info, error) { return &user.DefaultInfo{Name: "nora"}, nil },
		may: func(context.Context, user.Info, right) (bool, error) { return true, nil },
		hits: func(context.Context) (*api.PolicyHitsList, error) {
			return &api.PolicyHitsList{NodesAsked: 3, NodesUnanswered: 1, Items: []api.PolicyHits{
				{Policy: "NetworkPolicy shop/db", Rule: "spec.ingress[0]", Action: "Accept", Packets: 3, Bytes: 9}}}, nil
		},
		flows: func(context.Context) (*api.NetworkFlowsList, error) {
			return &api.NetworkFlowsList{Items: []api.NetworkFlows{{NodesAsked: 2, NodesUnanswered: 1, Omitted: 4,
				Unread: unread, Flows: []api.Flow{
					{Source: web, Destination: api.FlowEnd{Kind: api.OutsideEnd, Address: "2001:db8::7", Port: 53},
						Protocol: "UDP", Nodes: []string{"l1", "l2"}},
					{Source: api.FlowEnd{Kind: api.NodeEnd, Name: "l1", Address: "10.0.0.9"}, Destination: web, Protocol: "TCP",
						State: "SYN_SENT", Service: &api.FlowService{Namespace: "shop", Name: "front", Port: 80}}}}}}, nil
		},
		versions: func(context.Context) (*api.NetworkVersionList, error) {
			return &api.NetworkVersionList{Items: []api.NetworkVersion{{OVN: "25.03", Unread: unread,
				Doors: []api.PartVersion{{Name: "c1", Version: "1.2.0"}}, ChassisHosts: []api.PartVersion{{Name: "c2"}},
				Nodes: []api.NodeVersion{{Name: "l1", System: "linux", Agent: "1.1.0", OpenVSwitch: "3.5.0"}, {Name: "new"}}}}}, nil
		},
		topology: func(context.Context) (*api.NetworkTopologyList, error) {
			return &api.NetworkTopologyList{Items: []api.NetworkTopology{{Unread: unread,
				Routers: []api.RouterTopology{{Name: "cluster", Ports: []api.RouterPortTopology{
					{Name: "rtoj", MAC: "0a:58", Networks: []string{"100.64.0.1/16", "fd98::1/64"}, Switch: "join"}}}},
				Nodes: []api.NodeTopology{{Name: "l1", Host: &api.PortTopology{Name: "mgmt-l1", Up: true},
					Gateway: &api.RouterTopology{Name: "gw-l1", Chassis: "l1", Ports: []api.RouterPortTopology{{Name: "p"}}},
					Pods: []api.PortTopology{{Namespace: "shop", Name: "web", Addresses: []string{"10.0.0.1"},
						Chassis: "l1"}}}}}}}, nil
		},
	}
	for resource, want := range map[string]struct{ columns, rows, warnings string }{
		api.PolicyHitsResource: {"Policy|Rule|Action|Packets|Bytes|Nodes",
			"NetworkPolicy shop/db|spec.ingress[0]|Accept|3|9|0",
			`299 - "1 of 3 nodes have not answered, and what they know is missing"`},
		api.NetworkFlowsResource: {"From|To|Service|Protocol|State|Seen As|Nodes",
			"shop/web:4000|[2001:db8::7]:53 (outside)|-|UDP|-|-|l1,l2\n" +
				"node/l1|shop/web:4000|shop/front:80|TCP|SYN_SENT|-|-",
			`299 - "1 of 2 nodes have not answered, and what they know is missing"` + "\n" + notRead + "\n" +
				`299 - "4 more are left out: choose fewer, by a namespace or a field selector"`},
		api.NetworkVersionResource: {"Part|Name|Weft|Open vSwitch|OVN",
			"door|c1|1.2.0|-|-\ncontroller|-|-|-|-\nchassis host|c2|-|-|-\nlinux node|l1|1.1.0|3.5.0|-\n" +
				"node|new|-|-|-\novn-northd|-|-|-|25.03", notRead},
		api.NetworkTopologyResource: {"Node|Kind|Name|Addresses|Up|MAC|Chassis",
			"-|router|cluster to join|100.64.0.1/16,fd98::1/64|-|0a:58|-\nl1|host|mgmt-l1|-|yes|-|-\n" +
				"l1|gateway|gw-l1 to p|-|-|-|l1\nl1|pod|shop/web|10.0.0.1|no|-|l1", notRead},
	} {
		r := httptest.NewRequest(http.MethodGet, "/apis/"+api.GroupVersion+"/"+resource, nil)
		r.Header.Set("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io,application/json")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		var table metav1.Table
		if err := json.Unmarshal(w.Body.Bytes(), &table); err != nil || w.Code != http.StatusOK || table.Kind != "Table" {
			t.Fatalf("%s: %d, %v: %s", resource, w.Code, err, w.Body)
		}
		var columns, rows []string
		for _, c := range table.ColumnDefinitions {
			columns = append(columns, c.Name)
		}
		for _, row := range table.Rows {
			var cells []string
			for _, cell := range row.Cells {
				cells = append(cells, fmt.Sprint(cell))
			}
			rows = append(rows, strings.Join(cells, "|"))
		}
		if got := strings.Join(columns, "|"); got != want.columns {
			t.Errorf("%s has the columns %s", resource, got)
		}
		if got := strings.Join(rows, "\n"); got != want.rows {
			t.Errorf("%s has the rows\n%s", resource, got)
		}
		if got := strings.Join(w.Header().Values("Warning"), "\n"); got != want.warnings {
			t.Errorf("%s warns:\n%s", resource, got)
		}
	}
}

// TestFrontProxyThatEverybodyIs: a cluster in which others could pass for the API server has no door.
func TestFrontProxyThatEverybodyIs(t *testing.T) {
	for _, c := range []struct {
		name, proxy, clients, names, want string
	}{
		{"as kubeadm sets it", "P", "C", `["front-proxy-client"]`, ""},
		{"of an authority of its own, of any name", "P", "C", "[]", ""},
		{"of the clients' authority, with a name", "C", "C", `["front-proxy-client"]`, ""},
		{"of the clients' authority, of any name", "C", "B\nC\n", "[]", "every client"},
		{"of the clients' authority, without the key", "C\n", "C", "", "every client"},
		{"none", "", "C", "[]", "no front proxy"},
	} {
		err := fitFrontProxy(&corev1.ConfigMap{Data: map[string]string{frontProxyCA: c.proxy, clientCA: c.clients,
			allowedNames: c.names}})
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}

// TestManyAskAtOnce: databases and nodes are asked once.
func TestManyAskAtOnce(t *testing.T) {
	var mu sync.Mutex
	asked, now, answer := 0, time.Now(), make(chan error)
	const fresh = 2 * time.Second
	s := &snapshots[int]{fresh: fresh, now: func() time.Time { mu.Lock(); defer mu.Unlock(); return now },
		read: func(context.Context) (int, error) {
			mu.Lock()
			asked++
			mu.Unlock()
			return 0, <-answer
		}}
	var group sync.WaitGroup
	results := make(chan error, 100)
	for range 100 {
		group.Go(func() { _, err := s.get(t.Context()); results <- err })
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.get(gone); !errors.Is(err, context.Canceled) {
		t.Errorf("who has left is told %v", err)
	}
	bad := errors.New("no database")
	for told := false; !told; { // the first reading may be over before anybody waits for it
		select {
		case answer <- bad:
		case err := <-results:
			if told = true; !errors.Is(err, bad) {
				t.Errorf("told %v", err)
			}
		}
	}
	close(answer) // every further reading is good
	group.Wait()
	for i, c := range []struct {
		later time.Duration
		more  int
	}{{0, 0}, {fresh - 1, 0}, {fresh, 1}} {
		if _, err := s.get(t.Context()); err != nil {
			t.Fatal(err)
		}
		mu.Lock()
		before := asked
		now = s.last.began.Add(c.later)
		mu.Unlock()
		if _, err := s.get(t.Context()); err != nil {
			t.Fatal(err)
		}
		mu.Lock()
		if asked-before != c.more || asked > 20 {
			t.Errorf("%d: %d readings more, %d in all; want %d more", i, asked-before, asked, c.more)
		}
		mu.Unlock()
	}
}

func TestConfigurationOfADoor(t *testing.T) {
	good := DefaultConfig()
	good.Identity, good.Listen, good.CA, good.Certificate, good.PrivateKey = "c1", first1, "a", "b", "c"
	if err := good.Validate(); err != nil {
		t.Error(err)
	}
	for want, change := range map[string]func(*Config){
		"listen":             func(c *Config) { c.Listen = ":6645" },
		"listen: \"0.":       func(c *Config) { c.Listen = "0.0.0.0:6645" },
		"identity":           func(c *Config) { c.Identity = "c_1" },
		"ovn-northbound":     func(c *Config) { c.Northbound = "ssl:192.0.2.1:6641" },
		"ovn-southbound":     func(c *Config) { c.Southbound = "" },
		"tunnel-certificate": func(c *Config) { c.Certificate = "" },
	} {
		c := good
		change(&c)
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want an error about %s", err, want)
		}
	}
}

const first1 = "192.0.2.1:6645"

// TestServiceAccountsOfANamespaceAreOneUser: a namespace's owner makes as many as he likes, and has no more places for
// it.
func TestServiceAccountsOfANamespaceAreOneUser(t *testing.T) {
	l, places := &limits{}, 0
	for i := range 2 * maxOfUser {
		if _, err := l.enter(fmt.Sprintf("system:serviceaccount:evil:sa-%d", i)); err == nil {
			places++
		}
	}
	if places != maxOfUser {
		t.Errorf("service accounts of one namespace have %d places, and %d are for one user", places, maxOfUser)
	}
	for _, other := range []string{"system:serviceaccount:prod:sa-1", "system:serviceaccount:evil-not:sa-1", "evil"} {
		if _, err := l.enter(other); err != nil {
			t.Errorf("%s: %v", other, err)
		}
	}
}

// A door that serves nobody says so at once, and is worth a new start after a while.
func TestHealthOfADoor(t *testing.T) {
	for name, c := range map[string]struct {
		serving      bool
		began        time.Duration
		ready, alive int
	}{
		"it serves":             {true, time.Hour, http.StatusOK, http.StatusOK},
		"it has begun just now": {false, 0, http.StatusServiceUnavailable, http.StatusOK},
		"it has waited for long": {false, restart + time.Second, http.StatusServiceUnavailable,
			http.StatusServiceUnavailable},
	} {
		d := &door{metrics: newMetrics(), began: time.Now().Add(-c.began)}
		d.serving.Store(c.serving)
		for path, want := range map[string]int{"/readyz": c.ready, "/healthz": c.alive, "/metrics": http.StatusOK} {
			w := httptest.NewRecorder()
			d.probes().Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
			if w.Code != want {
				t.Errorf("%s: %s answers %d, want %d", name, path, w.Code, want)
			}
		}
	}
}
