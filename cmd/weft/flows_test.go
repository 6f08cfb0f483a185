package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	api "github.com/weftnet/weft/models/api/observe/v1alpha1"
	"github.com/weftnet/weft/node/nodetest"
)

// talk has a flow of each kind of ends.
func talk() api.NetworkFlows {
	pod := func(name, address string, port int) api.FlowEnd {
		return api.FlowEnd{Kind: api.PodEnd, Namespace: "shop", Name: name, Node: "l1", Address: address, Port: port}
	}
	web, db := pod("web", "10.244.0.3", 40000), pod("db", "10.244.1.4", 5432)
	return api.NetworkFlows{NodesAsked: 2, Flows: []api.Flow{
		{Source: web, Destination: db, Protocol: "TCP", State: "ESTABLISHED", Nodes: []string{"l1", "w1"}, Packets: 9,
			ReplyPackets: 7, Bytes: 900, ReplyBytes: 70000,
			Service: &api.FlowService{Namespace: "shop", Name: "db", Address: "10.96.0.10", Port: 5432}},
		{Source: web, Destination: api.FlowEnd{Kind: api.OutsideEnd, Address: "2001:db8::7", Port: 53}, Protocol: "UDP",
			SeenAs: "[2001:db8::1]:61000"},
		{Source: api.FlowEnd{Kind: api.NodeEnd, Name: "l1", Address: "10.244.0.2"}, Destination: pod("db\x1b[2J",
			"10.244.1.4", 0), Protocol: "ICMP"},
		{Source: api.FlowEnd{Kind: api.AddressEnd, Address: "10.244.9.9", Port: 1}, Destination: web, Protocol: "TCP",
			State: "SYN_SENT", Service: &api.FlowService{Address: "10.96.0.99", Port: 80}},
		{Source: api.FlowEnd{Kind: api.GatewayEnd, Name: "gw-l1", Address: "100.64.0.2", Port: 9}, Destination: db,
			Protocol: "TCP", State: "TIME_WAIT"},
	}}
}

func TestFlowsAreShown(t *testing.T) {
	var asked *http.Request
	answer := talk()
	kubeconfig := serving(t, func(w http.ResponseWriter, r *http.Request) {
		asked = r
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(api.NetworkFlowsList{Items: []api.NetworkFlows{answer}})
	})
	run := func(args ...string) (int, string, string) {
		return runCommand(t, append([]string{"flows", "--kubeconfig", kubeconfig, "--context", "night"}, args...)...)
	}
	for name, args := range map[string][]string{"flows": nil, "flows-wide": {"-o", "wide"}, "flows-yaml": {"-o", "yaml"}} {
		code, out, errs := run(args...)
		if code != 0 || errs != "" || strings.Contains(out, "\x1b") {
			t.Errorf("%s: exit code %d, %q", name, code, errs)
		}
		golden(t, name, out)
	}
	const group, own = "/apis/observe.weft.net/v1alpha1/", "?fieldSelector=fromOwnNode%3Dfalse"
	for want, args := range map[string][]string{
		group + "namespaces/default/networkflows" + own:                    nil,
		group + "networkflows" + own:                                       {"-A"},
		group + "networkflows":                                             {"-A", "--all"},
		group + "networkflows?fieldSelector=source%3Dnode%2Fl1":            {"-A", "--from", "node/l1"},
		group + "networkflows?fieldSelector=source%3D10.244.0.2":           {"-A", "--from", "10.244.0.2"},
		group + "networkflows?fieldSelector=destination%3D10.244.0.0%2F16": {"-A", "--to", "10.244.0.0/16"},
		group + "namespaces/shop/networkflows?fieldSelector=pod%3Dweb%2Cdestination%3Dsvc%2Fdb%2Cprotocol%3Dtcp" +
			"%2CfromOwnNode%3Dfalse": {"-n", "shop", "--to", "svc/db", "--pod", "web", "--protocol", "tcp"},
		group + "networkflows?fieldSelector=service%3Da%5C%2Cb%2Cspec.nodeName%3Dl1%2Csource%3Doutside%2Cstate%3Dsyn_sent" +
			"%2CfromOwnNode%3Dfalse": {"-A", "--service", "a,b", "--from", "outside", "--node", "l1", "--state", "syn_sent"},
	} {
		run(args...)
		if got := asked.URL.String(); got != want {
			t.Errorf("asked for %s, want %s", got, want)
		}
	}
	answer.FromOwnNode = 12
	const left = "12 from pods' own nodes, such as kubelet's probes, are left out: --all shows them\n"
	if code, out, errs := run(); code != 0 || errs != "" || !strings.HasSuffix(out, "\n"+left) {
		t.Errorf("exit code %d, %q: %s", code, errs, out)
	}
	answer.NodesUnanswered, answer.Omitted = 1, 7
	answer.Unanswered = []api.Unanswered{{Node: "l2", Reason: "upgrade the agent"}}
	answer.Unread = []api.Unread{{Source: "Services", Reason: "away"}}
	code, out, _ := run()
	for _, want := range []string{"1 of 2 nodes have not answered", "unanswered: node l2: upgrade the agent",
		"not read, so names are missing: Services: away", "7 more are left out"} {
		if code != 1 || !strings.Contains(out, want) {
			t.Errorf("exit code %d, without %q: %s", code, want, out)
		}
	}
	if code, _, errs := run("--interval", "1ms"); code != 3 || !strings.Contains(errs, "interval: 1ms is less than 1s") {
		t.Errorf("exit code %d, %q", code, errs)
	}
	kubeconfig = serving(t, refuse(http.StatusForbidden, "Forbidden", "mallory cannot list it"))
	if code, _, errs := run("-n", "shop"); code != 3 ||
		!strings.Contains(errs, "create rolebinding NAME --namespace=shop --clusterrole=weft-observe-flows") {
		t.Errorf("exit code %d, %q", code, errs)
	}
}

// TestNamesThatDoNotExist are told, and only to a user who may know.
func TestNamesThatDoNotExist(t *testing.T) {
	there := []string{"/api/v1/namespaces/shop", "/api/v1/namespaces/shop/pods/web", "/api/v1/nodes/l1"}
	kind := func(name string) metav1.TypeMeta { return metav1.TypeMeta{Kind: name, APIVersion: "meta.k8s.io/v1"} }
	var secret bool
	forbidden, absent := refuse(http.StatusForbidden, "Forbidden", "no"), refuse(http.StatusNotFound, "NotFound", "no")
	kubeconfig := serving(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch {
		case strings.HasPrefix(r.URL.Path, "/apis/"+api.GroupVersion):
			_ = json.NewEncoder(w).Encode(api.NetworkFlowsList{Items: []api.NetworkFlows{{NodesAsked: 2}}})
		case secret:
			forbidden(w, r)
		case r.URL.Path == "/api/v1/pods":
			list := metav1.PartialObjectMetadataList{TypeMeta: kind("PartialObjectMetadataList")}
			if r.URL.Query().Get("fieldSelector") == "metadata.name=web" {
				list.Items = []metav1.PartialObjectMetadata{{TypeMeta: kind("PartialObjectMetadata")}}
			}
			_ = json.NewEncoder(w).Encode(list)
		case slices.Contains(there, r.URL.Path):
			_ = json.NewEncoder(w).Encode(metav1.PartialObjectMetadata{TypeMeta: kind("PartialObjectMetadata")})
		default:
			absent(w, r)
		}
	})
	const inShop = ` does not exist in namespace "shop": choose one of `
	for args, want := range map[string]string{
		"-n shop": "", "-n shop --pod web": "", "-A --pod web": "", "-A --node l1": "", "-A --to outside": "",
		"-n nope":                  `Namespace "nope" does not exist: choose one of ` + "`kubectl get namespaces`",
		"-n shop --pod nope":       `Pod "nope"` + inShop + "`kubectl get pods -n shop`",
		"-A --pod nope":            `Pod "nope" does not exist in any namespace: choose one of ` + "`kubectl get pods --all",
		"-n shop --service nope":   `Service "nope"` + inShop + "`kubectl get services -n shop`",
		"-A --node nope":           `Node "nope" does not exist: choose one of ` + "`kubectl get nodes`",
		"-A --from node/nope":      `Node "nope" does not exist`,
		"-n shop --to garbage":     `Pod "garbage"` + inShop,
		"-n shop --to nope/web":    `Namespace "nope" does not exist`,
		"-n shop --to svc/nope":    `Service "nope"` + inShop,
		"-n shop --pod nope -f":    `Pod "nope"` + inShop,
		"-n shop --state bogus -f": `"bogus" is no state`,
	} {
		run := func() (int, string) {
			code, _, errs := runCommand(t, append([]string{"flows", "--kubeconfig", kubeconfig, "--context", "night"},
				strings.Fields(args)...)...)
			return code, errs
		}
		secret = false
		if code, errs := run(); (code != 0) != (want != "") || !strings.Contains(errs, want) {
			t.Errorf("%s: exit code %d, %q; want %q", args, code, errs, want)
		}
		secret = true
		if strings.HasSuffix(args, "-f") {
			continue // it would follow until it is interrupted
		}
		if code, errs := run(); code != 0 || errs != "" {
			t.Errorf("%s, of a user without rights: exit code %d, %q", args, code, errs)
		}
	}
}

// TestWhatFollowShows of answers one after the other: what is new and what has ended, and of a part nothing has ended.
func TestWhatFollowShows(t *testing.T) {
	var out bytes.Buffer
	f := newFollower(screen{Writer: &out}, "text")
	answer, all := talk(), talk().Flows
	for _, c := range []struct {
		name   string
		change func()
		want   []string // words that begin lines, and ends
	}{
		{"at first, a node is silent", func() { answer.Flows, answer.NodesUnanswered = all[:1], 1 },
			[]string{"open shop/db:5432"}},
		{"then it has answered", func() { answer.Flows, answer.NodesUnanswered = all[:2], 0 },
			[]string{"open [2001:db8::7]:53"}},
		{"nothing", func() {}, nil},
		{"another state", func() {
			answer.Flows = []api.Flow{all[0], all[1]}
			answer.Flows[0].State = "TIME_WAIT"
		}, nil},
		{"one comes and one goes", func() { answer.Flows = []api.Flow{all[1], all[4]} },
			[]string{"new shop/db:5432", "ended shop/db:5432"}},
		{"a node is silent", func() { answer.Flows, answer.NodesUnanswered = nil, 1 }, nil},
		{"it is back", func() { answer.Flows, answer.NodesUnanswered = []api.Flow{all[4]}, 0 },
			[]string{"ended [2001:db8::7]:53"}},
		{"it comes again", func() { answer.Flows = []api.Flow{all[1], all[4]} }, []string{"new [2001:db8::7]:53"}},
	} {
		out.Reset()
		c.change()
		if err := f.write(f.out, f.changes(&answer)); err != nil {
			t.Fatal(err)
		}
		var got []string
		for line := range strings.Lines(out.String()) {
			words := strings.Fields(line)
			got = append(got, words[0]+" "+words[2])
		}
		if strings.Join(got, "\n") != strings.Join(c.want, "\n") {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
}

// TestFollow asks until it is interrupted, and goes on without the right to see what is refused, which it says once.
func TestFollow(t *testing.T) {
	for _, filter := range []string{"", "pod=web"} {
		t.Run("filter "+filter, func(t *testing.T) {
			ctx, interrupt := context.WithCancel(t.Context())
			defer interrupt()
			asked, refused := 0, refuse(http.StatusForbidden, "Forbidden", "mallory cannot list hits")
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if strings.HasSuffix(r.URL.Path, api.PolicyHitsResource) {
					refused(w, r)
					return
				}
				answer := talk()
				answer.FromOwnNode = 3
				if asked++; asked > 1 {
					answer.Flows = answer.Flows[:1]
				}
				if asked == 3 {
					interrupt()
				}
				w.Header().Set("Content-Type", "application/json")
				_ = json.NewEncoder(w).Encode(api.NetworkFlowsList{Items: []api.NetworkFlows{answer}})
			}))
			defer server.Close()
			var out, errs bytes.Buffer
			q := flowsQuestion{config: &rest.Config{Host: server.URL}, namespace: "shop", filter: filter,
				timeout: nodetest.Patience, interval: time.Millisecond}
			if err := q.follow(ctx, newFollower(screen{Writer: &out}, "json"), &errs); err != nil {
				t.Errorf("interrupted, it ends with %v", err)
			}
			if added, ended := strings.Count(out.String(), "ADDED"), strings.Count(out.String(), "DELETED"); added != 5 ||
				ended != 4 {
				t.Errorf("%d are new and %d have ended:\n%s", added, ended, out.String())
			}
			if left := strings.Count(errs.String(), "3 from pods' own nodes"); left != 1 {
				t.Errorf("it says %q", errs.String())
			}
			told := strings.Count(errs.String(), "what policies refuse is not shown")
			if told != one(filter == "") {
				t.Errorf("it says %q", errs.String())
			}
		})
	}
}

// TestRefusals are what rules have counted since the last look.
func TestRefusals(t *testing.T) {
	const silent = -1
	hits := func(l1, w1, accept int) *api.PolicyHitsList {
		isolation := api.PolicyHits{Policy: "NetworkPolicy shop/db", Rule: "isolation from ingress", Action: "Deny"}
		list := &api.PolicyHitsList{}
		for node, packets := range map[string]int{"l1": l1, "w1": w1} {
			if packets == silent {
				list.NodesUnanswered++
				continue
			}
			isolation.Packets += uint64(packets)
			isolation.Nodes = append(isolation.Nodes, api.NodeHits{Node: node, Packets: uint64(packets)})
		}
		list.Items = []api.PolicyHits{isolation, {Policy: "NetworkPolicy shop/db", Rule: "spec.ingress[0]", Action: "Accept",
			Packets: uint64(accept), Nodes: []api.NodeHits{{Node: "l1", Packets: uint64(accept)}}}}
		return list
	}
	refused := func(packets int) string {
		return fmt.Sprintf(`{"type":"REFUSED","object":{"policy":"NetworkPolicy shop/db","rule":"isolation from ingress",`+
			`"action":"Deny","packets":%d}}`+"\n", packets)
	}
	type look struct {
		l1, w1, accept int
		want           string
	}
	for name, looks := range map[string][]look{
		"all answer": {{5, 0, 1, ""}, {5, 0, 9, ""}, {8, 0, 9, refused(3)}, {9, 4, 9, refused(5)}, {2, 4, 9, refused(2)},
			{2, 4, 9, ""}},
		"a node is silent once": {{5000, 10, 0, ""}, {silent, 10, 0, ""}, {5000, 11, 0, refused(1)},
			{5001, 11, 0, refused(1)}},
		"a node is silent at first": {{silent, 10, 0, ""}, {5000, 10, 0, ""}, {5002, 10, 0, refused(2)}},
	} {
		var out bytes.Buffer
		f := newFollower(screen{Writer: &out}, "json")
		for i, c := range looks {
			out.Reset()
			if err := f.write(f.out, f.refusals(hits(c.l1, c.w1, c.accept))); err != nil || out.String() != c.want {
				t.Errorf("%s: at look %d: %q, %v; want %q", name, i+1, out.String(), err, c.want)
			}
		}
	}
}

// TestFormsOfEvents: each form says the same.
func TestFormsOfEvents(t *testing.T) {
	flow := talk().Flows[0]
	events := []flowEvent{{Type: flowAdded, Object: flow, initial: true}, {Type: flowAdded, Object: flow},
		{Type: flowDeleted, Object: flow}, {Type: flowsRefused, Object: refusal{"NetworkPolicy shop/db",
			"isolation from egress", "Deny", 4}}}
	for output, wants := range map[string][]string{
		"text": {"open     shop/web:40000  shop/db:5432", "new      shop/web:40000  shop/db:5432", "ended    shop/web:40000",
			"refused  4 packets       Deny by NetworkPolicy shop/db, isolation from egress"},
		"wide": {"10.244.0.3:40000 to 10.244.1.4:5432", "l1,w1"},
		"json": {`{"type":"ADDED","object":{"source":{"kind":"Pod"`, `{"type":"DELETED"`, `"packets":4}}`},
		"yaml": {"---\nobject:\n", "type: ADDED\n", "type: REFUSED\n"},
	} {
		var out bytes.Buffer
		f := newFollower(screen{Writer: &out}, output)
		if err := f.write(f.out, events); err != nil {
			t.Fatal(err)
		}
		for _, want := range wants {
			if !strings.Contains(out.String(), want) {
				t.Errorf("%s has no %q:\n%s", output, want, out.String())
			}
		}
	}
	broken := errors.New("broken pipe")
	for _, output := range []string{"text", "json", "yaml"} {
		if err := newFollower(screen{}, output).write(failing{broken}, events); !errors.Is(err, broken) {
			t.Errorf("%s to nobody: %v", output, err)
		}
	}
}

// failing is a writer whose reader is gone.
type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }
