package observe

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"

	api "github.com/weftnet/weft/models/api/observe/v1alpha1"
	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/ovn/hits"
	"github.com/weftnet/weft/ovn/trace"
)

// sender is the agent of l1. It says what a probe of each port meets.
type sender struct {
	says map[uint16]contract.ProbeReply

	mu    sync.Mutex
	asked []contract.ProbeRequest
}

func (a *sender) dial(_ context.Context, node hits.Node) (net.Conn, error) {
	if node.Name != "l1" {
		return nil, fmt.Errorf("there is no agent of %s", node.Name)
	}
	ours, theirs := net.Pipe()
	go func() {
		defer theirs.Close()
		var request contract.ProbeRequest
		if err := json.NewDecoder(theirs).Decode(&request); err != nil {
			return // the door says so
		}
		a.mu.Lock()
		a.asked = append(a.asked, request)
		a.mu.Unlock()
		_ = json.NewEncoder(theirs).Encode(a.says[request.Destination.Port()]) // who asked may be gone
	}()
	return ours, nil
}

// last gives the requests since it was called before.
func (a *sender) last() []contract.ProbeRequest {
	a.mu.Lock()
	defer a.mu.Unlock()
	asked := a.asked
	a.asked = nil
	return asked
}

// placeProbes has l1 send probes from pod shop/web, and gives liv their right in shop.
func (s *street) placeProbes() *sender {
	s.t.Helper()
	agent := &sender{says: map[uint16]contract.ProbeReply{3306: {Result: api.ProbeAnswered, After: time.Millisecond},
		3307: {Result: api.ProbeRefused}, 3308: {Error: "off\x1b[2J"}, 3309: {Result: "surprised"},
		3310: {Error: "not here", NoAddress: true}}}
	s.agents.Probe = agent.dial
	facts := contract.Format(contract.NodeFacts{Chassis: "chassis-1", Counters: "192.0.2.1:16642"})
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]string{
		contract.NodeFactsAnnotation: facts}}})
	if err == nil {
		_, err = s.Do(http.MethodPatch, "/api/v1/nodes/l1", "application/merge-patch+json", patch)
	}
	if err == nil {
		err = s.Create("/api/v1/namespaces/shop/pods", "{apiVersion: v1, kind: Pod, metadata: {name: web}, spec: {nodeName: "+
			"l1, automountServiceAccountToken: false, containers: [{name: c, image: i}]}}")
	}
	for name, port := range map[string]string{"db": "clusterIP: 10.96.0.10, ports: [{name: sql, port: 3306}]",
		"thief": "clusterIP: 10.96.0.13, ports: [{port: 80}]"} {
		if err == nil {
			err = s.Create("/api/v1/namespaces/shop/services", fmt.Sprintf(
				"{apiVersion: v1, kind: Service, metadata: {name: %s}, spec: {%s}}", name, port))
		}
	}
	if err != nil {
		s.t.Fatal(err)
	}
	s.bind("shop", "liv", api.LiveRole)
	return agent
}

// sendsProbes: a right in a namespace has probes sent from its pods to where a trace may go, and nothing else does.
func (s *street) sendsProbes(t *testing.T, agent *sender) {
	pod, err := s.admin.CoreV1().Pods("shop").Get(t.Context(), "web", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	ask := func(name, path, body string) string {
		text, err := s.As(name, "system:authenticated").Do(http.MethodPost, path, "application/json", []byte(body))
		if err != nil {
			return err.Error()
		}
		return string(text)
	}
	web, db := podJSON("shop", "web"), podJSON("shop", "db")
	live := func(port string) string { return `, "port": "` + port + `", "live": true` }
	for destination, want := range map[string]string{
		`"kind": "Service", "namespace": "shop", "name": "db"`: "10.96.0.10:3306", db: "10.244.1.5:3307",
	} {
		agent.last()
		_, port, _ := strings.Cut(want, ":")
		text, asked := ask("liv", tracesOfShop, question(web, destination, live(port))), agent.last()
		if len(asked) != 1 || asked[0] != (contract.ProbeRequest{Pod: contract.PodReference{Namespace: "shop", Name: "web",
			UID: string(pod.UID)}, User: "liv", Protocol: "tcp", Source: netip.MustParseAddr("10.244.0.5"),
			Destination: netip.MustParseAddrPort(want)}) {
			t.Errorf("the agent is asked for %+v, and liv is told %s", asked, text)
		}
	}
	for _, c := range []struct {
		name, user, path, body string
		want                   string
		agent                  bool // is asked
	}{
		{"what was traced", "liv", tracesOfShop, question(web, `"kind": "Service", "namespace": "shop", "name": "db"`,
			live("3306")), `"comparison":"agrees"`, true},
		{"a program that does not listen", "liv", tracesOfShop, question(web, db, live("3307")), `"comparison":"differs"`, true},
		{"what an agent says", "liv", tracesOfShop, question(web, db, live("3308")), `off\\x1b[2J`, true},
		{"a network without the address", "liv", tracesOfShop, question(web, db, live("3310")), `"remedy":"ask again`, true},
		{"a result that is none", "liv", tracesOfShop, question(web, db, live("3309")), "no result of a probe", true},
		{"no probe", "liv", tracesOfShop, question(web, db, `, "port": "3307"`), `"result":"arrives"`, false},
		{"who may trace", "alice", tracesOfShop, question(web, db, live("3307")), "the ClusterRole weft-observe-trace-live",
			false},
		{"who may trace all", "tess", tracesOfShop, question(web, db, live("3307")), ": 403", false},
		{"a user without rights", "mallory", tracesOfShop, question(web, db, live("3307")), ": 403", false},
		{"another namespace's pod", "liv", tracesOfShop, question(web, podJSON("bank", "safe"), live("80")), ": 403", false},
		{"as another namespace's pod", "liv", strings.Replace(tracesOfShop, "shop", "bank", 1),
			question(podJSON("bank", "safe"), web, live("80")), ": 403", false},
		{"as a pod of another namespace", "liv", tracesOfShop, question(podJSON("bank", "safe"), web, live("80")), ": 400",
			false},
		{"an address", "liv", tracesOfShop, question(web, `"kind": "Address", "name": "198.51.100.1"`, live("80")), ": 403",
			false},
		{"a node", "liv", tracesOfShop, question(web, `"kind": "Node", "name": "l2"`, live("22")), ": 403", false},
		{"a Service of another's pods", "liv", tracesOfShop, question(web,
			`"kind": "Service", "namespace": "shop", "name": "thief"`, live("80")), ": 403", false},
		{"a destination of a probe", "liv", tracesOfShop, question(web, db,
			live("3307")+`, "probe": {"destination": "198.51.100.1:80"}`), ": 400", false},
		{"a probe in the status", "liv", tracesOfShop, strings.Replace(question(web, db, `, "port": "3307"`), `"spec"`,
			`"status": {"probe": {"destination": "198.51.100.1:80"}}, "spec"`, 1), `"result":"arrives"`, false},
		{"the path of the right", "liv", tracesOfShop + "/web/live", question(web, db, live("3307")), ": 40", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			if text := ask(c.user, c.path, c.body); !strings.Contains(text, c.want) {
				t.Errorf("told %s, want %s", text, c.want)
			}
			if asked := agent.last(); len(asked) > 0 != c.agent {
				t.Errorf("the agent is asked for %+v", asked)
			}
		})
	}
}

// liveHandler is a door whose users have all rights but those that are named, and whose agents are met by a dial.
func liveHandler(dial hits.Dial, traced *api.TraceStatus, not ...right) *handler {
	return &handler{limits: &limits{}, answered: func(int) {}, who: func(*http.Request) (user.Info, error) {
		return &user.DefaultInfo{Name: "mallory"}, nil
	}, may: func(_ context.Context, _ user.Info, to right) (bool, error) {
		for _, missing := range not {
			if to == missing {
				return false, nil
			}
		}
		return true, nil
	}, trace: func(context.Context, api.TraceSpec, trace.May) (*api.TraceStatus, error) {
		return traced, nil
	}, prober: &prober{agents: agentDialer{dial, func(name string) (hits.Node, bool) {
		return hits.Node{Name: name, Address: "192.0.2.1:16642"}, true
	}}, limits: &limits{most: maxProbes, mostOfUser: maxProbesOfUser}}}
}

// TestTheDoorAsksForTheRightToProbe itself, in the namespace of the source.
func TestTheDoorAsksForTheRightToProbe(t *testing.T) {
	h := liveHandler(nil, nil, right{"create", "traces", "live", "shop", ""})
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, tracesOfShop, strings.NewReader(question(podJSON("shop", "web"),
		podJSON("shop", "db"), `, "port": "80", "live": true`))))
	if w.Code != http.StatusForbidden || !strings.Contains(w.Body.String(), "traces/live") {
		t.Errorf("%d: %s", w.Code, w.Body)
	}
}

// TestProbesOfOneUserAreBounded, whatever they wait for.
func TestProbesOfOneUserAreBounded(t *testing.T) {
	h := liveHandler(nil, &api.TraceStatus{Result: api.Arrives})
	who := &user.DefaultInfo{Name: "mallory"}
	for range maxProbesOfUser {
		release, err := h.demandLive(t.Context(), who, "shop")
		if err != nil {
			t.Fatal(err)
		}
		defer release()
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, tracesOfShop, strings.NewReader(question(podJSON("shop", "web"),
		podJSON("shop", "db"), `, "port": "80", "live": true`))))
	if w.Code != http.StatusTooManyRequests {
		t.Errorf("%d: %s", w.Code, w.Body)
	}
}
