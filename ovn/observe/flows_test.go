package observe

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"k8s.io/apiserver/pkg/authentication/user"

	api "github.com/weftnet/weft/models/api/observe/v1alpha1"
)

const flowsOf = "/apis/" + api.GroupVersion + "/"

// talks are flows of three namespaces.
func talks() *api.NetworkFlowsList {
	pod := func(namespace, name, address string) api.FlowEnd {
		return api.FlowEnd{Kind: api.PodEnd, Namespace: namespace, Name: name, Node: "node-of-" + name, Address: address,
			Port: 80}
	}
	web, vault, mail := pod("shop", "web", "10.0.0.1"), pod("bank", "vault", "10.0.0.2"), pod("mail", "smtp", "10.0.0.3")
	return &api.NetworkFlowsList{Items: []api.NetworkFlows{{NodesAsked: 3, NodesUnanswered: 1,
		Unanswered: []api.Unanswered{{Node: "node-of-none", Reason: "secret reason"}},
		Flows: []api.Flow{
			{Source: vault, Destination: mail, Protocol: "TCP", Nodes: []string{"node-of-vault"}},
			{Source: web, Destination: mail, Protocol: "UDP", Nodes: []string{"node-of-web", "node-of-smtp"}},
			{Source: web, Destination: vault, Protocol: "TCP", Nodes: []string{"node-of-vault"},
				Service: &api.FlowService{Namespace: "bank", Name: "safe", Address: "10.96.0.9", Port: 443}},
		}}}}
}

// TestFlowsAreAUsersOwn: neither an answer nor a filter tells a user of what is in namespaces that he may not list.
func TestFlowsAreAUsersOwn(t *testing.T) {
	rights := map[string][]string{"nora": {""}, "alice": {"shop"}, "anna": {"shop", "mail"}, "mallory": nil}
	asks, reviews := "", 0
	h := &handler{limits: &limits{}, answered: func(int) {}, who: func(*http.Request) (user.Info, error) {
		return &user.DefaultInfo{Name: asks}, nil
	}, may: func(_ context.Context, who user.Info, to right) (bool, error) {
		reviews++
		allowed := rights[who.GetName()]
		return to.verb == "list" && to.resource == api.NetworkFlowsResource && (slices.Contains(allowed, to.namespace) ||
			slices.Contains(allowed, "")), nil
	}, flows: func(context.Context) (*api.NetworkFlowsList, error) { return talks(), nil }}
	const secrets = "bank vault safe smtp mail node-of-vault node-of-smtp node-of-none secret 10.0.0.2"
	for _, c := range []struct {
		name, who, namespace, filter string
		code, flows                  int
		hidden                       string // words that the answer has not
	}{
		{"all of an operator", "nora", "", "", 200, 3, "mallory"},
		{"an operator's namespace", "nora", "shop", "", 200, 2, "mallory"},
		{"an operator who filters", "nora", "", "destination=svc/bank/safe", 200, 1, "smtp"},
		{"an operator who filters by a node", "nora", "", "spec.nodeName=node-of-smtp", 200, 2, "safe"},
		{"a developer of his namespace", "alice", "shop", "", 200, 2, secrets},
		{"a developer who guesses a pod", "alice", "shop", "destination=bank/vault", 200, 0, secrets},
		{"a developer who guesses a Service", "alice", "shop", "destination=svc/bank/safe", 200, 0, secrets},
		{"a developer who guesses an endpoint", "alice", "shop", "destination=10.0.0.2", 200, 0, secrets},
		{"a developer who guesses a node", "alice", "shop", "spec.nodeName=node-of-vault", 200, 0, secrets},
		{"a developer who knows the address", "alice", "shop", "destination=10.96.0.9", 200, 1, secrets},
		{"a developer of two namespaces", "anna", "shop", "destination=mail/smtp", 200, 1, "bank vault safe 10.0.0.2"},
		{"a developer of another's", "alice", "bank", "", 403, 0, secrets},
		{"a developer of all", "alice", "", "", 403, 0, secrets},
		{"a user without rights", "mallory", "shop", "", 403, 0, secrets},
		{"a filter that is none", "alice", "shop", "metadata.name=x", 400, 0, secrets},
	} {
		t.Run(c.name, func(t *testing.T) {
			asks = c.who
			path := flowsOf + api.NetworkFlowsResource
			if c.namespace != "" {
				path = flowsOf + "namespaces/" + c.namespace + "/" + api.NetworkFlowsResource
			}
			w := httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path+"?fieldSelector="+url.QueryEscape(c.filter), nil))
			text := w.Body.String()
			var list api.NetworkFlowsList
			if err := json.Unmarshal([]byte(text), &list); err != nil || w.Code != c.code {
				t.Fatalf("%d, %v: %s", w.Code, err, text)
			}
			if c.code == http.StatusOK && (len(list.Items) != 1 || len(list.Items[0].Flows) != c.flows) {
				t.Errorf("%d flows are wanted: %s", c.flows, text)
			}
			if c.code != http.StatusOK { // a refusal repeats what was asked
				text = strings.ReplaceAll(text, "namespace "+c.namespace, "")
			}
			for _, word := range strings.Fields(c.hidden) {
				if strings.Contains(text, word) {
					t.Errorf("%s is told of %q: %s", c.who, word, text)
				}
			}
		})
	}
	t.Run("from own nodes", func(t *testing.T) {
		list := talks()
		probed := list.Items[0].Flows[1].Source
		list.Items[0].Flows = append(list.Items[0].Flows, api.Flow{Destination: probed, Protocol: "TCP",
			Source: api.FlowEnd{Kind: api.NodeEnd, Name: probed.Node, Address: "10.0.0.254", Port: 9}})
		h.flows = func(context.Context) (*api.NetworkFlowsList, error) { return list, nil }
		for _, c := range []struct {
			who, filter string
			flows, left int
		}{
			{"nora", "", 3, 0}, {"nora", "fromOwnNode=false", 2, 1}, {"nora", "fromOwnNode=true", 1, 0},
			{"nora", "fromOwnNode=false,protocol=udp", 1, 0},
			{"alice", "", 3, 0}, {"alice", "fromOwnNode=false", 2, 1},
		} {
			asks = c.who
			w := httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, flowsOf+"namespaces/shop/"+api.NetworkFlowsResource+
				"?fieldSelector="+url.QueryEscape(c.filter), nil))
			var answer api.NetworkFlowsList
			if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil || len(answer.Items) != 1 ||
				len(answer.Items[0].Flows) != c.flows || answer.Items[0].FromOwnNode != c.left {
				t.Errorf("%s, %q: %v, want %d flows and %d left out: %s", c.who, c.filter, err, c.flows, c.left, w.Body)
			}
		}
		if list.Items[0].FromOwnNode != 0 {
			t.Error("a question has changed the answer that others share")
		}
	})
	t.Run("many namespaces", func(t *testing.T) {
		asks, reviews = "alice", 0
		many := talks()
		for i := range 10 * maxNamespaces {
			other := api.FlowEnd{Kind: api.PodEnd, Namespace: "ns" + strings.Repeat("x", i+1), Name: "p", Address: "10.0.9.9"}
			many.Items[0].Flows = append(many.Items[0].Flows,
				api.Flow{Source: many.Items[0].Flows[1].Source, Destination: other})
		}
		h.flows = func(context.Context) (*api.NetworkFlowsList, error) { return many, nil }
		h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet,
			flowsOf+"namespaces/shop/"+api.NetworkFlowsResource, nil))
		if most := maxNamespaces + 2; reviews > most {
			t.Errorf("the API server is asked %d times, and at most %d are wanted", reviews, most)
		}
	})
	t.Run("many flows", func(t *testing.T) {
		asks = "nora"
		many := talks()
		many.Items[0].Flows = make([]api.Flow, maxFlows+5)
		h.flows = func(context.Context) (*api.NetworkFlowsList, error) { return many, nil }
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, flowsOf+api.NetworkFlowsResource, nil))
		var list api.NetworkFlowsList
		if err := json.Unmarshal(w.Body.Bytes(), &list); err != nil || len(list.Items[0].Flows) != maxFlows ||
			list.Items[0].Omitted != 5 {
			t.Errorf("%v: %d flows, %d are left out", err, len(list.Items[0].Flows), list.Items[0].Omitted)
		}
		if len(many.Items[0].Flows) != maxFlows+5 {
			t.Error("a question has changed the answer that others share")
		}
	})
}
