package chart

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net"
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
	apiregistration "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/node/nodetest"
	"github.com/weftnet/weft/node/tunnel"
	"github.com/weftnet/weft/ovn/observe"
	"github.com/weftnet/weft/ovsdb/ovsdbtest"
	"github.com/weftnet/weft/test/apiserver"
	"github.com/weftnet/weft/test/lab/pki"
)

// hostAddress is that of the pods' host, by which the API server reaches them. It takes no loopback address for that.
const hostAddress = "192.0.2.1"

// TestMain gives the tests a network of their own, in which nothing of the machine's is touched.
func TestMain(m *testing.M) {
	// The modules of the program that is built there come before: that network leads nowhere.
	if out, err := inRepository("go", "list", "-deps", "./cmd/weft").CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "%v: %s", err, out)
		os.Exit(2)
	}
	nodetest.Main(m)
}

// inRepository is a command in the folder of Weft's own module.
func inRepository(program string, args ...string) *exec.Cmd {
	cmd := exec.Command(program, args...)
	cmd.Dir = "../.."
	return cmd
}

// TestControllerRunsByTheChart runs weft controller with the configuration, the variables and the account that the
// chart gives its pods, in place of a kubelet. It leads under the pod's name, and does its work in Kubernetes: it gives
// a node its network.
func TestControllerRunsByTheChart(t *testing.T) {
	s := apiserver.Start(t)
	northbound := ovsdbtest.Server(t, ovsdbtest.Northbound(t))
	awaitNamespace(t, s)
	if err := s.Create("/api/v1/nodes", "{apiVersion: v1, kind: Node, metadata: {name: n1}, spec: {podCIDRs: "+
		"[10.244.1.0/24]}}"); err != nil {
		t.Fatal(err)
	}
	runPart(t, s, "controller", kubelet{}, `{controller: {tlsSecret: "", config: {metrics-address: "",
		ovn-northbound: ["`+northbound.Endpoint+`"]}}}`)
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

// TestDoorRunsByTheChart: the API server reaches the door by the APIService of the chart, and trusts it.
func TestDoorRunsByTheChart(t *testing.T) {
	s := apiserver.Start(t)
	awaitNamespace(t, s)
	sockets, credentials := t.TempDir(), t.TempDir()
	databases := map[string]ovsdbtest.Database{"nb": ovsdbtest.Northbound(t), "sb": ovsdbtest.Southbound(t)}
	for name, database := range databases {
		socket := strings.TrimPrefix(ovsdbtest.Server(t, database).Endpoint, "unix:")
		if err := os.Symlink(socket, filepath.Join(sockets, name+".sock")); err != nil {
			t.Fatal(err)
		}
	}
	authority, err := pki.NewAuthority("tunnel")
	if err != nil {
		t.Fatal(err)
	}
	pair, err := authority.Issue(pki.Subject{Name: tunnel.ObserverName, DNSNames: []string{tunnel.ObserverName,
		observe.ServerName}})
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string][]byte{"ca.crt": authority.Cert, "tls.crt": pair.Cert, "tls.key": pair.Key} {
		if err := os.WriteFile(filepath.Join(credentials, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	bundle, err := json.Marshal(string(authority.Cert))
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", ":0")
	if err != nil {
		t.Fatal(err)
	}
	port := listener.Addr().(*net.TCPAddr).Port
	listener.Close()
	runPart(t, s, "observe", kubelet{credentials: credentials}, doors, fmt.Sprintf(`{observe: {port: %d,
		sockets: {folder: %s}, config: {metrics-address: ""}, caBundle: %s}}`, port, sockets, bundle))
	s.Eventually(t, "the API server reaches the door", func() error {
		var api apiregistration.APIService
		if err := read(s, "/apis/apiregistration.k8s.io/v1/apiservices/v1alpha1.observe.weft.net", &api); err != nil {
			return err
		}
		for _, c := range api.Status.Conditions {
			if c.Type == apiregistration.Available && c.Status == apiregistration.ConditionTrue {
				return nil
			}
		}
		return fmt.Errorf("its conditions are %+v", api.Status.Conditions)
	})
	s.Eventually(t, "the door answers", func() error {
		_, err := s.Do(http.MethodGet, "/apis/observe.weft.net/v1alpha1/policyhits", "", nil)
		return err
	})
}

func awaitNamespace(t *testing.T, s *apiserver.Server) {
	t.Helper()
	s.Eventually(t, "kube-system is there", func() error {
		_, err := s.Do(http.MethodGet, "/api/v1/namespaces/kube-system", "", nil)
		return err
	})
}

// runPart installs the chart with some values, and runs the pod of a part of it.
func runPart(t *testing.T, s *apiserver.Server, part string, k kubelet, values ...string) {
	t.Helper()
	at := address(t, s)
	values = append([]string{least, `{apiServer: {host: "` + at.Hostname() + `", port: ` + at.Port() + `}}`}, values...)
	install := action.NewInstall(helmOf(t, s))
	install.ReleaseName, install.Namespace = "weft", namespace
	if _, err := install.RunWithContext(t.Context(), load(t), valuesOf(t, values...)); err != nil {
		t.Fatal(err)
	}
	objects := rendered(t, values...)
	k.account = account(t, s, at, "weft-"+part)
	k.run(t, get[*appsv1.Deployment](t, objects, "Deployment weft-"+part).Spec.Template.Spec,
		get[*corev1.ConfigMap](t, objects, "ConfigMap weft-"+part).Data)
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

// account is a folder as a kubelet mounts it: the token of an account, and the API server's authority.
func account(t *testing.T, s *apiserver.Server, at *url.URL, name string) string {
	t.Helper()
	answer, err := s.Do(http.MethodPost, "/api/v1/namespaces/kube-system/serviceaccounts/"+name+"/token",
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

// kubelet runs pods on this machine as one does, with what it mounts: folders of an account and of a Secret.
type kubelet struct{ account, credentials string }

// run runs a pod's program until the test ends. /run is its own, for the account.
func (k kubelet) run(t *testing.T, pod corev1.PodSpec, config map[string]string) {
	t.Helper()
	folder := t.TempDir()
	for _, cmd := range []*exec.Cmd{inRepository("go", "build", "-o", folder+"/", "./cmd/weft"),
		exec.Command("ip", "addr", "replace", hostAddress+"/32", "dev", "lo")} {
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	paths := strings.NewReplacer("/etc/weft/config", folder, "/etc/weft/tls", k.credentials)
	for name, content := range config {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(paths.Replace(content)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const script = `mount -t tmpfs tmpfs /run && mkdir -p /run/secrets/kubernetes.io &&
		cp -r "$0" /run/secrets/kubernetes.io/serviceaccount && exec "$@"`
	args := []string{"--map-root-user", "--mount", "sh", "-c", script, k.account, filepath.Join(folder, "weft")}
	for _, arg := range pod.Containers[0].Args {
		args = append(args, paths.Replace(arg))
	}
	cmd := exec.Command("unshare", args...)
	cmd.Env = append(variables(t, pod.Containers[0].Env), "PATH="+os.Getenv("PATH"))
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

// variables are those of a container, with the fields of the pod and with the variables before that they name.
func variables(t *testing.T, declared []corev1.EnvVar) []string {
	t.Helper()
	fields := map[string]string{"metadata.name": podName, "spec.nodeName": "n1", "status.hostIP": hostAddress}
	var names, all []string // names are pairs of what stands for a variable and its value
	for _, v := range declared {
		if v.ValueFrom != nil {
			v.Value = fields[v.ValueFrom.FieldRef.FieldPath]
		}
		value := strings.NewReplacer(names...).Replace(v.Value)
		names, all = append(names, "$("+v.Name+")", value), append(all, v.Name+"="+value)
	}
	return all
}
