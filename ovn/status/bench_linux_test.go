package status

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	libovsdb "github.com/ovn-kubernetes/libovsdb/ovsdb"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	api "github.com/weftnet/weft/models/api/observe/v1alpha1"
	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/models/nb"
	"github.com/weftnet/weft/models/sb"
	"github.com/weftnet/weft/ovsdb"
	"github.com/weftnet/weft/ovsdb/ovsdbtest"
)

// A large cluster.
const (
	manyNodes   = 1000
	podsOfANode = 100
)

func manyNodeObjects() (nodes []*corev1.Node) {
	for i := range manyNodes {
		name := fmt.Sprintf("n%d", i)
		nodes = append(nodes, nodeObject(name, contract.NodeFacts{Chassis: name}, fmt.Sprintf("10.%d.%d.0/24", i/256, i%256)))
	}
	return nodes
}

// BenchmarkJudge puts together and judges what was read of 1,000 nodes and 100,000 pods, of which 2,000 wait.
func BenchmarkJudge(b *testing.B) {
	nodes := manyNodeObjects()
	switches, down, chassis := map[string][]string{}, map[string]string{}, map[string]int{}
	for _, o := range nodes {
		var pods []string
		for i := range podsOfANode {
			id := fmt.Sprintf("%s-%d", o.Name, i)
			pods = append(pods, id)
			if i < 2 {
				down[id] = "shop_" + id
			}
		}
		id, ports := switchOf(o.Name, pods...)
		switches[id], chassis[o.Name] = ports, 7
	}
	var waiting []pod
	for _, name := range down {
		waiting = append(waiting, waiter(name[len("shop_"):], true, time.Hour))
	}
	answers := func(name string) api.Database { return api.Database{Name: name, Answers: true} }
	b.ReportAllocs()
	for b.Loop() {
		r := &reading{at: now, nodes: nodes, northbound: north{database: answers(Northbound), switches: switches, down: down},
			southbound: south{database: answers(Southbound), chassis: chassis}, waiting: waitingPods{pods: waiting}}
		if s := r.list().Items[0]; s.Pods.Ports != manyNodes*podsOfANode || s.Pods.Waiting != len(waiting) {
			b.Fatalf("%+v", s.Pods)
		}
	}
}

// BenchmarkRead reads a cluster of 1,000 nodes and 100,000 pods off real servers of the databases, and 100 pods that
// wait, 1,000 policies and 300 Events off what answers as an API server does.
func BenchmarkRead(b *testing.B) {
	northbound, southbound := fillNorthbound(b), fillSouthbound(b)
	server := httptest.NewServer(http.HandlerFunc(answerLarge))
	defer server.Close()
	client, err := kubernetes.NewForConfig(&rest.Config{Host: server.URL, QPS: -1})
	if err != nil {
		b.Fatal(err)
	}
	nodes := manyNodeObjects()
	sources := &Sources{Door: "c1", Northbound: ovsdb.Config{Endpoints: northbound}, Southbound: ovsdb.Config{
		Endpoints: southbound}, Kubernetes: client.CoreV1().RESTClient(),
		Nodes:        func() []*corev1.Node { return nodes },
		Certificates: func() ([]api.Certificate, error) { return nil, nil }}
	b.ReportAllocs()
	for b.Loop() {
		s := sources.Read(b.Context()).Items[0]
		if s.Pods.Ports != manyNodes*podsOfANode || s.Pods.Down != manyNodes || s.Pods.Waiting != 100 || len(s.Unread) > 0 ||
			s.Policies != 1000 || len(s.Strays) > 0 {
			b.Fatalf("%+v, %d policies, %d strays, %v", s.Pods, s.Policies, len(s.Strays), s.Unread)
		}
	}
}

// fill connects to a new server of a database, and has batches made.
func fill(b *testing.B, d ovsdbtest.Database, batch func(node int) []libovsdb.Operation) (endpoint string) {
	b.Helper()
	server := ovsdbtest.Server(b, d)
	client := ovsdbtest.Connect(b, d, server.Endpoint)
	for i := range manyNodes {
		if _, err := client.Transact(b.Context(), batch(i)...); err != nil {
			b.Fatal(err)
		}
	}
	return server.Endpoint
}

func insert(table, uuid string, row map[string]any) libovsdb.Operation {
	return libovsdb.Operation{Op: libovsdb.OperationInsert, Table: table, UUID: uuid, Row: row}
}

func set(values ...any) libovsdb.OvsSet { return libovsdb.OvsSet{GoSet: values} }

func fillNorthbound(b *testing.B) string {
	return fill(b, ovsdbtest.Northbound(b), func(node int) (operations []libovsdb.Operation) {
		name := fmt.Sprintf("n%d", node)
		id, own := switchOf(name)
		var ports []any
		for i := range podsOfANode + len(own) {
			port := fmt.Sprintf("shop_p-%d-%d", node, i)
			uuid := ovsdb.ID(nb.LogicalSwitchPortTable, "Pod/shop/p", port)
			if i >= podsOfANode {
				uuid = own[i-podsOfANode]
			}
			operations = append(operations, insert(nb.LogicalSwitchPortTable, uuid, map[string]any{"name": port, "up": i > 0}))
			ports = append(ports, libovsdb.UUID{GoUUID: uuid})
		}
		if node == 0 {
			operations = append(operations, insert(nb.NBGlobalTable, "", map[string]any{"name": "nb"}))
		}
		return append(operations, insert(nb.LogicalSwitchTable, id, map[string]any{"name": name, "ports": set(ports...)}))
	})
}

func fillSouthbound(b *testing.B) string {
	return fill(b, ovsdbtest.Southbound(b), func(node int) (operations []libovsdb.Operation) {
		name := fmt.Sprintf("n%d", node)
		id := func(table string) string { return ovsdb.ID(table, "Node/n", name) }
		encap, chassis, datapath := id(sb.EncapTable), id(sb.ChassisTable), id(sb.DatapathBindingTable)
		operations = []libovsdb.Operation{
			insert(sb.EncapTable, encap, map[string]any{"type": "geneve", "ip": fmt.Sprintf("10.9.%d.%d", node/256, node%256),
				"chassis_name": name}),
			insert(sb.ChassisTable, chassis, map[string]any{"name": name, "encaps": libovsdb.UUID{GoUUID: encap}}),
			insert(sb.ChassisPrivateTable, "", map[string]any{"name": name}),
			insert(sb.DatapathBindingTable, datapath, map[string]any{"tunnel_key": node + 1}),
		}
		for i := range podsOfANode {
			operations = append(operations, insert(sb.PortBindingTable, "", map[string]any{
				"logical_port": fmt.Sprintf("shop_p-%d-%d", node, i), "datapath": libovsdb.UUID{GoUUID: datapath},
				"tunnel_key": i + 1, "up": i > 0}))
		}
		return operations
	})
}

// answerLarge lists what there is in a large cluster.
func answerLarge(w http.ResponseWriter, r *http.Request) {
	write := func(count int, item string) {
		fmt.Fprint(w, `{"metadata": {}, "items": [`)
		for i := range count {
			if i > 0 {
				fmt.Fprint(w, ",")
			}
			fmt.Fprintf(w, item, i)
		}
		fmt.Fprint(w, "]}")
	}
	w.Header().Set("Content-Type", "application/json")
	switch r.URL.Path {
	case "/api/v1/pods":
		write(100, `{"metadata": {"namespace": "shop", "name": "p-%d-0", "creationTimestamp": "2020-01-01T00:00:00Z"}, "spec": {"nodeName": "n1"}}`)
	case policyKinds[0].path:
		write(1000, `{"metadata": {"namespace": "shop", "name": "p-%d"}}`)
	case "/api/v1/events":
		write(100, `{"involvedObject": {"kind": "Pod", "namespace": "shop", "name": "p-%d"}, "reason": "X", "message": "m"}`)
	default:
		write(0, "")
	}
}
