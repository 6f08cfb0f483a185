package manifest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/kubernetes/scheme"
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
	"Namespace": {version: "v1", new: func() metav1.Object { return &corev1.Namespace{} }},
	"Node":      {version: "v1", new: func() metav1.Object { return &corev1.Node{} }},
	"Pod":       {version: "v1", new: func() metav1.Object { return &corev1.Pod{} }, namespaced: true},
	"NetworkPolicy": {version: "networking.k8s.io/v1", new: func() metav1.Object {
		return &networkingv1.NetworkPolicy{}
	}, namespaced: true},
	"ClusterNetworkPolicy": {version: "policy.networking.k8s.io/v1alpha2", new: func() metav1.Object {
		return &v1alpha2.ClusterNetworkPolicy{}
	}},
	"AdminNetworkPolicy": {version: "policy.networking.k8s.io/v1alpha1", new: func() metav1.Object {
		return &v1alpha1.AdminNetworkPolicy{}
	}},
	"BaselineAdminNetworkPolicy": {version: "policy.networking.k8s.io/v1alpha1", new: func() metav1.Object {
		return &v1alpha1.BaselineAdminNetworkPolicy{}
	}},
	"Deployment": workload("apps/v1", func() metav1.Object { return &appsv1.Deployment{} },
		func(o metav1.Object) *corev1.PodTemplateSpec { return &o.(*appsv1.Deployment).Spec.Template }),
	"StatefulSet": workload("apps/v1", func() metav1.Object { return &appsv1.StatefulSet{} },
		func(o metav1.Object) *corev1.PodTemplateSpec { return &o.(*appsv1.StatefulSet).Spec.Template }),
	"DaemonSet": workload("apps/v1", func() metav1.Object { return &appsv1.DaemonSet{} },
		func(o metav1.Object) *corev1.PodTemplateSpec { return &o.(*appsv1.DaemonSet).Spec.Template }),
	"ReplicaSet": workload("apps/v1", func() metav1.Object { return &appsv1.ReplicaSet{} },
		func(o metav1.Object) *corev1.PodTemplateSpec { return &o.(*appsv1.ReplicaSet).Spec.Template }),
	"ReplicationController": workload("v1", func() metav1.Object { return &corev1.ReplicationController{} },
		func(o metav1.Object) *corev1.PodTemplateSpec {
			return cmp.Or(o.(*corev1.ReplicationController).Spec.Template, &corev1.PodTemplateSpec{})
		}),
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

// document reads an object, or a list of them.
func (r *reader) document(d *document) {
	at := place{document: d}
	text, err := yaml.YAMLToJSONStrict(d.text)
	if err != nil {
		r.errs = append(r.errs, fmt.Errorf("%s:%d: %s", d.file, max(d.content, d.first+yamlLine(err)-1), syntax(err)))
		return
	}
	if line := d.leftover(); line > 0 {
		r.errs = append(r.errs, fmt.Errorf("%s:%d: it is not YAML: a document has ended before; begin another one with a "+
			"line ---", d.file, line))
	}
	if string(text) != "null" {
		r.object(at, text, metav1.TypeMeta{})
	}
}

// syntax is what a YAML parser says, without the number of the line.
func syntax(err error) string {
	text := strings.TrimPrefix(lineNumber.ReplaceAllString(err.Error(), ""), "yaml: ")
	return "it is not YAML: " +
		strings.TrimPrefix(strings.Join(strings.Fields(strings.ReplaceAll(text, "unmarshal errors:", "")), " "), ": ")
}

// object reads one; implied are the version and kind that a list's item may leave out.
func (r *reader) object(at place, text []byte, implied metav1.TypeMeta) {
	var head struct {
		metav1.TypeMeta
		Items []json.RawMessage
	}
	if err := json.Unmarshal(text, &head); err != nil {
		r.wrong(at, "", "it is not an object of Kubernetes, which has apiVersion, kind and metadata")
		return
	}
	if head.TypeMeta == (metav1.TypeMeta{}) {
		head.TypeMeta = implied
	}
	if head.Kind == "" || head.APIVersion == "" {
		r.wrong(at, "", "it lacks apiVersion or kind")
		return
	}
	r.found++
	if item, ok := strings.CutSuffix(head.Kind, "List"); ok && head.Items != nil {
		r.list(at, head.Items, metav1.TypeMeta{APIVersion: head.APIVersion, Kind: item})
		return
	}
	version, err := schema.ParseGroupVersion(head.APIVersion)
	if err != nil {
		r.wrong(at, "apiVersion", "apiVersion: %v", err)
		return
	}
	k, known := kinds[head.Kind]
	ours, _ := schema.ParseGroupVersion(k.version)
	own := kindsOf(version.Group)
	builtIn := len(own) > 0 || !strings.Contains(version.Group, ".") // as no other's is
	there := len(scheme.Scheme.VersionsForGroupKind(schema.GroupKind{Group: version.Group, Kind: head.Kind})) > 0
	switch {
	case known && head.APIVersion == k.version:
		r.known(at, head.Kind, k, text)
	case known && (version.Group == ours.Group || version.Group == "extensions"):
		r.wrong(at, "apiVersion", "apiVersion: %s %s is not read; write %s", head.APIVersion, head.Kind, k.version)
	case there || !builtIn:
		r.others[head.Kind]++
	case known:
		r.wrong(at, "apiVersion", "apiVersion: %s has no kind %s; write %s", head.APIVersion, head.Kind, k.version)
	case len(own) > 0:
		r.wrong(at, "kind", "kind: %s has no kind %q that is known here; policies depend on its %s", head.APIVersion,
			head.Kind, strings.Join(own, ", "))
	default:
		r.wrong(at, "apiVersion", "apiVersion: no kind %q of %s is known here; correct the two", head.Kind, head.APIVersion)
	}
}

func (r *reader) list(at place, items []json.RawMessage, implied metav1.TypeMeta) {
	if implied.Kind == "" { // a List of anything
		implied = metav1.TypeMeta{}
	}
	for i, item := range items {
		within := at
		within.item = strings.TrimPrefix(fmt.Sprintf("%s.items[%d]", at.item, i), ".")
		r.object(within, item, implied)
	}
}

// known reads an object of a kind that policies depend on.
func (r *reader) known(at place, name string, k kind, text []byte) {
	o := k.new()
	if faults := decode(text, o); len(faults) > 0 {
		var head struct {
			Metadata struct{ Namespace, Name string }
		}
		_ = json.Unmarshal(text, &head) // as far as it goes
		named := key(&metav1.ObjectMeta{Namespace: head.Metadata.Namespace, Name: head.Metadata.Name})
		for _, f := range faults {
			r.wrong(at, f.field, "%s: %s: %s", strings.TrimSpace(name+" "+named), f.field, f.text)
		}
		return
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
		r.wrong(at, "metadata.name", "%s: metadata.name: %q %s", name, o.GetName(), letters)
		return
	}
	if k.namespaced && len(validation.IsDNS1123Label(o.GetNamespace())) > 0 {
		r.wrong(at, "metadata.namespace", "%s %s: metadata.namespace: %q %s", name, o.GetName(), o.GetNamespace(), letters)
		return
	}
	e := &entry{name: name + " " + key(o), place: at, object: o}
	for _, f := range refused(o, text) {
		e.problems = append(e.problems, Problem{e.name, f.field, f.text})
	}
	if k.template != nil {
		template := k.template(o)
		pod := &corev1.Pod{ObjectMeta: template.ObjectMeta, Spec: template.Spec}
		pod.Name, pod.Namespace, pod.UID = o.GetName(), o.GetNamespace(), types.UID(e.name)
		e.object, e.workload = pod, name
	}
	r.add(e)
}

// add takes in an object. What takes the place of another is as old as that one.
func (r *reader) add(e *entry) {
	before := r.byName[e.name]
	switch {
	case before == nil:
		r.byName[e.name] = e
		r.entries = append(r.entries, e)
	case before.place.source == e.place.source:
		r.wrong(e.place, "", "%s is there already, at %s; remove one", e.name, before.place)
	default:
		r.notes = append(r.notes, fmt.Sprintf("%s: %s takes the place of the one at %s", e.place, e.name, before.place))
		if since := e.object.GetCreationTimestamp(); since.IsZero() {
			e.object.SetCreationTimestamp(before.object.GetCreationTimestamp())
		}
		*before = *e
	}
}

// kindsOf are those of a group that policies depend on.
func kindsOf(group string) []string {
	var list []string
	for name, k := range kinds {
		if version, err := schema.ParseGroupVersion(k.version); err == nil && version.Group == group {
			list = append(list, name)
		}
	}
	slices.Sort(list)
	return list
}
