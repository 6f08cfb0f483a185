//go:build cluster

package e2e

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestEditedAnnotationIsPutBack(t *testing.T) {
	if *podNetworks {
		t.Skip("pods have no annotation")
	}
	annotation := func() string {
		return cluster.Kubectl(t, "get", "pod", web("l2"), "-o", `jsonpath={.metadata.annotations.weft\.net/pod-network}`)
	}
	before := annotation()
	for _, edit := range []string{`weft.net/pod-network={"mac":"0a:58:0a:f4:00:fe","addresses":["10.244.0.254/24"]}`,
		"weft.net/pod-network=nonsense", "weft.net/pod-network-"} {
		cluster.Kubectl(t, "annotate", "pod", web("l2"), "--overwrite", edit)
		eventually(t, 20*time.Second, "the annotation is put back after "+edit, func() error {
			if now := annotation(); now != before {
				return fmt.Errorf("it is %s", now)
			}
			return nil
		})
	}
	eventMentions(t, "Pod", "default", web("l2"), "weft.net/pod-network", "do not edit it")
	for _, addr := range podAddresses(t, web("l2")) {
		if host, err := get(web("l1"), addr, 8080, "hostname"); err != nil || host != web("l2") {
			t.Errorf("%s: %q answered: %v", addr, host, err)
		}
	}
}

// A tenant, who may create pods but no more, cannot choose their addresses.
func TestTenantsCannotWriteWeftsAnnotations(t *testing.T) {
	cluster.Apply(t, `
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: tenant, namespace: default}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: edit}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: tenant}]
`)
	pod := fmt.Sprintf(podTemplate, "l1", image, steady())
	pod = strings.NewReplacer(web("l1"), "thief", "app: web", "app: thief").Replace(pod)
	preset := strings.Replace(pod, "metadata: {",
		`metadata: {annotations: {weft.net/pod-network: '{"mac":"0a:58:0a:f4:00:fe","addresses":["10.244.0.254/24"]}'}, `, 1)
	as := func(manifest string, args ...string) error {
		_, err := cluster.TryWith(manifest, append([]string{"kubectl", "--", "--as=tenant"}, args...)...)
		return err
	}
	t.Cleanup(func() {
		_, _ = cluster.Try("kubectl", "--", "delete", "pod", "thief", "--ignore-not-found", "--grace-period=1",
			"--wait=false")
	})
	if err := as(preset, "create", "-f", "-"); err == nil || !strings.Contains(err.Error(), "weft alone") {
		t.Errorf("a pod with a preset annotation: %v", err)
	}
	eventually(t, 10*time.Second, "the tenant's ordinary pod is created", func() error {
		return as(pod, "create", "-f", "-")
	})
	for _, edit := range []string{`weft.net/pod-network={"addresses":["10.244.0.254/24"]}`, "weft.net/anything=x"} {
		if err := as("", "annotate", "pod", "thief", "--overwrite", edit); err == nil || !strings.Contains(err.Error(),
			"weft alone") {
			t.Errorf("annotate %s: %v", edit, err)
		}
	}
	if err := as("", "annotate", "pod", "thief", "mine=kept"); err != nil {
		t.Errorf("the tenant's own annotation: %v", err)
	}
}

// The API server keeps most bad addresses out; what it lets through must not stop the good ones.
func TestBadEndpointsAreLeftOut(t *testing.T) {
	good := podAddresses(t, web("l2"))[0]
	cluster.Apply(t, fmt.Sprintf(`
apiVersion: v1
kind: Service
metadata: {name: handmade}
spec: {ports: [{port: 80, targetPort: 8080}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: handmade-names, labels: {kubernetes.io/service-name: handmade}}
addressType: FQDN
ports: [{port: 8080}]
endpoints: [{addresses: [no.such.host]}]
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: handmade-bad, labels: {kubernetes.io/service-name: handmade}}
addressType: IPv4
ports: [{port: 8080}]
endpoints: [{addresses: [239.1.1.1]}]
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: handmade, labels: {kubernetes.io/service-name: handmade}}
addressType: IPv4
ports: [{port: 8080}]
endpoints: [{addresses: [%s]}]
`, good))
	addr := cluster.Kubectl(t, "get", "service", "handmade", "-o", "jsonpath={.spec.clusterIP}")
	eventually(t, 20*time.Second, "the good endpoint serves", func() error {
		host, err := cluster.In(web("l1"), "curl", "-sS", "--max-time", "2", "http://"+addr+"/hostname")
		if err == nil && host != web("l2") {
			err = fmt.Errorf("%s answered", host)
		}
		return err
	})
	eventMentions(t, "Service", "default", "handmade", "handmade-bad", "239.1.1.1")
}

func TestForeignRowsStay(t *testing.T) {
	cluster.Must(t, "nbctl", "--", "lb-add", "operators-own", "192.0.2.1:80", "192.0.2.2:80")
	cluster.Must(t, "nbctl", "--", "set", "logical_switch", "l1", "external_ids:operators-own=kept")
	t.Cleanup(func() {
		cluster.Must(t, "nbctl", "--", "lb-del", "operators-own")
		cluster.Must(t, "nbctl", "--", "remove", "logical_switch", "l1", "external_ids", "operators-own")
	})
	// What is weft's is put right, whoever changed it.
	cluster.Must(t, "nbctl", "--", "lsp-set-addresses", "default_web-l1", "unknown")
	cluster.Must(t, "nbctl", "--", "lsp-del", "default_web-l2")
	cluster.Must(t, "restart", "central", "weft-controller")
	eventually(t, 30*time.Second, "weft's rows are right again", func() error {
		for _, node := range []string{"l1", "l2"} {
			port := "default_" + web(node)
			addresses, err := cluster.Try("nbctl", "--", "lsp-get-addresses", port)
			if err != nil {
				return err
			}
			if want := podAddresses(t, web(node))[0].String(); !strings.Contains(addresses, want) {
				return fmt.Errorf("%s has addresses %s, want %s", port, addresses, want)
			}
		}
		return nil
	})
	if lbs := cluster.Must(t, "nbctl", "--", "lb-list"); !strings.Contains(lbs, "operators-own") {
		t.Errorf("the operator's load balancer is gone:\n%s", lbs)
	}
	if ids := cluster.Must(t, "nbctl", "--", "get", "logical_switch", "l1", "external_ids"); !strings.Contains(ids,
		"operators-own=kept") {
		t.Errorf("the operator's mark is gone: %s", ids)
	}
	eventually(t, 30*time.Second, "both pods answer again", func() error {
		_, err := get(web("l1"), podAddresses(t, web("l2"))[0], 8080, "hostname")
		return err
	})
}

// TestPluginRefusesBadCalls runs the plugin as a container runtime would, with calls that none makes.
func TestPluginRefusesBadCalls(t *testing.T) {
	config := `{"cniVersion":"1.1.0","name":"weft","type":"weft-cni","socket":"/run/weft/cni.sock"}`
	environment := []string{"CNI_CONTAINERID=x", "CNI_NETNS=/run/netns/none", "CNI_IFNAME=eth0", "CNI_PATH=/opt/cni/bin",
		"CNI_ARGS=K8S_POD_NAMESPACE=default;K8S_POD_NAME=none;K8S_POD_UID=none"}
	without := func(name string) []string {
		return slices.DeleteFunc(slices.Clone(environment), func(v string) bool { return strings.HasPrefix(v, name+"=") })
	}
	for _, c := range []struct {
		name, verb, config string
		environment        []string
		code               uint
		mentions           string
	}{
		{"no container", "ADD", config, without("CNI_CONTAINERID"), 4, "CNI_CONTAINERID"},
		{"no namespace", "ADD", config, without("CNI_NETNS"), 4, "CNI_NETNS"},
		{"no pod", "ADD", config, without("CNI_ARGS"), 4, "K8S_POD_NAME"},
		{"not JSON", "ADD", "{", environment, 6, ""},
		{"unknown version", "ADD", strings.Replace(config, "1.1.0", "9.9.9", 1), environment, 1, "9.9.9"},
		{"no agent", "STATUS", strings.Replace(config, "cni.sock", "none.sock", 1), environment, 50, "none.sock"},
	} {
		t.Run(c.name, func(t *testing.T) {
			args := append([]string{"exec", "l1", "--", "env", "CNI_COMMAND=" + c.verb}, c.environment...)
			out, err := cluster.TryWith(c.config, append(args, "/opt/cni/bin/weft-cni")...)
			var failure struct {
				Code         uint
				Msg, Details string
			}
			if jsonErr := json.Unmarshal([]byte(out), &failure); err == nil || jsonErr != nil {
				t.Fatalf("the plugin says %q, %v; want an error in JSON", out, err)
			}
			if failure.Code != c.code || !strings.Contains(failure.Msg+failure.Details, c.mentions) {
				t.Errorf("the plugin says %+v, want code %d and a word of %s", failure, c.code, c.mentions)
			}
		})
	}
	// DEL of what never was succeeds.
	args := append([]string{"exec", "l1", "--", "env", "CNI_COMMAND=DEL"}, environment...)
	if out, err := cluster.TryWith(config, append(args, "/opt/cni/bin/weft-cni")...); err != nil {
		t.Errorf("DEL: %s %v", out, err)
	}
}
