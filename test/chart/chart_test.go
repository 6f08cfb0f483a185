package chart

import (
	"encoding/json"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	helmchart "helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/kubernetes/scheme"
	apiregistration "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"sigs.k8s.io/yaml"
)

const (
	folder    = "../../cmd/release/chart"
	roles     = "../../ansible/roles"
	namespace = "kube-system"
)

// least are the values that a cluster with TLS must give. With doors and agents the other parts run, too.
const (
	least = `{apiServer: {host: 192.0.2.1}, controller: {tlsSecret: weft-controller-ovn, config: {
		ovn-northbound: ["ssl:192.0.2.11:6641", "ssl:192.0.2.12:6641"], pod-cidrs: [10.244.0.0/16], service-cidrs: [10.96.0.0/16]}}}`
	doors = `{observe: {enabled: true, tlsSecret: weft-observe-tunnel, sockets: {group: 998},
		caBundle: "-----BEGIN CERTIFICATE-----\nAA==\n-----END CERTIFICATE-----\n"}}`
	agents = `{node: {enabled: true, config: {ovn-southbound: ["ssl:192.0.2.11:6642"]}}}`
)

func load(t *testing.T) *helmchart.Chart {
	t.Helper()
	chart, err := loader.LoadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	return chart
}

// valuesOf are some values, of which later ones overrule former ones.
func valuesOf(t *testing.T, texts ...string) map[string]any {
	t.Helper()
	all := map[string]any{}
	for _, text := range texts {
		var values map[string]any
		if err := yaml.Unmarshal([]byte(text), &values); err != nil {
			t.Fatalf("%v: %s", err, text)
		}
		all = chartutil.MergeTables(values, all)
	}
	return all
}

// render has Helm make the texts of a release, by the names of the templates.
func render(t *testing.T, values ...string) (map[string]string, error) {
	t.Helper()
	chart := load(t)
	all, err := chartutil.ToRenderValues(chart, valuesOf(t, values...), chartutil.ReleaseOptions{Name: "weft",
		Namespace: namespace}, chartutil.DefaultCapabilities)
	if err != nil {
		return nil, err
	}
	return engine.Render(chart, all)
}

// rendered are a release's objects by kind and name, and by the namespace if it is another one. Kubernetes' own types
// read them, and know all of their fields.
func rendered(t *testing.T, values ...string) map[string]runtime.Object {
	t.Helper()
	texts, err := render(t, values...)
	if err != nil {
		t.Fatal(err)
	}
	types := runtime.NewScheme()
	if err := errors.Join(scheme.AddToScheme(types), apiregistration.AddToScheme(types)); err != nil {
		t.Fatal(err)
	}
	decoder := serializer.NewCodecFactory(types, serializer.EnableStrict).UniversalDeserializer()
	objects := map[string]runtime.Object{}
	for name, text := range texts {
		if filepath.Ext(name) != ".yaml" {
			continue
		}
		for document := range strings.SplitSeq(text, "\n---\n") {
			if strings.Trim(document, "-\n ") == "" {
				continue
			}
			object, kind, err := decoder.Decode([]byte(document), nil, nil)
			if err != nil {
				t.Fatalf("%s: %v:\n%s", name, err, document)
			}
			key := kind.Kind + " " + object.(metav1.Object).GetName()
			if in := object.(metav1.Object).GetNamespace(); in != "" && in != namespace {
				key += " of " + in
			}
			if objects[key] != nil {
				t.Errorf("there are two objects %s", key)
			}
			objects[key] = object
		}
	}
	return objects
}

// get is one of the objects.
func get[T runtime.Object](t *testing.T, objects map[string]runtime.Object, key string) T {
	t.Helper()
	object, ok := objects[key].(T)
	if !ok {
		t.Fatalf("there is no %s among %v", key, slices.Sorted(maps.Keys(objects)))
	}
	return object
}

func TestObjects(t *testing.T) {
	controllers := []string{
		"ClusterRole weft-chassis", "ClusterRole weft-controller", "ClusterRole weft-node",
		"ClusterRoleBinding weft-chassis", "ClusterRoleBinding weft-controller", "ClusterRoleBinding weft-node",
		"ConfigMap weft-controller", "Deployment weft-controller", "Namespace weft-nodes",
		"PodDisruptionBudget weft-controller", "Role weft-chassis", "Role weft-controller",
		"Role weft-controller of weft-nodes",
		"RoleBinding weft-chassis", "RoleBinding weft-controller", "RoleBinding weft-controller of weft-nodes",
		"ServiceAccount weft-controller", "ValidatingAdmissionPolicy weft-annotations",
		"ValidatingAdmissionPolicy weft-chassis-leases", "ValidatingAdmissionPolicy weft-resolved-names",
		"ValidatingAdmissionPolicyBinding weft-annotations", "ValidatingAdmissionPolicyBinding weft-chassis-leases",
		"ValidatingAdmissionPolicyBinding weft-resolved-names",
	}
	if found := slices.Sorted(maps.Keys(rendered(t, least))); !slices.Equal(found, controllers) {
		t.Errorf("the objects are:\n%s", strings.Join(found, "\n"))
	}
	objects := rendered(t, least, doors)
	for _, key := range []string{"APIService v1alpha1.observe.weft.net", "Namespace weft-observe",
		"Service weft-observe of weft-observe", "RoleBinding weft-observe of weft-observe", "RoleBinding weft-observe",
		"Deployment weft-observe", "PodDisruptionBudget weft-observe", "ServiceAccount weft-observe"} {
		if objects[key] == nil {
			t.Errorf("with doors there is no %s", key)
		}
	}
	api := get[*apiregistration.APIService](t, objects, "APIService v1alpha1.observe.weft.net")
	if !strings.HasPrefix(string(api.Spec.CABundle), "-----BEGIN CERTIFICATE-----\n") {
		t.Errorf("caBundle of the APIService is %q", api.Spec.CABundle)
	}
}

// TestAgents: each is told of its own node, and has the files of its own host.
func TestAgents(t *testing.T) {
	if objects := rendered(t, least); objects["DaemonSet weft-node"] != nil || objects["ConfigMap weft-node"] != nil {
		t.Error("there are agents that nobody has asked for")
	}
	objects := rendered(t, least, agents, `{image: {pullPolicy: Never}, node: {nodeSelector: {pool: a}, kubeconfig: /etc/k/conf,
		config: {cni-conf-dir: /etc/cni/other, cni-cache-dir: /var/cni}}}`)
	pod := get[*appsv1.DaemonSet](t, objects, "DaemonSet weft-node").Spec.Template.Spec
	if want := map[string]string{"kubernetes.io/os": "linux", "pool": "a"}; !maps.Equal(pod.NodeSelector, want) {
		t.Errorf("the agents are on nodes with %v", pod.NodeSelector)
	}
	if !pod.HostNetwork || *pod.AutomountServiceAccountToken {
		t.Errorf("the pod has the host's network %v, and an account %v", pod.HostNetwork, *pod.AutomountServiceAccountToken)
	}
	container := pod.Containers[0]
	fields := map[string]string{}
	for _, v := range container.Env {
		fields[v.Name] = v.ValueFrom.FieldRef.FieldPath
	}
	want := map[string]string{"WEFT_NODE_NAME": "spec.nodeName", "WEFT_ENCAP_ADDRESS": "status.hostIP"}
	if !maps.Equal(fields, want) {
		t.Errorf("the variables are %v", fields)
	}
	var writes []string
	for _, mount := range container.VolumeMounts {
		if !mount.ReadOnly {
			writes = append(writes, mount.MountPath)
		}
	}
	if want := []string{"/run", "/var/lib/weft/node", "/etc/cni/other", "/var/cni"}; !slices.Equal(writes, want) {
		t.Errorf("it may write %v", writes)
	}
	if s := settings(t, objects, "node"); s["kubeconfig"] != "/etc/k/conf" ||
		s["ovs-database"] != "unix:/run/openvswitch/db.sock" {
		t.Errorf("the configuration is %v", s)
	}
	live, ready := container.LivenessProbe.HTTPGet, container.ReadinessProbe.HTTPGet
	if at := defaultOf(t, "node", "metrics-address"); live.Host+":"+live.Port.String() != at ||
		ready.Host+":"+ready.Port.String() != at {
		t.Errorf("it serves at %s, and the probes are %+v and %+v", at, live, ready)
	}
	for _, c := range append(pod.InitContainers, container) {
		if c.Image != "localhost/weft-node:0.0.0" || c.ImagePullPolicy != corev1.PullNever {
			t.Errorf("container %s has image %s, and pulls it %s", c.Name, c.Image, c.ImagePullPolicy)
		}
	}
	if plugin := pod.InitContainers[0]; *plugin.SecurityContext.AllowPrivilegeEscalation ||
		plugin.Command[2] != plugin.VolumeMounts[0].MountPath {
		t.Errorf("the container that brings the plugin is %+v", plugin)
	}
}

// TestKubeconfigMayBeAmongTheFiles: Kubernetes takes no two volumes at one place.
func TestKubeconfigMayBeAmongTheFiles(t *testing.T) {
	for kubeconfig, want := range map[string]int{"/etc/weft/kubelet.conf": 1, "/etc/other/kubelet.conf": 2} {
		objects := rendered(t, least, agents, `{node: {kubeconfig: `+kubeconfig+`}}`)
		pod := get[*appsv1.DaemonSet](t, objects, "DaemonSet weft-node").Spec.Template.Spec
		var folders []string
		for _, mount := range pod.Containers[0].VolumeMounts {
			if mount.Name == "files" || mount.Name == "kubeconfig" {
				folders = append(folders, mount.MountPath)
			}
		}
		if len(folders) != want || !slices.Contains(folders, filepath.Dir(kubeconfig)) {
			t.Errorf("with the kubeconfig %s the pod has the folders %v", kubeconfig, folders)
		}
	}
}

// TestNodesOfControllersCanBeOthers: Helm adds labels to those of the chart, and null takes one out.
func TestNodesOfControllersCanBeOthers(t *testing.T) {
	const role = "node-role.kubernetes.io/control-plane"
	for values, want := range map[string]map[string]string{
		"{pool: a}":                     {role: "", "pool": "a"},
		"{pool: a, " + role + `: null}`: {"pool": "a"},
	} {
		objects := rendered(t, least, `{controller: {nodeSelector: `+values+`}}`)
		pod := get[*appsv1.Deployment](t, objects, "Deployment weft-controller").Spec.Template.Spec
		if !maps.Equal(pod.NodeSelector, want) {
			t.Errorf("with %s the controllers are on nodes with %v", values, pod.NodeSelector)
		}
	}
}

// TestAgentsHaveTheAddressThatTheyAreTold: a variable would overrule the file.
func TestAgentsHaveTheAddressThatTheyAreTold(t *testing.T) {
	objects := rendered(t, least, agents, `{node: {config: {encap-address: 192.0.2.12}}}`)
	for _, v := range get[*appsv1.DaemonSet](t, objects, "DaemonSet weft-node").Spec.Template.Spec.Containers[0].Env {
		if v.Name == "WEFT_ENCAP_ADDRESS" {
			t.Errorf("the variables have %+v", v)
		}
	}
	if s := settings(t, objects, "node"); s["encap-address"] != "192.0.2.12" {
		t.Errorf("the configuration is %v", s)
	}
}

// TestPodsHaveNoRights: root's or the host's.
func TestPodsHaveNoRights(t *testing.T) {
	objects := rendered(t, least, doors)
	for _, name := range []string{"weft-controller", "weft-observe"} {
		deployment := get[*appsv1.Deployment](t, objects, "Deployment "+name)
		pod := deployment.Spec.Template.Spec
		if c := pod.SecurityContext; !*c.RunAsNonRoot || *c.RunAsUser != 65532 || *c.FSGroup != 65532 ||
			c.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault {
			t.Errorf("%s: the pod's security context is %+v", name, c)
		}
		c := pod.Containers[0].SecurityContext
		if *c.AllowPrivilegeEscalation || !*c.ReadOnlyRootFilesystem || len(c.Capabilities.Add) > 0 ||
			!slices.Equal(c.Capabilities.Drop, []corev1.Capability{"ALL"}) {
			t.Errorf("%s: the container's security context is %+v", name, c)
		}
		for i, mount := range pod.Containers[0].VolumeMounts {
			if !mount.ReadOnly && pod.Volumes[i].EmptyDir == nil {
				t.Errorf("%s: it may write %s", name, mount.MountPath)
			}
		}
		budget := get[*policyv1.PodDisruptionBudget](t, objects, "PodDisruptionBudget "+name)
		if labels := deployment.Spec.Template.Labels; budget.Spec.MaxUnavailable.IntVal != 1 ||
			labels["app.kubernetes.io/name"] != budget.Spec.Selector.MatchLabels["app.kubernetes.io/name"] {
			t.Errorf("%s: the budget %+v is not for pods with %v", name, budget.Spec, labels)
		}
		if !pod.HostNetwork || *deployment.Spec.Replicas != 2 || pod.ServiceAccountName != name {
			t.Errorf("%s: the Deployment is %+v", name, deployment.Spec)
		}
	}
	if groups := get[*appsv1.Deployment](t, objects, "Deployment weft-observe").Spec.Template.Spec.SecurityContext.
		SupplementalGroups; !slices.Equal(groups, []int64{998}) {
		t.Errorf("the door is in the groups %v", groups)
	}
}

// TestAccountsHaveTheUsersRights: wherever the manifests name the user of a part, they name the pods' account, too.
func TestAccountsHaveTheUsersRights(t *testing.T) {
	objects := rendered(t, least, doors)
	subjects := map[string][]rbacv1.Subject{}
	for key, object := range objects {
		switch o := object.(type) {
		case *rbacv1.ClusterRoleBinding:
			subjects[key] = o.Subjects
		case *rbacv1.RoleBinding:
			subjects[key] = o.Subjects
		}
	}
	found := map[string]bool{}
	for key, those := range subjects {
		for _, s := range those {
			account, ours := strings.CutPrefix(s.Name, "weft:")
			if !ours || account == "chassis" {
				continue
			}
			found[account] = true
			if !slices.Contains(those, rbacv1.Subject{Kind: "ServiceAccount", Name: "weft-" + account, Namespace: namespace}) {
				t.Errorf("%s has only the subjects %v", key, those)
			}
		}
	}
	if got := slices.Sorted(maps.Keys(found)); !slices.Equal(got, []string{"controller", "observe"}) {
		t.Errorf("the bindings %v are of the users %v of Weft", slices.Sorted(maps.Keys(subjects)), got)
	}
}

// TestSettingsAreThoseOfTheRoles: what the roles tell a part, the chart tells it or asks for. The pods' accounts are in
// place of a kubeconfig.
func TestSettingsAreThoseOfTheRoles(t *testing.T) {
	objects := rendered(t, least, doors)
	for part, variables := range map[string][]string{
		"controller": {"weft_controller_keys", "weft_controller_tls_keys"}, "observe": {"weft_observe_keys"},
	} {
		var told []string
		for _, variable := range variables {
			told = slices.AppendSeq(told, maps.Keys(roleVariable(t, part, variable)))
		}
		has := map[string]bool{"kubeconfig": true}
		for key := range settings(t, objects, part) {
			has[key] = true
		}
		for _, v := range get[*appsv1.Deployment](t, objects, "Deployment weft-"+part).Spec.Template.Spec.Containers[0].Env {
			if key, ok := strings.CutPrefix(v.Name, "WEFT_"); ok {
				has[strings.ReplaceAll(strings.ToLower(key), "_", "-")] = true
			}
		}
		slices.Sort(told)
		if has := slices.Sorted(maps.Keys(has)); !slices.Equal(has, told) {
			t.Errorf("the chart tells weft %s %v, and the role %v", part, has, told)
		}
	}
}

// roleVariable are the keys of a variable of the role of a part.
func roleVariable(t *testing.T, part, name string) map[string]any {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(roles, "weft_"+part, "vars/main.yml"))
	if err != nil {
		t.Fatal(err)
	}
	var variables map[string]any
	if err := yaml.Unmarshal(text, &variables); err != nil {
		t.Fatal(err)
	}
	keys, ok := variables[name].(map[string]any)
	if !ok {
		t.Fatalf("role weft_%s has no variable %s", part, name)
	}
	return keys
}

// settings is the configuration of a part.
func settings(t *testing.T, objects map[string]runtime.Object, part string) map[string]any {
	t.Helper()
	var settings map[string]any
	text := get[*corev1.ConfigMap](t, objects, "ConfigMap weft-"+part).Data[part+".yaml"]
	if err := yaml.Unmarshal([]byte(text), &settings); err != nil {
		t.Fatal(err)
	}
	return settings
}

// TestKeysOfUsersCount: they are in the configuration, and with others the pods start anew.
func TestKeysOfUsersCount(t *testing.T) {
	before := rendered(t, least)
	after := rendered(t, least, `{controller: {config: {log-level: debug, lease-duration: 9s}}}`)
	if s := settings(t, after, "controller"); s["log-level"] != "debug" || s["lease-duration"] != "9s" ||
		s["ovn-ca"] != "/etc/weft/tls/ca.crt" {
		t.Errorf("the configuration is %v", s)
	}
	sum := func(objects map[string]runtime.Object) string {
		return get[*appsv1.Deployment](t, objects, "Deployment weft-controller").Spec.Template.Annotations["checksum/config"]
	}
	if sum(before) == sum(after) || sum(before) != sum(rendered(t, least)) {
		t.Errorf("the checksums of two configurations are %s and %s", sum(before), sum(after))
	}
}

func TestProbesAskWherePartsServe(t *testing.T) {
	for part, at := range map[string]string{"controller": defaultOf(t, "controller", "metrics-address"),
		"observe": defaultOf(t, "observe", "metrics-address")} {
		if got := probe(t, part, least, doors); got != at {
			t.Errorf("weft %s serves at %s by default, and is asked at %s", part, at, got)
		}
	}
	for address, want := range map[string]string{"192.0.2.5:9500": "192.0.2.5:9500",
		"[2001:db8::5]:9500": "2001:db8::5:9500", ":9500": ":9500"} {
		if got := probe(t, "controller", least, `{controller: {config: {metrics-address: "`+address+`"}}}`); got != want {
			t.Errorf("a controller that serves at %s is asked at %s", address, got)
		}
	}
	objects := rendered(t, least, `{controller: {config: {metrics-address: ""}}}`)
	container := get[*appsv1.Deployment](t, objects, "Deployment weft-controller").Spec.Template.Spec.Containers[0]
	if container.LivenessProbe != nil || container.ReadinessProbe != nil {
		t.Error("a controller that serves nothing is asked")
	}
}

// probe is HOST:PORT where the pods of a part are asked.
func probe(t *testing.T, part string, values ...string) string {
	t.Helper()
	deployment := get[*appsv1.Deployment](t, rendered(t, values...), "Deployment weft-"+part)
	container := deployment.Spec.Template.Spec.Containers[0]
	live, ready := container.LivenessProbe.HTTPGet, container.ReadinessProbe.HTTPGet
	if live.Path != "/healthz" || ready.Path != "/readyz" || live.Host != ready.Host || live.Port != ready.Port {
		t.Errorf("the probes are %+v and %+v", live, ready)
	}
	return live.Host + ":" + live.Port.String()
}

// defaultOf is what the schema, which is made of the program's flags, says of a key.
func defaultOf(t *testing.T, part, key string) string {
	t.Helper()
	var schema struct {
		Properties map[string]struct {
			Properties struct {
				Config struct {
					Properties map[string]struct{ Description string }
				}
			}
		}
	}
	if err := json.Unmarshal(load(t).Schema, &schema); err != nil {
		t.Fatal(err)
	}
	description := schema.Properties[part].Properties.Config.Properties[key].Description
	found := regexp.MustCompile("Default: `(.*)`$").FindStringSubmatch(description)
	if found == nil {
		t.Fatalf("key %s of %s has no default in %q", key, part, description)
	}
	return found[1]
}

func TestImageIsThatOfTheRelease(t *testing.T) {
	const digest = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	for values, want := range map[string]string{
		"{}":                      "localhost/weft-controller:1.2.0_build.5",
		"{image: {tag: 2+local}}": "localhost/weft-controller:2_local",
		"{image: {repository: registry.example:5000/weft}}": "registry.example:5000/weft:1.2.0_build.5",
		"{image: {digest: '" + digest + "'}}":               "localhost/weft-controller@" + digest,
	} {
		chart := load(t)
		chart.Metadata.AppVersion = "1.2.0+build.5"
		all, err := chartutil.ToRenderValues(chart, valuesOf(t, least, values), chartutil.ReleaseOptions{Name: "weft"},
			chartutil.DefaultCapabilities)
		if err != nil {
			t.Fatal(err)
		}
		texts, err := engine.Render(chart, all)
		if err != nil {
			t.Fatal(err)
		}
		if text := texts["weft/templates/controller.yaml"]; !strings.Contains(text, `image: "`+want+`"`) {
			t.Errorf("with %s the image is not %s", values, want)
		}
	}
}

func TestBadValuesAreNamed(t *testing.T) {
	const without = `{apiServer: {host: 192.0.2.1}, controller: {config: `
	for _, test := range []struct{ name, values, want string }{
		{"nothing", `{}`, "apiServer.host is empty: give an address of the API server that hosts reach without a Service"},
		{"no Northbound", `{}`, "controller.config.ovn-northbound is empty: give the value that this cluster has, as " +
			"[ssl:192.0.2.11:6641]"},
		{"no pods", without + `{ovn-northbound: ["tcp:192.0.2.11:6641"]}}}`, "controller.config.pod-cidrs is empty"},
		{"no Services", without + `{ovn-northbound: ["tcp:192.0.2.11:6641"]}}}`, "controller.config.service-cidrs is empty"},
		{"no credentials", without + `{ovn-northbound: ["ssl:192.0.2.11:6641"]}}}`, "controller.tlsSecret is empty, and " +
			"ovn-northbound has endpoints of ssl: name a Secret of namespace kube-system that has ca.crt"},
		{"a key that is misspelt", `{controller: {config: {pod-cidr: [10.244.0.0/16]}}}`,
			"at '/controller/config': additional properties 'pod-cidr' not allowed"},
		{"the keys there are", `{controller: {config: {pod-cidr: [10.244.0.0/16]}}}`, "'pod-networks', 'profiling'"},
		{"a key that the chart has", `{controller: {config: {identity: c1}}}`, "additional properties 'identity' not allowed"},
		{"a text for a list", `{controller: {config: {pod-cidrs: 10.244.0.0/16}}}`,
			"at '/controller/config/pod-cidrs': got string, want array"},
		{"a number for a duration", `{controller: {config: {lease-duration: 9}}}`,
			"at '/controller/config/lease-duration': got number, want string"},
		{"no controllers", `{controller: {replicas: 0}}`, "at '/controller/replicas': minimum: got 0, want 1"},
		{"an address with a port", `{apiServer: {host: "https://192.0.2.1"}}`, "at '/apiServer/host'"},
		{"a value that nothing reads", `{replicas: 3}`, "additional properties 'replicas' not allowed"},
		{"doors without credentials", `{observe: {enabled: true}}`, "observe.tlsSecret is empty: name a Secret"},
		{"doors without an authority", `{observe: {enabled: true}}`,
			"observe.caBundle is no certificate of PEM: give the authority of observe.tlsSecret, by --set-file"},
		{"doors that cannot read", `{observe: {enabled: true}}`,
			"observe.sockets.group is empty: give the number that `stat -c %g /run/weft-observe` prints"},
		{"agents without a Southbound", `{node: {enabled: true}}`,
			"node.config.ovn-southbound is empty: give the value that this cluster has, as [ssl:192.0.2.11:6642]"},
		{"one name for all agents", `{node: {config: {node-name: l1}}}`, "additional properties 'node-name' not allowed"},
		{"a path that is none", `{node: {kubeconfig: kubelet.conf}}`, "at '/node/kubeconfig'"},
		{"a family", `{observe: {ipFamily: ipv6}}`, "at '/observe/ipFamily': value must be one of 'IPv4', 'IPv6'"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if _, err := render(t, test.values); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("the error is %v, without %q", err, test.want)
			}
		})
	}
}

// TestDoorsListenAtTheirHostsAddress, of each family as weft observe reads it.
func TestDoorsListenAtTheirHostsAddress(t *testing.T) {
	for family, want := range map[string]string{"IPv4": "$(HOST_ADDRESS):6645", "IPv6": "[$(HOST_ADDRESS)]:6645"} {
		objects := rendered(t, least, doors, `{observe: {ipFamily: `+family+`}}`)
		variables := get[*appsv1.Deployment](t, objects, "Deployment weft-observe").Spec.Template.Spec.Containers[0].Env
		// Kubernetes puts in the values of variables that stand before.
		at := func(name string) int {
			return slices.IndexFunc(variables, func(v corev1.EnvVar) bool { return v.Name == name })
		}
		if listen := variables[at("WEFT_LISTEN")].Value; listen != want || at("HOST_ADDRESS") > at("WEFT_LISTEN") {
			t.Errorf("a door of %s listens at %s, of the variables %v", family, listen, variables)
		}
	}
}

// TestLeastVersionOfKubernetes is the roles', too.
func TestLeastVersionOfKubernetes(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(roles, "weft_common/vars/main.yml"))
	if err != nil {
		t.Fatal(err)
	}
	var variables struct {
		Minimum string `json:"weft_kubernetes_minimum_version"`
	}
	if err := yaml.Unmarshal(text, &variables); err != nil {
		t.Fatal(err)
	}
	if got, want := load(t).Metadata.KubeVersion, ">="+variables.Minimum+".0-0"; got != want {
		t.Errorf("the chart is for Kubernetes %s, and the roles for %s", got, want)
	}
}
