package chart

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"helm.sh/helm/v3/pkg/action"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/ovsdb/ovsdbtest"
	"github.com/weftnet/weft/test/apiserver"
)

// TestControllerRunsByTheChart runs weft controller with the configuration, the variables and the account that the
// chart gives its pods, in place of a kubelet. It leads under the pod's name, and does its work in Kubernetes: it gives
// a node its network.
func TestControllerRunsByTheChart(t *testing.T) {
	s := apiserver.Start(t)
	northbound := ovsdbtest.Server(t, ovsdbtest.Northbound(t))
	s.Eventually(t, "kube-system is there", func() error {
		_, err := s.Do(http.MethodGet, "/api/v1/namespaces/kube-system", "", nil)
		return err
	})
	if err := s.Create("/api/v1/nodes", "{apiVersion: v1, kind: Node, metadata: {name: n1}, spec: {podCIDRs: "+
		"[10.244.1.0/24]}}"); err != nil {
		t.Fatal(err)
	}
	at := address(t, s)
	values := []string{least, `{apiServer: {host: "` + at.Hostname() + `", port: ` + at.Port() + `}, controller: {tlsSecret: "",
		config: {metrics-address: "", ovn-northbound: ["` + northbound.Endpoint + `"]}}}`}
	install := action.NewInstall(helmOf(t, s))
	install.ReleaseName, install.Namespace = "weft", namespace
	if _, err := install.RunWithContext(t.Context(), load(t), valuesOf(t, values...)); err != nil {
		t.Fatal(err)
	}
	objects := rendered(t, values...)
	config := get[*corev1.ConfigMap](t, objects, "ConfigMap weft-controller").Data
	deployment := get[*appsv1.Deployment](t, objects, "Deployment weft-controller")
	runPod(t, deployment.Spec.Template.Spec, config, account(t, s, at))

	s.Eventually(t, "the pod leads", func() error {
		var lease coordinationv1.Lease
		if err := read(s, "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/weft-controller", &lease); err != nil {
			return err
		}
		if holder := lease.Spec.HolderIdentity; holder == nil || *holder != podName {
			return fmt.Errorf("the Lease is %+v", lease.Spec)
		}
		return nil
	})
	s.Eventually(t, "the node has its network", func() error {
		var node corev1.Node
		if err := read(s, "/api/v1/nodes/n1", &node); err != nil {
			return err
		}
		if node.Annotations[contract.NodeNetworkAnnotation] == "" {
			return fmt.Errorf("its annotations are %v", node.Annotations)
		}
		return nil
	})
}

const podName = "weft-controller-6d4cf56db6-x7k2p"

func read(s *apiserver.Server, path string, object any) error {
	text, err := s.Do(http.MethodGet, path, "", nil)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, object)
}

// address is that of the API server.
func address(t *testing.T, s *apiserver.Server) *url.URL {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", s.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	at, err := url.Parse(config.Host)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

// account is a folder as a kubelet mounts it: the token of the pods' account, and the API server's authority.
func account(t *testing.T, s *apiserver.Server, at *url.URL) string {
	t.Helper()
	answer, err := s.Do(http.MethodPost, "/api/v1/namespaces/kube-system/serviceaccounts/weft-controller/token",
		"application/json", []byte(`{"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}`))
	if err != nil {
		t.Fatal(err)
	}
	var request struct{ Status struct{ Token string } }
	if err := json.Unmarshal(answer, &request); err != nil {
		t.Fatal(err)
	}
	// The API server has made its certificate itself.
	conn, err := tls.Dial("tcp", at.Host, &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	var authorities bytes.Buffer
	for _, certificate := range conn.ConnectionState().PeerCertificates {
		if err := pem.Encode(&authorities, &pem.Block{Type: "CERTIFICATE", Bytes: certificate.Raw}); err != nil {
			t.Fatal(err)
		}
	}
	folder := t.TempDir()
	for name, content := range map[string]string{"token": request.Status.Token, "ca.crt": authorities.String(),
		"namespace": namespace} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return folder
}

// runPod runs a pod's program as a kubelet does, until the test ends. /run is its own, for the account.
func runPod(t *testing.T, pod corev1.PodSpec, config map[string]string, account string) {
	t.Helper()
	folder := t.TempDir()
	build := exec.Command("go", "build", "-o", folder+"/", "./cmd/weft")
	build.Dir = "../.."
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for name, content := range config {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	container := pod.Containers[0]
	var args []string
	for _, arg := range container.Args {
		args = append(args, strings.Replace(arg, "/etc/weft/config", folder, 1))
	}
	const script = `mount -t tmpfs tmpfs /run && mkdir -p /run/secrets/kubernetes.io &&
		cp -r "$0" /run/secrets/kubernetes.io/serviceaccount && exec "$@"`
	cmd := exec.Command("unshare", append([]string{"--map-root-user", "--mount", "sh", "-c", script, account,
		filepath.Join(folder, "weft")}, args...)...)
	for _, v := range container.Env {
		if v.ValueFrom != nil && v.ValueFrom.FieldRef.FieldPath == "metadata.name" {
			v.Value = podName
		}
		cmd.Env = append(cmd.Env, v.Name+"="+v.Value)
	}
	cmd.Env = append(cmd.Env, "PATH="+os.Getenv("PATH"))
	var log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &log, &log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // it was killed
		if t.Failed() {
			t.Logf("the pod said:\n%s", &log)
		}
	})
}
