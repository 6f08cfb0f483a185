package observe

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	libovsdb "github.com/ovn-kubernetes/libovsdb/ovsdb"

	"github.com/weftnet/weft/models/api/crds"
	api "github.com/weftnet/weft/models/api/observe/v1alpha1"
	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/models/nb"
	"github.com/weftnet/weft/ovn/northbound"
	"github.com/weftnet/weft/ovsdb/ovsdbtest"
	"github.com/weftnet/weft/test/apiserver"
)

// central are real databases with an ovn-northd.
type central struct {
	northbound, southbound *ovsdbtest.Process
}

func (s *street) startCentral() *central {
	s.t.Helper()
	c := &central{ovsdbtest.Server(s.t, ovsdbtest.Northbound(s.t)), ovsdbtest.Server(s.t, ovsdbtest.Southbound(s.t))}
	ovsdbtest.Northd(s.t, c.northbound, c.southbound)
	s.northbound, s.southbound = c.northbound.Endpoint, c.southbound.Endpoint
	return c
}

// at is a time of the past as the API server has it.
func at(ago time.Duration) string {
	return time.Now().Add(-ago).UTC().Format("2006-01-02T15:04:05.000000Z")
}

// populate makes a node with a pod that has its address, whose port is on no chassis, and a pod that has none; a policy
// that is not in force; and what Weft's parts say of themselves.
func (s *street) populate(c *central) {
	s.t.Helper()
	facts := contract.Format(contract.NodeFacts{Chassis: "n1"})
	for _, object := range []struct{ path, text string }{
		{"/api/v1/namespaces", "{apiVersion: v1, kind: Namespace, metadata: {name: bank}}"},
		{"/api/v1/nodes", "{apiVersion: v1, kind: Node, metadata: {name: n1, annotations: {weft.net/node-facts: '" + facts +
			`', weft.net/node-network: '{"podCIDRs": ["10.244.0.0/24"]}'}}}`},
		{"/apis/coordination.k8s.io/v1/namespaces/kube-system/leases", "{apiVersion: coordination.k8s.io/v1, kind: Lease, " +
			"metadata: {name: weft-controller}, spec: {holderIdentity: c9, leaseDurationSeconds: 9, renewTime: '" +
			at(time.Minute) + "'}}"},
		{"/apis/networking.k8s.io/v1/namespaces/bank/networkpolicies", "{apiVersion: networking.k8s.io/v1, kind: " +
			"NetworkPolicy, metadata: {name: vault}, spec: {podSelector: {}}}"},
		{"/api/v1/namespaces/bank/events", "{apiVersion: v1, kind: Event, metadata: {name: e1}, type: Warning, reason: " +
			"NoFreeAddress, message: 'full', source: {component: weft-controller}, involvedObject: {kind: Pod, namespace: " +
			"bank, name: safe}, count: 2, lastTimestamp: '" + time.Now().UTC().Format(time.RFC3339) + "'}"},
		{"/api/v1/namespaces/bank/events", "{apiVersion: v1, kind: Event, metadata: {name: e2}, type: Warning, reason: " +
			"Foreign, message: 'x', source: {component: kubelet}, involvedObject: {kind: Pod, namespace: bank, name: safe}}"},
		{"/api/v1/namespaces/default/events", "{apiVersion: v1, kind: Event, metadata: {name: e3}, type: Warning, reason: " +
			"ChassisUnreachable, message: 'no answer', source: {component: weft-chassis}, involvedObject: {kind: Node, " +
			"name: n1, uid: n1}, count: 1, lastTimestamp: '" + time.Now().UTC().Format(time.RFC3339) + "'}"},
		{"/api/v1/namespaces/bank/events", "{apiVersion: v1, kind: Event, metadata: {name: e4}, type: Warning, reason: " +
			"AddressTaken, message: 'a', source: {component: weft-controller}, involvedObject: {kind: Service, namespace: " +
			"bank, name: gone}, count: 1, lastTimestamp: '" + time.Now().UTC().Format(time.RFC3339) + "'}"},
		{"/api/v1/namespaces/bank/services", "{apiVersion: v1, kind: Service, metadata: {name: teller}, spec: {type: " +
			"LoadBalancer, ports: [{port: 80}]}}"},
	} {
		if err := s.Create(object.path, object.text); err != nil {
			s.t.Fatal(err)
		}
	}
	for _, kind := range []string{"egressips", "addresspools"} {
		definition, err := crds.Files.ReadFile("weft.net_" + kind + ".yaml")
		if err == nil {
			err = s.Create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", string(definition))
		}
		if err != nil {
			s.t.Fatal(err)
		}
	}
	s.Eventually(s.t, "an AddressPool and an EgressIP are there", func() error {
		return errors.Join(
			s.ensure("/apis/weft.net/v1alpha1/addresspools", "{apiVersion: weft.net/v1alpha1, kind: AddressPool, metadata: "+
				"{name: web}, spec: {ranges: [203.0.113.64/27]}}"),
			s.ensure("/apis/weft.net/v1alpha1/egressips", "{apiVersion: weft.net/v1alpha1, kind: EgressIP, metadata: "+
				"{name: shop}, spec: {addresses: [203.0.113.9], namespaceSelector: {}}}"))
	})
	for _, name := range []string{"safe", "door", "host", "done"} {
		host := ""
		if name == "host" {
			host = "hostNetwork: true, "
		}
		s.pod(name, host)
	}
	client := ovsdbtest.Connect(s.t, ovsdbtest.Northbound(s.t), c.northbound.Endpoint)
	pod := "7e57ab1e-0000-4000-8000-000000000001"
	if _, err := client.Transact(s.t.Context(),
		libovsdb.Operation{Op: libovsdb.OperationInsert, Table: nb.LogicalSwitchPortTable, UUID: pod,
			Row: libovsdb.Row{"name": "bank_door"}},
		libovsdb.Operation{Op: libovsdb.OperationInsert, Table: nb.LogicalSwitchTable, UUID: northbound.SwitchID("n1"),
			Row: libovsdb.Row{"name": "n1", "ports": libovsdb.OvsSet{GoSet: []any{libovsdb.UUID{GoUUID: pod}}}}},
	); err != nil {
		s.t.Fatal(err)
	}
}

// ensure makes an object that may be there already.
func (s *street) ensure(path, text string) error {
	if err := s.Create(path, text); err != nil && !strings.Contains(err.Error(), "AlreadyExists") {
		return err
	}
	return nil
}

// pod makes one that was bound to n1 two minutes ago.
func (s *street) pod(name, host string) {
	s.t.Helper()
	path := "/api/v1/namespaces/bank/pods"
	if err := s.Create(path, "{apiVersion: v1, kind: Pod, metadata: {name: "+name+"}, spec: {nodeName: n1, "+host+
		"automountServiceAccountToken: false, containers: [{name: c, image: i, env: [{name: KEY, value: hunter2}]}]}}",
	); err != nil {
		s.t.Fatal(err)
	}
	phase, annotations := "Pending", ""
	if name == "done" {
		phase = "Succeeded"
	}
	text, err := s.Do(http.MethodGet, path+"/"+name, "", nil)
	var object struct{ Metadata struct{ UID string } }
	if err == nil {
		err = json.Unmarshal(text, &object)
	}
	if err == nil && name == "door" {
		annotations = fmt.Sprintf(`{"metadata": {"annotations": {"weft.net/pod-network": "{\"uid\": \"%s\", \"addresses\": [\"10.244.0.3/24\"]}"}}}`,
			object.Metadata.UID)
		_, err = s.Do(http.MethodPatch, path+"/"+name, "application/merge-patch+json", []byte(annotations))
	}
	if err == nil {
		_, err = s.Do(http.MethodPatch, path+"/"+name+"/status", "application/merge-patch+json", fmt.Appendf(nil,
			`{"status": {"phase": %q, "conditions": [{"type": "PodScheduled", "status": "True", "lastTransitionTime": %q}]}}`,
			phase, time.Now().Add(-2*time.Minute).UTC().Format(time.RFC3339)))
	}
	if err != nil {
		s.t.Fatal(err)
	}
}

// everybodyElse has the rights that users have of weft observe by other roles, and by a binding in a namespace.
const everybodyElse = `{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: status, namespace: shop}, roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: weft-observe-status},
 subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: alice}]}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, metadata: {name: viewer}, roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: view},
 subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: victor}]}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, metadata: {name: nightwatch}, roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: weft-observe-status},
 subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: nora}]}`

// TestStatusOfARealCluster is for who has its right in the whole cluster, and for nobody else.
func TestStatusOfARealCluster(t *testing.T) {
	s := newStreet(t)
	central := s.startCentral()
	s.populate(central)
	for manifest := range strings.SplitSeq(everybodyElse, "\n---\n") {
		collection := "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
		if strings.Contains(manifest, "namespace: shop") {
			collection = "/apis/rbac.authorization.k8s.io/v1/namespaces/shop/rolebindings"
		}
		if err := s.Create(collection, manifest); err != nil {
			t.Fatal(err)
		}
	}
	s.open("c1", first, some())
	nora := s.As("nora", "system:authenticated")
	var status api.NetworkStatus
	var text []byte
	s.Eventually(t, "the status is served", func() (err error) {
		text, err = nora.Do(http.MethodGet, statusPath, "", nil)
		var list api.NetworkStatusList
		if err == nil {
			err = json.Unmarshal(text, &list)
		}
		if err == nil && len(list.Items) != 1 {
			err = fmt.Errorf("there are %d", len(list.Items))
		}
		if err == nil {
			status = list.Items[0]
			if !slices.ContainsFunc(status.Findings, func(f api.Finding) bool { return f.Reason == "PodsUnclaimed" }) {
				err = fmt.Errorf("ovn-northd has not made the port known yet: %+v", status.Findings)
			}
		}
		return err
	})
	var got []string
	for _, f := range status.Findings {
		got = append(got, f.Severity+" "+f.Reason+" "+f.Object)
	}
	want := []string{
		"failed NoLeader Lease kube-system/weft-controller", "failed PodsWithoutAddress Pod bank/safe",
		"failed PodsUnclaimed Pod bank/door", "warning Event Node n1", "warning Event Pod bank/safe",
	}
	if !slices.Equal(got, want) || status.Result != api.Failed || len(status.Unread) > 0 {
		t.Errorf("%s: %q, want %q; not read: %v", status.Result, got, want, status.Unread)
	}
	for _, e := range status.Events {
		if e.Gone != (e.Object == "Service bank/gone") {
			t.Errorf("%+v", e)
		}
	}
	n := status.Nodes
	if len(n) != 1 || n[0].Ports != 1 || n[0].Down != 1 || len(n[0].Subnets) != 1 || n[0].Subnets[0].Free != 251 ||
		!n[0].Agent || n[0].Registered {
		t.Errorf("nodes: %+v", n)
	}
	if status.Door != "c1" || status.Policies != 1 || len(status.NotInForce) != 1 || len(status.LoadBalancers) != 1 ||
		len(status.Pools) != 1 || len(status.EgressIPs) != 1 || status.EgressIPs[0].Addresses[0] != "203.0.113.9" ||
		len(status.Certificates) != 2 || status.Databases[0].Model != "standalone" || !status.Databases[1].Answers {
		t.Errorf("%+v", status)
	}
	for _, secret := range []string{"hunter2", "Foreign"} {
		if strings.Contains(string(text), secret) {
			t.Errorf("the status tells %s", secret)
		}
	}
	s.refusesStatus(t, s.As("alice", "system:authenticated"), s.As("victor", "system:authenticated"),
		s.As("olga", "operators", "system:authenticated"))
	t.Run("the databases are lost", func(t *testing.T) {
		central.northbound.Kill()
		s.Eventually(t, "this is said", func() error {
			text, err := nora.Do(http.MethodGet, statusPath, "", nil)
			if err == nil && !strings.Contains(string(text), "DatabaseSilent") {
				err = fmt.Errorf("it is not: %s", text)
			}
			return err
		})
	})
}

// refusesStatus: whatever else they may, they learn nothing of the cluster here.
func (s *street) refusesStatus(t *testing.T, others ...*apiserver.Server) {
	for i, who := range others {
		for path, code := range map[string]string{
			statusPath: "403", statusPath + "/cluster": "403", statusPath + "?watch=true": "403",
			"/apis/" + api.GroupVersion + "/namespaces/shop/" + api.NetworkStatusResource: "40",
		} {
			text, err := who.Do(http.MethodGet, path, "", nil)
			if err == nil || !strings.Contains(err.Error(), ": "+code) || strings.Contains(err.Error(), "bank") {
				t.Errorf("user %d is told at %s: %s, %v", i, path, text, err)
			}
		}
	}
	for path, words := range map[string]string{
		statusPath + "/cluster": "404", statusPath + "?watch=true": "watch is not served",
		"/apis/" + api.GroupVersion + "/namespaces/shop/" + api.NetworkStatusResource: "404",
	} {
		if text, err := s.Do(http.MethodGet, path, "", nil); err == nil || !strings.Contains(err.Error(), words) {
			t.Errorf("an administrator is told at %s: %s, %v", path, text, err)
		}
	}
}
