package writeback

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/yaml"

	"github.com/weftnet/weft/models/api/crds"
	"github.com/weftnet/weft/models/api/rights"
	"github.com/weftnet/weft/models/api/v1alpha1"
	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/ovn/objects"
	"github.com/weftnet/weft/ovn/part"
	"github.com/weftnet/weft/test/apiserver"
)

// TestNodesReadTheirOwnPodNetworks of a real API server, written with the controller's rights: each node its own, and
// no other node's, by no verb.
func TestNodesReadTheirOwnPodNetworks(t *testing.T) {
	s := apiserver.Start(t)
	install(t, s)
	config, err := clientcmd.BuildConfigFromFlags("", s.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	config.Impersonate = rest.ImpersonationConfig{UserName: "weft:controller", Groups: []string{"system:authenticated"}}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	write := Through(client)
	uids := map[string]*metav1.ObjectMeta{}
	for _, node := range []string{"n1", "n2"} {
		if err := s.Create("/api/v1/nodes", "{apiVersion: v1, kind: Node, metadata: {name: "+node+"}}"); err != nil {
			t.Fatal(err)
		}
		object := read[metav1.PartialObjectMetadata](t, s, "/api/v1/nodes/"+node)
		uids[node] = &object.ObjectMeta
	}
	tell := func(node string, object *v1alpha1.PodNetworks, body part.Networks) error {
		body.Node = objects.ReferenceTo(objects.NodeKind, uids[node])
		var there *objects.PodNetworks
		if object != nil {
			there = &objects.PodNetworks{ObjectMeta: object.ObjectMeta}
		}
		return write(context.Background(), part.WriteNetworks(there, body))
	}
	pods := func(uids ...string) (list []contract.PodAddresses) {
		for i, uid := range uids {
			line, err := contract.ParsePodAddresses(fmt.Sprintf("shop/web-%s %s 10.244.0.%d/24", uid, uid, 3+i))
			if err != nil {
				t.Fatal(err)
			}
			list = append(list, line)
		}
		return list
	}
	s.Eventually(t, "the controller has its rights", func() error {
		return errors.Join(tell("n1", nil, part.Networks{Grant: true, Pods: pods("b", "a")}),
			tell("n2", nil, part.Networks{Grant: true, Pods: pods("c")}))
	})
	n1 := s.As("system:node:n1", "system:nodes", "system:authenticated")
	only := func(node string) string { return "?fieldSelector=metadata.name%3D" + node }
	s.Eventually(t, "the node has its right", func() error {
		_, err := n1.Do(http.MethodGet, networksPath+only("n1"), "", nil)
		return err
	})
	for path, allowed := range map[string]bool{
		networksPath + "/n1":                                    true,
		networksPath + only("n1"):                               true,
		networksPath + only("n1") + "&watch=1&timeoutSeconds=1": true,
		networksPath + "/n2":                                    false,
		networksPath + only("n2"):                               false,
		networksPath + only("n2") + "&watch=1&timeoutSeconds=1": false,
		networksPath: false,
		networksPath + "?watch=1&timeoutSeconds=1":          false,
		"/apis/weft.net/v1alpha1/podnetworks":               false,
		rolesPath:                                           false,
		rolesPath + "/" + rightOf("n1"):                     false,
		"/api/v1/namespaces/weft-nodes/configmaps":          false,
		networksPath + "?fieldSelector=metadata.name!%3Dn2": false,
	} {
		if _, err := n1.Do(http.MethodGet, path, "", nil); (err == nil) != allowed || err != nil &&
			!strings.Contains(err.Error(), "forbidden") {
			t.Errorf("node n1 asks for %s: %v", path, err)
		}
	}
	for method, body := range map[string]string{http.MethodPatch: `{"pods":[]}`, http.MethodDelete: "",
		http.MethodPut: `{"apiVersion":"weft.net/v1alpha1","kind":"PodNetworks","metadata":{"name":"n1"},"pods":[]}`} {
		for _, node := range []string{"n1", "n2"} {
			_, err := n1.Do(method, networksPath+"/"+node, "application/merge-patch+json", []byte(body))
			if err == nil || !strings.Contains(err.Error(), "forbidden") {
				t.Errorf("node n1 does %s to %s: %v", method, node, err)
			}
		}
	}
	tenant := s.As("alice", "system:authenticated")
	if _, err := tenant.Do(http.MethodGet, networksPath+"/n1", "", nil); err == nil {
		t.Error("a tenant reads it")
	}

	object := read[v1alpha1.PodNetworks](t, s, networksPath+"/n1")
	if got := strings.Join(object.Pods, ","); got != "shop/web-a a 10.244.0.4/24,shop/web-b b 10.244.0.3/24" ||
		object.OwnerReferences[0].UID != uids["n1"].UID {
		t.Errorf("the object has %s, and is %v's", got, object.OwnerReferences)
	}
	for name, step := range map[string]func() error{
		"another line":              func() error { return tell("n1", &object, part.Networks{Pods: pods("a")}) },
		"one that is there already": func() error { return tell("n1", nil, part.Networks{Pods: pods("z")}) },
		"one that is another by now": func() error {
			other := object
			other.UID = "another"
			return tell("n1", &other, part.Networks{Pods: pods("z")})
		},
	} {
		if err := step(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if got := read[v1alpha1.PodNetworks](t, s, networksPath+"/n1").Pods; len(got) != 1 || !strings.HasPrefix(got[0],
		"shop/web-a ") {
		t.Errorf("after the patches it has %v", got)
	}
	if err := tell("n1", &object, part.Networks{Gone: true}); err != nil {
		t.Error(err)
	}
	for _, path := range []string{networksPath + "/n1", rolesPath + "/" + rightOf("n1"),
		bindingsPath + "/" + rightOf("n1")} {
		if _, err := s.Do(http.MethodGet, path, "", nil); err == nil || !strings.Contains(err.Error(), "not found") {
			t.Errorf("%s is still there: %v", path, err)
		}
	}
	s.Eventually(t, "the right is taken", func() error {
		if _, err := n1.Do(http.MethodGet, networksPath+only("n1"), "", nil); err == nil {
			return errors.New("it reads")
		}
		return nil
	})

	// A stolen controller makes itself and others no rights that it does not have.
	for what, text := range map[string]string{
		"secrets":    `{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"Role","metadata":{"name":"x"},"rules":[{"apiGroups":[""],"resources":["secrets"],"verbs":["get"]}]}`,
		"everything": `{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"RoleBinding","metadata":{"name":"x"},"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"cluster-admin"},"subjects":[{"apiGroup":"rbac.authorization.k8s.io","kind":"User","name":"alice"}]}`,
	} {
		path := rolesPath
		if what == "everything" {
			path = bindingsPath
		}
		_, err := s.As("weft:controller", "system:authenticated").Do(http.MethodPost, path, "application/json", []byte(text))
		if err == nil || !strings.Contains(err.Error(), "attempting to grant RBAC permissions not currently held") {
			t.Errorf("the controller gives a right to %s: %v", what, err)
		}
	}
}

// install makes what an installation makes for the controller.
func install(t *testing.T, s *apiserver.Server) {
	t.Helper()
	definition, err := crds.Files.ReadFile("weft.net_podnetworks.yaml")
	if err != nil {
		t.Fatal(err)
	}
	const rbac = "/apis/rbac.authorization.k8s.io/v1"
	for text := range strings.SplitSeq(string(definition)+"---\n"+rights.Controller, "---\n") {
		var object metav1.PartialObjectMetadata
		if err := yaml.Unmarshal([]byte(text), &object); err != nil {
			t.Fatal(err)
		}
		within := rbac + "/namespaces/" + object.Namespace
		path := map[string]string{
			"CustomResourceDefinition": "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
			"Namespace":                "/api/v1/namespaces",
			"ClusterRole":              rbac + "/clusterroles", "ClusterRoleBinding": rbac + "/clusterrolebindings",
			"Role": within + "/roles", "RoleBinding": within + "/rolebindings",
		}[object.Kind]
		s.Eventually(t, object.Kind+" "+object.Name+" is made", func() error { return s.Create(path, text) })
	}
	s.Eventually(t, "PodNetworks are served", func() error {
		_, err := s.Do(http.MethodGet, networksPath, "", nil)
		return err
	})
}

func read[T any](t *testing.T, s *apiserver.Server, path string) (object T) {
	t.Helper()
	text, err := s.Do(http.MethodGet, path, "", nil)
	if err == nil {
		err = json.Unmarshal(text, &object)
	}
	if err != nil {
		t.Fatal(err)
	}
	return object
}
