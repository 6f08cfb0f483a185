package observe

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	libovsdb "github.com/ovn-kubernetes/libovsdb/ovsdb"
	"k8s.io/client-go/kubernetes"

	api "github.com/weftnet/weft/models/api/observe/v1alpha1"
	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/models/nb"
	"github.com/weftnet/weft/node/nodetest"
	"github.com/weftnet/weft/ovn/hits"
	"github.com/weftnet/weft/ovn/observe/sysdump"
	"github.com/weftnet/weft/ovsdb/ovsdbtest"
	"github.com/weftnet/weft/test/apiserver"
)

const (
	topologies = "/apis/" + api.GroupVersion + "/" + api.NetworkTopologyResource
	flowsPath  = "/apis/" + api.GroupVersion + "/" + api.NetworkFlowsResource
	dumpPaths  = "/apis/" + api.GroupVersion + "/" + api.NetworkDumpResource + "/"
	commandsOf = "/apis/" + api.GroupVersion + "/" + api.OVNCommandResource + "/"
)

// commandPath is where a command of OVN is got.
func commandPath(name string, arguments ...string) string {
	return commandsOf + name + "?" + url.Values{api.OVNCommandArgument: arguments}.Encode()
}

// planted begins each secret that the tests plant.
const planted = "hunter2"

const privateKey = "-----BEGIN PRIVATE KEY-----\\n" + planted + planted + "\\n-----END PRIVATE KEY-----"

// plant puts secrets where people and programs put them.
func (s *street) plant(c *central) {
	s.t.Helper()
	facts := contract.Format(contract.NodeFacts{Chassis: "n2", Counters: "192.0.2.60:16642", Version: "1.2.0",
		OpenVSwitch: "3.5.0"})
	for _, object := range []struct{ path, text string }{
		{"/api/v1/namespaces/bank/secrets", "{apiVersion: v1, kind: Secret, metadata: {name: vault, labels: " +
			"{app.kubernetes.io/part-of: weft}}, stringData: {password: " + planted + "}}"},
		{"/api/v1/namespaces/bank/configmaps", "{apiVersion: v1, kind: ConfigMap, metadata: {name: vault}, data: {a: " +
			planted + "}}"},
		{"/api/v1/nodes", `{apiVersion: v1, kind: Node, metadata: {name: n2, annotations: {weft.net/node-facts: '` + facts +
			`', example.net/join: ` + planted + `, weft.net/note: "token: ` + planted + `", weft.net/key: "` + privateKey +
			`"}}, status: {addresses: [{type: InternalIP, address: 192.0.2.60}]}}`},
		{"/apis/networking.k8s.io/v1/namespaces/bank/networkpolicies", "{apiVersion: networking.k8s.io/v1, kind: " +
			"NetworkPolicy, metadata: {name: applied, annotations: {kubectl.kubernetes.io/last-applied-configuration: " +
			planted + "}}, spec: {podSelector: {}}}"},
		{"/api/v1/namespaces/bank/pods", "{apiVersion: v1, kind: Pod, metadata: {name: agent, labels: " +
			"{app.kubernetes.io/part-of: weft}}, spec: {nodeName: n1, automountServiceAccountToken: false, containers: " +
			"[{name: c, image: i, args: [--password=" + planted + "], env: [{name: KEY, value: " + planted + "}]}]}}"},
		{"/api/v1/namespaces/bank/events", "{apiVersion: v1, kind: Event, metadata: {name: leak}, type: Warning, reason: " +
			"Leak, message: 'the password=" + planted + " is wrong', source: {component: weft-node}, involvedObject: {kind: " +
			"Pod, namespace: bank, name: safe}}"},
	} {
		if err := s.Create(object.path, object.text); err != nil {
			s.t.Fatal(err)
		}
	}
	if _, err := s.Do(http.MethodPatch, "/api/v1/namespaces/bank/pods/agent/status", "application/merge-patch+json",
		[]byte(`{"status": {"containerStatuses": [{"name": "c", "image": "i", "imageID": "", "ready": true, "restartCount": 0}]}}`),
	); err != nil {
		s.t.Fatal(err)
	}
	client := ovsdbtest.Connect(s.t, ovsdbtest.Northbound(s.t), c.northbound.Endpoint)
	every := []libovsdb.Condition{libovsdb.NewCondition("nb_cfg", libovsdb.ConditionGreaterThanOrEqual, 0)}
	options := libovsdb.OvsMap{GoMap: map[any]any{"ipsec_psk": planted, "ipsec-key": planted,
		"weft_note": strings.ReplaceAll(privateKey, `\n`, "\n")}}
	if _, err := client.Transact(s.t.Context(),
		libovsdb.Operation{Op: libovsdb.OperationMutate, Table: nb.NBGlobalTable, Where: every,
			Mutations: []libovsdb.Mutation{*libovsdb.NewMutation("options", libovsdb.MutateOperationInsert, options)}},
		libovsdb.Operation{Op: libovsdb.OperationInsert, Table: nb.SSLTable, UUIDName: "ssl",
			Row: libovsdb.Row{"private_key": "/etc/" + planted, "certificate": "c", "ca_cert": "a"}},
		libovsdb.Operation{Op: libovsdb.OperationMutate, Table: nb.NBGlobalTable, Where: every,
			Mutations: []libovsdb.Mutation{*libovsdb.NewMutation("ssl", libovsdb.MutateOperationInsert,
				libovsdb.UUID{GoUUID: "ssl"})}},
	); err != nil {
		s.t.Fatal(err)
	}
}

// agentOf answers for n2 as its agent would.
func agentOf(_ context.Context, node hits.Node) (net.Conn, error) {
	if node.Name != "n2" || node.Address != "192.0.2.60:16642" {
		return nil, fmt.Errorf("there is no agent of %s at %s", node.Name, node.Address)
	}
	ours, theirs := net.Pipe()
	go func() {
		defer theirs.Close()
		_, _ = io.WriteString(theirs, "weft_ports 7\n# token="+planted+"\n") // who asked may be gone
	}()
	return ours, nil
}

// connectionsOf answers for n2 as its agent would: a pod talks to the outside.
func connectionsOf(_ context.Context, node hits.Node) (net.Conn, error) {
	if node.Name != "n2" {
		return nil, hits.ErrNoTarget
	}
	ours, theirs := net.Pipe()
	go func() {
		defer theirs.Close()
		_, _ = io.WriteString(theirs, `{"connection": {"protocol": "tcp", "state": "ESTABLISHED",
			"original": {"source": "10.244.0.3:4000", "destination": "198.51.100.9:443"},
			"reply": {"source": "198.51.100.9:443", "destination": "10.244.0.3:4000"}}} {"end": {}}`) // who asked may be gone
	}()
	return ours, nil
}

// bind gives users rights: in the cluster, or in a namespace.
func (s *street) bind(namespace, user string, roles ...string) {
	s.t.Helper()
	collection, kind, where := "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", "ClusterRoleBinding", ""
	if namespace != "" {
		collection = "/apis/rbac.authorization.k8s.io/v1/namespaces/" + namespace + "/rolebindings"
		kind, where = "RoleBinding", ", namespace: "+namespace
	}
	for _, role := range roles {
		if err := s.Create(collection, fmt.Sprintf("{apiVersion: rbac.authorization.k8s.io/v1, kind: %s, metadata: {name: "+
			"%s-%s%s}, roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: %s}, subjects: [{apiGroup: "+
			"rbac.authorization.k8s.io, kind: User, name: %s}]}", kind, user, role, where, role, user)); err != nil {
			s.t.Fatal(err)
		}
	}
}

// TestQuestionsToARealDoor: who has a right gets its answer, nobody else learns anything, and a sysdump has no secret.
func TestQuestionsToARealDoor(t *testing.T) {
	t.Setenv("PATH", filepath.Dir(ovsdbtest.Program(t, "ovn-nbctl"))+string(os.PathListSeparator)+os.Getenv("PATH"))
	s := newStreet(t)
	central := s.startCentral()
	s.populate(central)
	s.plant(central)
	all := []string{api.NetworkVersionRole, api.NetworkTopologyRole, api.NetworkDumpRole, api.OVNCommandRole,
		api.NetworkFlowsRole}
	s.bind("", "nora", all...)
	s.bind("shop", "alice", all...)
	s.bind("", "victor", "view")
	s.bind("", "sam", api.NetworkStatusRole)
	s.agents.Metrics, s.agents.Connections = agentOf, connectionsOf
	s.open("c1", first, some())
	user := func(name string) *apiserver.Server { return s.As(name, "system:authenticated") }
	nora := user("nora")
	s.Eventually(t, "the topology is served", func() error {
		_, err := nora.Do(http.MethodGet, topologies, "", nil)
		return err
	})
	for _, c := range []struct {
		who, path string
		want      []string // in the answer, or what the refusal says
	}{
		{"nora", versionPath, []string{`"name":"c1"`, `"openVSwitch":"3.5.0"`, `"agent":"1.2.0"`}},
		{"nora", topologies, []string{`"name":"n1"`, `"name":"door"`, `"namespace":"bank"`}},
		{"nora", topologies + "?fieldSelector=spec.nodeName%3Dn2", []string{`"nodes":[{"name":"n2"}]`}},
		{"nora", flowsPath, []string{`"address":"198.51.100.9"`, `"nodes":["n2"]`, `{"node":"n1","reason":"its agent takes no`,
			`"nodesUnanswered":1`}},
		{"nora", flowsPath + "?fieldSelector=destination%3D192.0.2.0/24", []string{`"flows":[]`}},
		{"nora", flowsPath + "?fieldSelector=destination%3Da/b/c", []string{"400", "is neither a pod"}},
		{"alice", strings.Replace(flowsPath, api.GroupVersion, api.GroupVersion+"/namespaces/shop", 1),
			[]string{`"flows":[]`, `"nodesUnanswered":1`}},
		{"nora", dumpPaths + "northbound", []string{`"table":"Logical_Switch_Port"`, "bank_door", "[left out]"}},
		{"nora", dumpPaths + "southbound", []string{`"table":"SB_Global"`}},
		{"nora", dumpPaths + "agents", []string{`{"node":"n2","metrics":"weft_ports 7\n`, `{"node":"n1","error"`}},
		{"nora", commandPath("nbctl", "lsp-list", "n1"), []string{"bank_door", `"exitCode":0`}},
		{"nora", commandPath("sbctl", "show"), []string{`"exitCode":0`}},
		{"alice", strings.Replace(topologies, api.GroupVersion, api.GroupVersion+"/namespaces/shop", 1),
			[]string{`"nodes":[]`}},

		{"nora", commandPath("nbctl", "ls-add", "evil"), []string{"400", `command \"ls-add\" is none`}},
		{"nora", commandPath("nbctl", "--db=tcp:192.0.2.1:1", "show"), []string{"400", "is not served"}},
		{"nora", dumpPaths + "secrets", []string{"404"}},
		{"nora", dumpPaths + "northbound/x", []string{"403"}},
		{"nora", commandPath("appctl", "show"), []string{"404"}},
		{"nora", topologies + "?fieldSelector=metadata.name%3Dx", []string{"400", "only spec.nodeName=NODE"}},
		{"nora", topologies + "?labelSelector=a", []string{"400", "labelSelector is not served"}},
		{"nora", versionPath + "?watch=true", []string{"403"}},
	} {
		text, err := user(c.who).Do(http.MethodGet, c.path, "", nil)
		if err != nil {
			text = []byte(err.Error())
		}
		for _, want := range c.want {
			if !strings.Contains(string(text), want) {
				t.Errorf("%s at %s: got %.3000s, want %s", c.who, c.path, text, want)
			}
		}
		if strings.Contains(string(text), planted) {
			t.Errorf("%s at %s learns a secret: %s", c.who, c.path, text)
		}
	}
	s.refusesQuestions(t)
	s.collects(t)
}

// refusesQuestions: neither a right in a namespace, nor another right, nor a way round helps.
func (s *street) refusesQuestions(t *testing.T) {
	ofBank := strings.Replace(topologies, api.GroupVersion, api.GroupVersion+"/namespaces/bank", 1)
	flowsOfBank := strings.Replace(flowsPath, api.GroupVersion, api.GroupVersion+"/namespaces/bank", 1)
	paths := []string{versionPath, topologies, ofBank, flowsPath, flowsOfBank, flowsPath + "?fieldSelector=pod%3Dsafe",
		dumpPaths + "northbound", dumpPaths + "southbound",
		dumpPaths + "agents", commandPath("nbctl", "show"),
		commandPath("sbctl", "show"), dumpPaths + "none", commandPath("nbctl", "ls-add", "x"),
		strings.Replace(topologies, api.GroupVersion, api.GroupVersion+"/namespaces/shop/../bank", 1),
		dumpPaths + "x/../northbound", topologies + "?fieldSelector=spec.nodeName%3Dn1"}
	for _, name := range []string{"alice", "victor", "sam", "mallory"} {
		who := s.As(name, "system:authenticated")
		for _, path := range paths {
			text, err := who.Do(http.MethodGet, path, "", nil)
			if err == nil || !strings.Contains(err.Error(), ": 403") || strings.Contains(err.Error(), "door") {
				t.Errorf("%s at %s is told %s, %v", name, path, text, err)
			}
		}
	}
	if err := s.Create("/apis/rbac.authorization.k8s.io/v1/clusterroles", "{apiVersion: rbac.authorization.k8s.io/v1, "+
		"kind: ClusterRole, metadata: {name: north}, rules: [{apiGroups: [observe.weft.net], resources: [ovncommands], "+
		"resourceNames: [nbctl], verbs: [get]}]}"); err != nil {
		t.Fatal(err)
	}
	s.bind("", "nils", "north")
	nils := s.As("nils", "system:authenticated")
	s.Eventually(t, "a right to nbctl alone counts", func() error {
		_, err := nils.Do(http.MethodGet, commandPath("nbctl", "show"), "", nil)
		return err
	})
	if text, err := nils.Do(http.MethodGet, commandPath("sbctl", "show"), "", nil); err == nil {
		t.Errorf("a right to nbctl gives sbctl: %s", text)
	}
}

// collects an archive, in which there is no secret that was planted.
func (s *street) collects(t *testing.T) {
	client, ok := s.clients("").(*kubernetes.Clientset)
	if !ok {
		t.Fatal("there is no client")
	}
	var out bytes.Buffer
	var told []string
	collector := sysdump.Collector{Kubernetes: client.RESTClient(), Version: "1.2.0", Folder: "case",
		Progress: func(e sysdump.Entry) { told = append(told, e.File) }}
	index, err := collector.Collect(t.Context(), &out)
	if err != nil {
		t.Fatal(err)
	}
	files := nodetest.Untar(t, &out)
	for _, name := range []string{"status.json", "version.json", "topology.json", "kubernetes/nodes.jsonl",
		"kubernetes/pods.jsonl", "kubernetes/events-node.jsonl", "kubernetes/networkpolicies.jsonl",
		"kubernetes/egressips.jsonl", "kubernetes/apiservice.jsonl", "kubernetes/leases-observe.jsonl", "metrics/n2",
		"ovn/northbound.jsonl", "ovn/southbound.jsonl", "index.json"} {
		text, there := files["case/"+name]
		if !there || name != "index.json" && !slices.Contains(told, name) {
			t.Errorf("there is no %s, or nobody is told; there are %v", name, told)
		}
		if strings.HasPrefix(name, "ovn/") != strings.Contains(text, `{"table":`) {
			t.Errorf("%s has %.300s", name, text)
		}
	}
	for name, text := range files {
		if at := strings.Index(text, planted); at >= 0 {
			t.Errorf("%s has a secret: %s", name, text[max(at-200, 0):min(at+100, len(text))])
		}
	}
	if nodes := files["case/kubernetes/nodes.jsonl"]; !strings.Contains(nodes, `"weft.net/node-facts":"{`) ||
		!strings.Contains(nodes, `"example.net/join":"[left out]"`) || !strings.Contains(nodes, "192.0.2.60") {
		t.Errorf("the Nodes are %s", nodes)
	}
	var saved sysdump.Index
	if err := json.Unmarshal([]byte(files["case/index.json"]), &saved); err != nil || !saved.Incomplete() ||
		len(saved.Entries) != len(index.Entries) {
		t.Errorf("%v: %s", err, files["case/index.json"])
	}
	for _, e := range saved.Entries { // n1's agent takes no streams, and no kubelet has the agent's log
		if missing := e.File == "metrics/n1" || e.File == "logs/bank/agent/c.log"; missing != (e.Error != "") {
			t.Errorf("the index says of %s: %q", e.File, e.Error)
		}
	}
}
