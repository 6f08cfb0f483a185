package bench

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weftnet/weft/models/api/v1alpha1"
	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/test/bench/load"
)

// tellings is how often each kind of write is made, on how many objects in turn.
const (
	tellings    = 400
	toldObjects = 20
)

// BenchmarkTelling measures what one write costs the API server and etcd by which a node is told addresses: the
// annotation of a pod, or PodNetworks of so many pods. A client watches all objects, as the controller does, and one
// watches those of each node, as its agent does.
func BenchmarkTelling(b *testing.B) {
	server := startAPIServer(b)
	defer server.stop(b)
	server.install(b)
	l := load.Default()
	l.Pods = tellings
	for _, phase := range []phase{l.CreateNodes, l.CreateNamespaces, l.CreatePods} {
		perform(b, server, phase)
	}
	var pods metav1.PartialObjectMetadataList
	if err := server.read(context.Background(), "/api/v1/pods", metadataList, &pods); err != nil {
		b.Fatal(err)
	}
	var r report
	measure := func(form string, write func(i int) error) {
		server.rest(b)
		before := spent(b, server.kube, server.etcd) - spent(b)
		for i := range tellings {
			if err := write(i); err != nil {
				b.Fatal(err)
			}
		}
		cost := spent(b, server.kube, server.etcd) - spent(b) - before
		r.add(form, "CPU of one write", "ms", cost.Seconds()*1000/tellings)
	}
	stop := server.watched(b, "/api/v1/pods", "spec.nodeName", "application/vnd.kubernetes.protobuf;stream=watch")
	measure("annotation", func(i int) error {
		pod := &pods.Items[i]
		return server.api.Patch(context.Background(), "/api/v1/namespaces/"+pod.Namespace+"/pods/"+pod.Name,
			map[string]any{"metadata": map[string]any{"annotations": map[string]string{contract.PodNetworkAnnotation: contract.
				Format(contract.NewPodNetwork(string(pod.UID), toldAddresses(i, 0)))}}})
	})
	stop()
	stop = server.watched(b, networksPath, "metadata.name", "application/json")
	for _, n := range []int{1, 10, 100, 250} {
		object := func(node, change int) v1alpha1.PodNetworks {
			o := v1alpha1.PodNetworks{TypeMeta: metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "PodNetworks"},
				ObjectMeta: metav1.ObjectMeta{Name: load.NodeName(node)}}
			for i := range n {
				pod := &pods.Items[i]
				o.Pods = append(o.Pods, contract.PodAddresses{Pod: pod.Namespace + "/" + pod.Name, UID: string(pod.UID),
					Addresses: toldAddresses(i, change)}.String())
			}
			return o
		}
		for node := range toldObjects {
			o := object(node, 0)
			var err error
			if n == 1 {
				err = server.api.Create(context.Background(), networksPath, o)
			} else {
				err = server.api.Patch(context.Background(), networksPath+"/"+o.Name, map[string]any{"pods": o.Pods})
			}
			if err != nil {
				b.Fatal(err)
			}
		}
		measure(fmt.Sprintf("PodNetworks of %d pods", n), func(i int) error {
			o := object(i%toldObjects, 1+i)
			return server.api.Patch(context.Background(), networksPath+"/"+o.Name, map[string]any{"pods": o.Pods})
		})
	}
	stop()
	r.publish(b)
}

// toldAddresses are those of pod i at a time.
func toldAddresses(i, change int) []netip.Prefix {
	return []netip.Prefix{netip.PrefixFrom(load.PodAddress(i%toldObjects, 3+(i+change)%250), 24)}
}

// watched has a client watch all objects of a collection, and others those of each node, by a field with its name.
func (s *apiserver) watched(b *testing.B, path, field, accept string) (stop func()) {
	b.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	queries := []string{""}
	for node := range toldObjects {
		queries = append(queries, "&fieldSelector="+field+"%3D"+load.NodeName(node))
	}
	client := &http.Client{Transport: s.api.Client.Transport} // without a time limit
	for _, query := range queries {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, apiURL+path+"?watch=1&resourceVersion=0"+query, nil)
		if err != nil {
			b.Fatal(err)
		}
		request.Header.Set("Accept", accept)
		response, err := client.Do(request)
		if err != nil {
			b.Fatal(err)
		}
		go func() {
			defer response.Body.Close()
			_, _ = io.Copy(io.Discard, response.Body) // until it is cancelled
		}()
	}
	return cancel
}
