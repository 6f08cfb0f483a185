package sysdump

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/ovn/observe/redact"
)

// kind is a list of objects of Kubernetes, and the fields that are read of each.
type kind struct {
	file, path     string
	labels, fields string // selectors
	keep           []string
}

// page is how many objects one answer of the API server has, and mostPages bounds the answers.
const (
	page      = 500
	mostPages = 100
)

const (
	policyPath = "/apis/policy.networking.k8s.io/v1alpha1/"
	leasePath  = "/apis/coordination.k8s.io/v1/namespaces/"
)

var (
	wholeObject = []string{"spec", "status"}
	eventFields = []string{"involvedObject", "reason", "message", "type", "count", "firstTimestamp", "lastTimestamp",
		"source"}
)

// objects are what is read of Kubernetes: Weft's own kinds, and what it works on.
var objects = []kind{
	{file: "nodes", path: "/api/v1/nodes", keep: []string{"spec.podCIDRs", "spec.taints", "spec.unschedulable",
		"status.addresses", "status.conditions", "status.nodeInfo"}},
	{file: "pods", path: "/api/v1/pods", labels: weftPods, keep: []string{"spec.nodeName", "status"}},
	{file: "events-controller", path: "/api/v1/events", fields: "source=weft-controller", keep: eventFields},
	{file: "events-node", path: "/api/v1/events", fields: "source=weft-node", keep: eventFields},
	{file: "events-chassis", path: "/api/v1/events", fields: "source=weft-chassis", keep: eventFields},
	{file: "lease-controller", path: leasePath + "kube-system/leases", fields: "metadata.name=weft-controller",
		keep: wholeObject},
	{file: "leases-chassis", path: leasePath + "kube-system/leases", labels: contract.ChassisLeaseLabel,
		keep: wholeObject},
	{file: "leases-observe", path: leasePath + "weft-observe/leases", keep: wholeObject},
	{file: "endpointslices-observe", path: "/apis/discovery.k8s.io/v1/namespaces/weft-observe/endpointslices",
		keep: []string{"addressType", "endpoints", "ports"}},
	{file: "apiservice", path: "/apis/apiregistration.k8s.io/v1/apiservices",
		fields: "metadata.name=v1alpha1.observe.weft.net", keep: []string{"spec.service", "status"}},
	{file: "egressips", path: "/apis/weft.net/v1alpha1/egressips", keep: wholeObject},
	{file: "addresspools", path: "/apis/weft.net/v1alpha1/addresspools", keep: wholeObject},
	{file: "resolvednames", path: "/apis/weft.net/v1alpha1/resolvednames", keep: []string{"names"}},
	{file: "podnetworks", path: "/apis/weft.net/v1alpha1/podnetworks", keep: []string{"pods"}},
	{file: "networkpolicies", path: "/apis/networking.k8s.io/v1/networkpolicies", keep: wholeObject},
	{file: "clusternetworkpolicies", path: "/apis/policy.networking.k8s.io/v1alpha2/clusternetworkpolicies",
		keep: wholeObject},
	{file: "adminnetworkpolicies", path: policyPath + "adminnetworkpolicies", keep: wholeObject},
	{file: "baselineadminnetworkpolicies", path: policyPath + "baselineadminnetworkpolicies", keep: wholeObject},
}

func (k kind) collect(ctx context.Context, r *run) error {
	return r.file(ctx, "kubernetes/"+k.file+".jsonl", func(ctx context.Context, w io.Writer) error {
		encoder := json.NewEncoder(w)
		err := k.list(ctx, r, func(object *unstructured.Unstructured) error { return encoder.Encode(k.cut(object)) })
		if apierrors.IsNotFound(err) {
			return nil // a kind that the API server need not have
		}
		return err
	})
}

// list gives the objects one after the other.
func (k kind) list(ctx context.Context, r *run, each func(*unstructured.Unstructured) error) error {
	more := ""
	for range mostPages {
		stream, err := r.get(ctx, k.path, map[string]string{"limit": strconv.Itoa(page), "labelSelector": k.labels,
			"fieldSelector": k.fields, "continue": more})
		if err != nil {
			return err
		}
		var answer struct {
			Metadata struct{ Continue string }
			Items    []map[string]any
		}
		err = errors.Join(json.NewDecoder(io.LimitReader(stream, maxFile)).Decode(&answer), stream.Close())
		if err != nil {
			return fmt.Errorf("read the list of %s: %w", k.path, errors.Join(err, ctx.Err()))
		}
		for _, item := range answer.Items {
			if err := each(&unstructured.Unstructured{Object: item}); err != nil {
				return err
			}
		}
		if more = answer.Metadata.Continue; more == "" {
			return nil
		}
	}
	return fmt.Errorf("there are more than %d, which are left out", page*mostPages)
}

// keptMetadata is what is read of each object's metadata, beside annotations.
var keptMetadata = []string{"name", "namespace", "uid", "generation", "creationTimestamp", "deletionTimestamp",
	"labels"}

// cut is the part of an object that the archive has, without secrets.
func (k kind) cut(o *unstructured.Unstructured) any {
	kept := map[string]any{}
	for _, field := range keptMetadata {
		keep(kept, o.Object, "metadata."+field)
	}
	for _, field := range k.keep {
		keep(kept, o.Object, field)
	}
	annotations := map[string]any{}
	for key, value := range o.GetAnnotations() {
		if !strings.HasPrefix(key, ownPrefix) {
			value = redact.LeftOut
		}
		annotations[key] = value
	}
	if len(annotations) > 0 {
		kept["metadata"].(map[string]any)["annotations"] = annotations
	}
	return redact.Value(kept)
}

// ownPrefix begins the annotations that Weft writes or serves.
const ownPrefix = "weft.net/"

// keep copies a field, whose path has points, from one object to another.
func keep(to, from map[string]any, path string) {
	fields := strings.Split(path, ".")
	if value, found, err := unstructured.NestedFieldNoCopy(from, fields...); found && err == nil {
		_ = unstructured.SetNestedField(to, value, fields...) // the way to it is made of objects
	}
}
