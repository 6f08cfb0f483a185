package observe

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"

	api "github.com/weftnet/weft/models/api/observe/v1alpha1"
	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/ovn/hits"
)

// capturer is the agent of n1. It says what a capture of each namespace gives.
type capturer struct {
	says map[string]string

	mu    sync.Mutex
	asked []contract.CaptureRequest
}

func (a *capturer) dial(_ context.Context, node hits.Node) (net.Conn, error) {
	if node.Name != "n1" {
		return nil, fmt.Errorf("there is no agent of %s", node.Name)
	}
	ours, theirs := net.Pipe()
	go func() {
		defer theirs.Close()
		var request contract.CaptureRequest
		if err := json.NewDecoder(theirs).Decode(&request); err != nil {
			return // the door says so
		}
		a.mu.Lock()
		a.asked = append(a.asked, request)
		a.mu.Unlock()
		from := "node"
		if request.Pod != nil {
			from = request.Pod.Name
		}
		_, _ = io.WriteString(theirs, a.says[from]) // who asked may be gone
	}()
	return ours, nil
}

// last gives the requests since it was called before.
func (a *capturer) last() []contract.CaptureRequest {
	a.mu.Lock()
	defer a.mu.Unlock()
	asked := a.asked
	a.asked = nil
	return asked
}

func capturesOf(namespace, pod string) string {
	return "/apis/" + api.GroupVersion + "/namespaces/" + namespace + "/captures/" + pod + "/attach"
}

const capturesOfN1 = "/apis/" + api.GroupVersion + "/nodecaptures/n1/attach"

// placePods makes a node, and pods of two namespaces on it.
func (s *street) placePods() {
	s.t.Helper()
	facts := contract.Format(contract.NodeFacts{Chassis: "n1", Counters: "192.0.2.60:16642"})
	objects := []struct{ path, text string }{
		{"/api/v1/namespaces", "{apiVersion: v1, kind: Namespace, metadata: {name: bank}}"},
		{"/api/v1/nodes", `{apiVersion: v1, kind: Node, metadata: {name: n1, annotations: {weft.net/node-facts: '` + facts +
			`'}}, status: {addresses: [{type: InternalIP, address: 192.0.2.60}]}}`},
	}
	for pod, more := range map[string]string{"shop/web": "", "shop/silly": "", "bank/safe": "",
		"shop/host": ", hostNetwork: true"} {
		namespace, name, _ := strings.Cut(pod, "/")
		objects = append(objects, struct{ path, text string }{"/api/v1/namespaces/" + namespace + "/pods", fmt.Sprintf(
			"{apiVersion: v1, kind: Pod, metadata: {name: %s}, spec: {nodeName: n1, automountServiceAccountToken: false%s, "+
				"containers: [{name: c, image: i}]}}", name, more)})
	}
	for _, object := range objects {
		if err := s.Create(object.path, object.text); err != nil {
			s.t.Fatal(err)
		}
	}
}

// TestCapturesByARealAPIServer: a right in a namespace gives the packets of its pods, and nothing else does.
func TestCapturesByARealAPIServer(t *testing.T) {
	s := newStreet(t)
	s.placePods()
	agent := &capturer{says: map[string]string{"web": "{}\npackets of web", "safe": "{}\nsecret of bank",
		"node": "{}\nsecret of n1", "silly": `{"error": "off\u001b[2J"}` + "\n"}}
	s.agents.Capture = agent.dial
	s.bind("shop", "carol", api.CaptureRole)
	s.bind("shop", "edith", "edit", "admin", api.TraceRole)
	s.bind("", "victor", "view")
	s.bind("shop", "rob", api.NodeCaptureRole)
	s.bind("", "nora", api.NodeCaptureRole)
	s.open("c1", first, some())
	ask := func(name, method, path, body string) (string, error) {
		text, err := s.As(name, "system:authenticated").Do(method, path, "application/json", []byte(body))
		return string(text), err
	}
	s.Eventually(t, "captures are served", func() error {
		_, err := ask("carol", http.MethodPost, capturesOf("shop", "web"), "{}")
		return err
	})
	pod, err := s.admin.CoreV1().Pods("shop").Get(t.Context(), "web", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	agent.last()
	text, err := ask("carol", http.MethodPost, capturesOf("shop", "web"), `{"spec": {"filter": {"protocol": "tcp"}}}`)
	asked := agent.last()
	if err != nil || text != "packets of web" || len(asked) != 1 || asked[0].User != "carol" ||
		*asked[0].Pod != (contract.PodReference{Namespace: "shop", Name: "web", UID: string(pod.UID)}) ||
		asked[0].Spec != contract.CaptureDefaults(api.CaptureSpec{Filter: api.CaptureFilter{Protocol: "tcp"}}) {
		t.Errorf("carol gets %q, %v, and the agent is asked for %+v", text, err, asked)
	}
	if text, err := ask("nora", http.MethodPost, capturesOfN1, "{}"); err != nil || text != "secret of n1" {
		t.Errorf("nora gets %q, %v", text, err)
	}
	agent.last()
	for _, c := range []struct {
		name, user, method, path, body string
		want                           string
		agent                          bool // is asked
	}{
		{"another namespace", "carol", "POST", capturesOf("bank", "safe"), "{}", ": 403", false},
		{"a node", "carol", "POST", capturesOfN1, "{}", ": 403", false},
		{"a way round", "carol", "POST", capturesOf("shop", "../../bank/captures/safe"), "{}", ": 40", false},
		{"a hidden way round", "carol", "POST", capturesOf("shop", "..%2f..%2fbank%2fcaptures%2fsafe"), "{}", ": 40", false},
		{"a pod in the body", "carol", "POST", capturesOf("shop", "web"), `{"spec": {"pod": "safe"}}`, ": 400", false},
		{"another object in the body", "carol", "POST", capturesOf("shop", "none"),
			`{"metadata": {"namespace": "bank", "name": "safe"}}`, ": 404", false},
		{"without the subresource", "carol", "POST", strings.TrimSuffix(capturesOf("shop", "web"), "/attach"), "{}", ": 403",
			false},
		{"by reading", "carol", "GET", capturesOf("shop", "web"), "", ": 403", false},
		{"out of bounds", "carol", "POST", capturesOf("shop", "web"), `{"spec": {"duration": "1h"}}`, "spec.duration: 1h0m0s",
			false},
		{"an expression", "carol", "POST", capturesOf("shop", "web"), `{"spec": {"filter": {"protocol": "tcp or udp"}}}`,
			"spec.filter.protocol", false},
		{"the host's network", "carol", "POST", capturesOf("shop", "host"), "{}", "network of its node", false},
		{"what an agent says", "carol", "POST", capturesOf("shop", "silly"), "{}", `off\\x1b[2J`, true},
		{"who may edit", "edith", "POST", capturesOf("shop", "web"), "{}", ": 403", false},
		{"who may view all", "victor", "POST", capturesOf("shop", "web"), "{}", ": 403", false},
		{"the role of nodes in a namespace", "rob", "POST", capturesOfN1, "{}", ": 403", false},
		{"pods by the role of nodes", "nora", "POST", capturesOf("shop", "web"), "{}", ": 403", false},
		{"a user without rights", "mallory", "POST", capturesOf("shop", "web"), "{}", ": 403", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			text, err := ask(c.user, c.method, c.path, c.body)
			if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(text+err.Error(), "secret") {
				t.Errorf("told %q, %v, want %s", text, err, c.want)
			}
			if asked := agent.last(); len(asked) > 0 != c.agent {
				t.Errorf("the agent is asked for %+v", asked)
			}
		})
	}
}

// TestPathsOfCaptures that the API server would let through are none of another object.
func TestPathsOfCaptures(t *testing.T) {
	const prefix = "/apis/" + api.GroupVersion
	for path, want := range map[string]captured{
		"/namespaces/shop/captures/web/attach":            {"captures", "shop", "web"},
		"/nodecaptures/n1.example.net/attach":             {"nodecaptures", "", "n1.example.net"},
		"/namespaces/shop/captures/web":                   {},
		"/captures/web/attach":                            {},
		"/namespaces//captures/web/attach":                {},
		"/namespaces/shop/captures//attach":               {},
		"/namespaces/shop/captures/../attach":             {},
		"/namespaces/shop/nodecaptures/n1/attach":         {},
		"/namespaces/shop/captures/web/attach/":           {},
		"/namespaces/shop/captures/web/exec":              {},
		"/namespaces/shop/../bank/captures/safe/attach":   {},
		"/namespaces/shop/captures/metadata.name=/attach": {},
	} {
		r := &http.Request{Method: http.MethodPost, URL: &url.URL{Path: prefix + path}}
		if got, ok := capturePath(r); ok != (want != captured{}) || ok && got != want {
			t.Errorf("%s is of %+v, %t", path, got, ok)
		}
	}
}

// TestCapturesOfAUserLetInByMistake: the door asks for the right itself, for this object.
func TestCapturesOfAUserLetInByMistake(t *testing.T) {
	var demanded []right
	h := &handler{limits: &limits{}, answered: func(int) {}, who: func(*http.Request) (user.Info, error) {
		return &user.DefaultInfo{Name: "mallory"}, nil
	}, may: func(_ context.Context, _ user.Info, to right) (bool, error) {
		demanded = append(demanded, to)
		return false, nil
	}}
	for path, want := range map[string]right{
		capturesOf("shop", "web"): {"create", "captures", "attach", "shop", "web"},
		capturesOfN1:              {"create", "nodecaptures", "attach", "", "n1"},
	} {
		demanded = nil
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, path, strings.NewReader("{}")))
		if w.Code != http.StatusForbidden || len(demanded) != 1 || demanded[0] != want {
			t.Errorf("%s: %d, and %+v is demanded: %s", path, w.Code, demanded, w.Body)
		}
	}
}

// TestTooManyCaptures are refused at once, with what to do: a client that waited for a place would wait for minutes.
func TestTooManyCaptures(t *testing.T) {
	const yours = `2 captures of "nora" are under way, and no more are made at a time: end one of them by Ctrl-C`
	const all = "3 captures of all users are under way, and no more are made at a time: run it again when one"
	for _, c := range []struct {
		name, user, want string
	}{
		{"the third of a user", "nora", yours},
		{"one more than of all users", "carol", all},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := &limits{most: 3, mostOfUser: 2, lasting: "captures"}
			for _, user := range []string{"nora", "nora", "edith"} {
				if _, err := l.enter(user); err != nil {
					t.Fatal(err)
				}
			}
			h := &handler{limits: &limits{}, answered: func(int) {}, captures: &captures{limits: l},
				who: func(*http.Request) (user.Info, error) { return &user.DefaultInfo{Name: c.user}, nil },
				may: func(context.Context, user.Info, right) (bool, error) { return true, nil }}
			w := httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, capturesOfN1, strings.NewReader("{}")))
			var told metav1.Status
			if err := json.Unmarshal(w.Body.Bytes(), &told); err != nil || w.Code != http.StatusTooManyRequests ||
				!strings.HasPrefix(told.Message, c.want) || w.Header().Get("Retry-After") != "" {
				t.Errorf("%d, %v, to be asked again after %q: %s", w.Code, err, w.Header().Get("Retry-After"), w.Body)
			}
		})
	}
}

// TestLateCaptures: a user hears of it before the capture, and not in place of an answer.
func TestLateCaptures(t *testing.T) {
	for said, want := range map[string]string{
		"{}\npackets": "",
		`{"late": true}` + "\npackets": "299 - \"the node gives its packets when the capture has ended, in 30s; Ctrl-C before " +
			"that leaves none\"",
	} {
		agent := &capturer{says: map[string]string{"node": said}}
		node := func(name string) (hits.Node, bool) { return hits.Node{Name: name, Address: "192.0.2.60:16642"}, true }
		passing := &captures{agents: agentDialer{agent.dial, node}, limits: &limits{most: 1, mostOfUser: 1}}
		h := &handler{limits: &limits{}, answered: func(int) {}, captures: passing,
			who: func(*http.Request) (user.Info, error) { return &user.DefaultInfo{Name: "nora"}, nil },
			may: func(context.Context, user.Info, right) (bool, error) { return true, nil }}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, capturesOfN1, strings.NewReader("{}")))
		if w.Code != http.StatusOK || w.Body.String() != "packets" || w.Header().Get("Warning") != want {
			t.Errorf("%q: %d, %q, warning %q; want %q", said, w.Code, w.Body, w.Header().Get("Warning"), want)
		}
	}
}
