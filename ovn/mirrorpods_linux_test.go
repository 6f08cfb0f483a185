package ovn

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/weftnet/weft/ovn/northbound"
	"github.com/weftnet/weft/ovn/objects"
	"github.com/weftnet/weft/ovsdb"
	"github.com/weftnet/weft/test/apiserver"
)

const kubeSystemPods = "/api/v1/namespaces/kube-system/pods"

// TestANodesMirrorPodsOpenNothing: everything is tried with pods on an API server, with a kubelet's credentials. What
// comes of it changes nothing in the Northbound but what is that node's.
func TestANodesMirrorPodsOpenNothing(t *testing.T) {
	s := apiserver.Start(t)
	s.Eventually(t, "kube-system is there", func() error {
		_, err := s.Do(http.MethodGet, "/api/v1/namespaces/kube-system", "", nil)
		return err
	})
	const replicaSet = "{apiVersion: apps/v1, kind: ReplicaSet, name: coredns, uid: r, controller: true}"
	for path, text := range map[string]string{
		"/api/v1/nodes": "{apiVersion: v1, kind: Node, metadata: {name: l2}}",
		kubeSystemPods: "{apiVersion: v1, kind: Pod, metadata: {name: coredns, labels: {k8s-app: kube-dns}, " +
			"ownerReferences: [" + replicaSet + "]}," +
			" spec: {nodeName: l1, automountServiceAccountToken: false, containers: [{name: c, image: i}]}}",
	} {
		if err := s.Create(path, text); err != nil {
			t.Fatal(err)
		}
	}
	var node corev1.Node
	read(t, s, "/api/v1/nodes/l2", &node)
	kubelet := s.As("system:node:l2", "system:nodes", "system:authenticated")
	own := fmt.Sprintf("{apiVersion: v1, kind: Node, name: l2, uid: %s, controller: true}", node.UID)
	mirror := func(name, owners string) string { return kubeDNSPod(name, corev1.MirrorPodAnnotationKey, owners) }
	s.Eventually(t, "a kubelet makes a mirror pod", func() error { // rights count soon after the start
		return kubelet.Create(kubeSystemPods, mirror("fake", own))
	})
	for name, text := range map[string]string{
		"no mirror pod":                 kubeDNSPod("a", "example.net/a", own),
		"a mirror pod of a ReplicaSet":  mirror("b", replicaSet),
		"a mirror pod of two":           mirror("c", own+", {apiVersion: apps/v1, kind: ReplicaSet, name: coredns, uid: r}"),
		"a mirror pod of nobody":        mirror("d", ""),
		"a mirror pod to be adopted":    mirror("e", strings.Replace(own, "controller: true", "controller: false", 1)),
		"a mirror pod on another node":  strings.Replace(mirror("f", own), "nodeName: l2", "nodeName: l1", 1),
		"a mirror pod to be placed yet": strings.Replace(mirror("g", own), "nodeName: l2, ", "", 1),
	} {
		if err := kubelet.Create(kubeSystemPods, text); err == nil || !strings.Contains(err.Error(), "403") {
			t.Errorf("%s: want it forbidden, got %v", name, err)
		}
	}
	// Changes may be refused, or do nothing: what counts is the pod afterwards.
	for _, patch := range []string{
		`{"metadata":{"annotations":{"kubernetes.io/config.mirror":null}}}`,
		`{"metadata":{"ownerReferences":[{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"coredns","uid":"r","controller":true}]}}`,
		`{"metadata":{"ownerReferences":null}}`,
		`{"spec":{"nodeName":"l2"}}`,
		`{"status":{"phase":"Running","podIP":"10.244.1.9","podIPs":[{"ip":"10.244.1.9"}],"conditions":[{"type":"Ready","status":"True"}]}}`,
	} {
		for _, path := range []string{"/fake", "/fake/status", "/coredns", "/coredns/status"} {
			_, err := kubelet.Do(http.MethodPatch, kubeSystemPods+path, "application/merge-patch+json", []byte(patch))
			if strings.HasPrefix(path, "/coredns") && err == nil {
				t.Errorf("a node changes another node's pod: %s %s", path, patch)
			}
		}
	}
	var fake, server corev1.Pod
	read(t, s, kubeSystemPods+"/fake", &fake)
	read(t, s, kubeSystemPods+"/coredns", &server)
	if len(fake.Status.PodIPs) == 0 || len(fake.Status.Conditions) == 0 { // as no endpoint it would show nothing
		t.Fatalf("a kubelet gives its mirror pod no address: %+v", fake.Status)
	}
	judgeMirrorPod(t, &server, &fake)
}

// kubeDNSPod is a pod on l2 that the Service kube-dns selects.
func kubeDNSPod(name, annotation, owners string) string {
	return "{apiVersion: v1, kind: Pod, metadata: {name: " + name + ", labels: {k8s-app: kube-dns}, annotations: {" +
		annotation + ": x}, ownerReferences: [" + owners + "]}," +
		" spec: {nodeName: l2, containers: [{name: c, image: i}]}}"
}

func read(t *testing.T, s *apiserver.Server, path string, into any) {
	t.Helper()
	text, err := s.Do(http.MethodGet, path, "", nil)
	if err == nil {
		err = json.Unmarshal(text, into)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// judgeMirrorPod compares the Northbound before the mirror pod, its endpoint, and its node's word came, with that
// after.
func judgeMirrorPod(t *testing.T, server, fake *corev1.Pod) {
	t.Helper()
	s := newDNSScene(t)
	s.touch(s.w.put(s.w.node("l1", "10.244.0.0/24", "fd00:10:244::/64"), s.w.node("l2", "10.244.1.0/24",
		"fd00:10:244:1::/64")))
	s.c.domains.Use("db.example.com", 1)
	endpoints := func(of ...*corev1.Pod) *objects.EndpointSlice {
		object := objects.TrimSlice(dnsSlice())
		object.Endpoints = nil
		for i, o := range of {
			e := ready(fmt.Sprintf("10.244.%d.9", i), o.Spec.NodeName)
			e.Pod = o.UID
			object.Endpoints = append(object.Endpoints, e)
		}
		return object
	}
	s.touch(s.w.put(objects.TrimPod(server), endpoints(server)))
	s.saw("l1", "db.example.com 203.0.113.1 90")
	before := rowsBeside(s.c, "l2", fake)
	if set := before[northbound.DomainOwner("db.example.com")]; !strings.Contains(set, "203.0.113.1") {
		t.Fatalf("the true server's answer does not count: %s", set)
	}
	s.touch(s.w.put(objects.TrimPod(fake), endpoints(server, fake)))
	s.saw("l2", "db.example.com 203.0.113.66 90")
	after := rowsBeside(s.c, "l2", fake)
	for owner := range after {
		if before[owner] != after[owner] {
			t.Errorf("%s was\n%s\nand is\n%s", owner, before[owner], after[owner])
		}
	}
	if len(before) != len(after) {
		t.Errorf("%d owners of rows became %d", len(before), len(after))
	}
}

// rowsBeside are all rows by owner, without those of a node and of a pod on it.
func rowsBeside(c *cluster, node string, o *corev1.Pod) map[ovsdb.Owner]string {
	all := map[ovsdb.Owner]string{}
	for _, change := range c.takeEverything() {
		if change.Owner != northbound.NodeOwner(node) && change.Owner != northbound.PodOwner(objects.FullName(o.Namespace,
			o.Name)) {
			change.With = false // with what it is written is no matter of the rows
			text, _ := json.Marshal(change)
			all[change.Owner] = string(text)
		}
	}
	return all
}
