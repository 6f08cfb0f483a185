package main

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata"

	api "github.com/weftnet/weft/models/api/observe/v1alpha1"
	"github.com/weftnet/weft/ovn/flows"
)

// namespaceKind is that of an object beside those that a filter names.
const namespaceKind = "Namespace"

// namedResources are the resources of the objects that a question about flows names.
var namedResources = map[string]string{namespaceKind: "namespaces", api.NodeEnd: "nodes", api.PodEnd: "pods",
	api.ServiceEnd: "services"}

// checkNames says which of the objects that the question names does not exist. The API server is asked with the user's
// own rights, and of what it does not tell him nothing is said.
func (q *flowsQuestion) checkNames(ctx context.Context) error {
	filter, err := flows.ParseFilter(q.filter, q.namespace)
	if err != nil {
		return err
	}
	client, err := metadata.NewForConfig(q.config)
	if err != nil {
		return err
	}
	for _, object := range q.objects(filter) {
		if isAbsent(ctx, client, object) {
			return absence(object)
		}
	}
	return nil
}

// objects are those that the question names, each after the namespace that it is in.
func (q *flowsQuestion) objects(filter flows.Filter) (list []flows.Object) {
	if q.namespace != "" {
		list = append(list, flows.Object{Kind: namespaceKind, Name: q.namespace})
	}
	for _, object := range filter.Objects() {
		if object.Namespace != "" && object.Namespace != q.namespace {
			list = append(list, flows.Object{Kind: namespaceKind, Name: object.Namespace})
		}
		list = append(list, object)
	}
	return list
}

// isAbsent says whether the API server says that there is no such object.
func isAbsent(ctx context.Context, client metadata.Interface, object flows.Object) bool {
	resource := client.Resource(schema.GroupVersionResource{Version: "v1", Resource: namedResources[object.Kind]})
	if inAny(object) {
		list, err := resource.List(ctx, metav1.ListOptions{Limit: 1,
			FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, object.Name).String()})
		return err == nil && len(list.Items) == 0
	}
	_, err := resource.Namespace(object.Namespace).Get(ctx, object.Name, metav1.GetOptions{})
	return apierrors.IsNotFound(err)
}

// inAny says whether an object may be in any namespace.
func inAny(object flows.Object) bool {
	return object.Namespace == "" && (object.Kind == api.PodEnd || object.Kind == api.ServiceEnd)
}

// absence is the error about an object that does not exist.
func absence(object flows.Object) error {
	where, flag := "", ""
	switch {
	case inAny(object):
		where, flag = " in any namespace", " --all-namespaces"
	case object.Namespace != "":
		where, flag = fmt.Sprintf(" in namespace %q", object.Namespace), " -n "+object.Namespace
	}
	return fmt.Errorf("%s %q does not exist%s: choose one of `kubectl get %s%s`", object.Kind, object.Name, where,
		namedResources[object.Kind], flag)
}
