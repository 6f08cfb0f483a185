package manifest

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/network-policy-api/apis/v1alpha1"
	"sigs.k8s.io/network-policy-api/apis/v1alpha2"
	"sigs.k8s.io/yaml"
)

// kind is a kind that policies depend on.
type kind struct {
	version string // group and version
	new     func() metav1.Object
	// template is that of the pods that a workload makes.
	template   func(metav1.Object) *corev1.PodTemplateSpec
	namespaced bool
}

var kinds = map[string]kind{
	"Namespace":                  {version: "v1", new: func() metav1.Object { return &corev1.Namespace{} }},
	"Node":                       {version: "v1", new: func() metav1.Object { return &corev1.Node{} }},
	"Pod":                        {version: "v1", new: func() metav1.Object { return &corev1.Pod{} }, namespaced: true},
	"NetworkPolicy":              {version: "networking.k8s.io/v1", new: func() metav1.Object { return &networkingv1.NetworkPolicy{} }, namespaced: true},
	"ClusterNetworkPolicy":       {version: "policy.networking.k8s.io/v1alpha2", new: func() metav1.Object { return &v1alpha2.ClusterNetworkPolicy{} }},
	"AdminNetworkPolicy":         {version: "policy.networking.k8s.io/v1alpha1", new: func() metav1.Object { return &v1alpha1.AdminNetworkPolicy{} }},
	"BaselineAdminNetworkPolicy": {version: "policy.networking.k8s.io/v1alpha1", new: func() metav1.Object { return &v1alpha1.BaselineAdminNetworkPolicy{} }},
	"Deployment": workload("apps/v1", func() metav1.Object { return &appsv1.Deployment{} },
		func(o metav1.Object) *corev1.PodTemplateSpec { return &o.(*appsv1.Deployment).Spec.Template }),
	"StatefulSet": workload("apps/v1", func() metav1.Object { return &appsv1.StatefulSet{} },
		func(o metav1.Object) *corev1.PodTemplateSpec { return &o.(*appsv1.StatefulSet).Spec.Template }),
	"DaemonSet": workload("apps/v1", func() metav1.Object { return &appsv1.DaemonSet{} },
		func(o metav1.Object) *corev1.PodTemplateSpec { return &o.(*appsv1.DaemonSet).Spec.Template }),
	"ReplicaSet": workload("apps/v1", func() metav1.Object { return &appsv1.ReplicaSet{} },
		func(o metav1.Object) *corev1.PodTemplateSpec { return &o.(*appsv1.ReplicaSet).Spec.Template }),
	"Job": workload("batch/v1", func() metav1.Object { return &batchv1.Job{} },
		func(o metav1.Object) *corev1.PodTemplateSpec { return &o.(*batchv1.Job).Spec.Template }),
	"CronJob": workload("batch/v1", func() metav1.Object { return &batchv1.CronJob{} },
		func(o metav1.Object) *corev1.PodTemplateSpec {
			return &o.(*batchv1.CronJob).Spec.JobTemplate.Spec.Template
		}),
}

func workload(version string, new func() metav1.Object, template func(metav1.Object) *corev1.PodTemplateSpec) kind {
	return kind{version, new, template, true}
}

// others are kinds of the policies' own API groups that policies do not depend on. Any further one there is
// a mistake.
var others = map[string][]string{
	"networking.k8s.io":        {"Ingress", "IngressClass", "IPAddress", "ServiceCIDR"},
	"policy.networking.k8s.io": nil,
	"extensions":               {"Ingress"},
}

// document reads an object, or a list of them.
func (r *reader) document(where string, d document) error {
	text, err := yaml.YAMLToJSONStrict(d.text)
	if err != nil {
		return yamlError{err}
	}
	if string(text) == "null" {
		return nil
	}
	return r.object(where, text, metav1.TypeMeta{})
}

// object reads one; implied are the version and kind that a list's item may leave out.
func (r *reader) object(where string, text []byte, implied metav1.TypeMeta) error {
	var head struct {
		metav1.TypeMeta
		Items []json.RawMessage
	}
	if err := json.Unmarshal(text, &head); err != nil {
		return errors.New("it is not an object of Kubernetes, which has apiVersion, kind and metadata")
	}
	if head.TypeMeta == (metav1.TypeMeta{}) {
		head.TypeMeta = implied
	}
	if head.Kind == "" || head.APIVersion == "" {
		return errors.New("it lacks apiVersion or kind")
	}
	if item, ok := strings.CutSuffix(head.Kind, "List"); ok {
		return r.list(where, head.Items, metav1.TypeMeta{APIVersion: head.APIVersion, Kind: item})
	}
	version, err := schema.ParseGroupVersion(head.APIVersion)
	if err != nil {
		return fmt.Errorf("apiVersion: %w", err)
	}
	k, known := kinds[head.Kind]
	own, strict := others[version.Group]
	ours, _ := schema.ParseGroupVersion(k.version)
	switch {
	case known && head.APIVersion == k.version:
		return r.known(where, head.Kind, k, text)
	case known && (version.Group == ours.Group || version.Group == "extensions"):
		return fmt.Errorf("apiVersion: %s %s is not read; write %s", head.APIVersion, head.Kind, k.version)
	case strict && !slices.Contains(own, head.Kind):
		return fmt.Errorf("kind: %s has no kind %q that is known here; it has %s", head.APIVersion, head.Kind, strings.Join(kindsOf(version.Group), ", "))
	}
	r.Others[head.Kind]++
	return nil
}

func (r *reader) list(where string, items []json.RawMessage, implied metav1.TypeMeta) error {
	if implied.Kind == "" { // a List of anything
		implied = metav1.TypeMeta{}
	}
	var wrong []string
	for i, item := range items {
		if err := r.object(fmt.Sprintf("%s (items[%d])", where, i), item, implied); err != nil {
			wrong = append(wrong, fmt.Sprintf("items[%d]: %v", i, err))
		}
	}
	if len(wrong) > 0 {
		return errors.New(strings.Join(wrong, "; "))
	}
	return nil
}

// known reads an object of a kind that policies depend on. A field that the kind does not have is an error.
func (r *reader) known(where, name string, k kind, text []byte) error {
	o := k.new()
	wrong, err := kjson.UnmarshalStrict(text, o)
	if err = errors.Join(append(wrong, err)...); err != nil {
		return fmt.Errorf("%s: %s", strings.TrimSpace(name+" "+key(o)), strings.ReplaceAll(err.Error(), "\n", "; "))
	}
	if k.namespaced && o.GetNamespace() == "" {
		o.SetNamespace(r.namespace)
	}
	if o.GetName() == "" && o.GetGenerateName() != "" {
		o.SetName(strings.TrimRight(o.GetGenerateName(), "-."))
	}
	if !k.namespaced {
		o.SetNamespace("")
	}
	const letters = "is not a name of lower case letters, digits and '-'"
	if len(validation.IsDNS1123Subdomain(o.GetName())) > 0 {
		return fmt.Errorf("%s: metadata.name: %q %s", name, o.GetName(), letters)
	}
	if k.namespaced && len(validation.IsDNS1123Label(o.GetNamespace())) > 0 {
		return fmt.Errorf("%s %s: metadata.namespace: %q %s", name, o.GetName(), o.GetNamespace(), letters)
	}
	id := name + " " + key(o)
	if before := r.where[id]; before != "" {
		return fmt.Errorf("%s is there already, at %s; remove one", id, before)
	}
	r.where[id] = where
	if k.template == nil {
		r.Objects = append(r.Objects, o.(runtime.Object))
		return nil
	}
	template := k.template(o)
	pod := &corev1.Pod{ObjectMeta: template.ObjectMeta, Spec: template.Spec}
	pod.Name, pod.Namespace, pod.UID = o.GetName(), o.GetNamespace(), types.UID(id)
	r.workloads[id] = name
	r.Objects = append(r.Objects, pod)
	return nil
}

// yamlError is one of syntax.
type yamlError struct{ error }

var lineNumber = regexp.MustCompile(`line (\d+)`)

func (e yamlError) Error() string {
	text := strings.TrimPrefix(lineNumber.ReplaceAllString(e.error.Error(), ""), "yaml: ")
	return "it is not YAML: " + strings.TrimPrefix(strings.Join(strings.Fields(strings.ReplaceAll(text, "unmarshal errors:", "")), " "), ": ")
}

// line is where an error is, as far as that is known.
func (d *document) line(err error) int {
	var syntax yamlError
	if errors.As(err, &syntax) {
		if found := lineNumber.FindStringSubmatch(syntax.error.Error()); found != nil {
			if n, err := strconv.Atoi(found[1]); err == nil {
				return d.first + n - 1
			}
		}
	}
	return d.content
}

func kindsOf(group string) []string {
	var list []string
	for name, k := range kinds {
		if version, err := schema.ParseGroupVersion(k.version); err == nil && version.Group == group {
			list = append(list, name)
		}
	}
	return slices.Sorted(slices.Values(append(list, others[group]...)))
}
