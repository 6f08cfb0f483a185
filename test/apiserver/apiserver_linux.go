// Package apiserver gives tests a real API server with its etcd, and nothing else of a control plane.
package apiserver

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/tools/clientcmd/api"

	"github.com/weftnet/weft/ovsdb/ovsdbtest"
	"github.com/weftnet/weft/test/freeport"
	"github.com/weftnet/weft/test/lab/pki"
)

// Server is an API server whose administrator has a token.
type Server struct {
	// Kubeconfig is a file with the administrator's credentials.
	Kubeconfig string
	// FrontProxy signs for who passes users' requests on to aggregated APIs, as does the server by the name
	// front-proxy-client.
	FrontProxy *pki.Authority

	url    string
	client *http.Client
	user   string // whom the administrator acts for; empty is nobody
	groups []string
}

const token = "administrator"

// Start starts one that ends with the test.
func Start(t *testing.T) *Server {
	t.Helper()
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	private := write("sa.key",
		string(pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)})))
	tokens := write("tokens", token+",admin,admin,system:masters\n")
	frontProxy, err := pki.NewAuthority("front-proxy")
	if err != nil {
		t.Fatal(err)
	}
	proxy, err := frontProxy.Issue(pki.Subject{Name: "front-proxy-client"})
	if err != nil {
		t.Fatal(err)
	}
	etcd, peer, port := freeport.Address(t), freeport.Address(t), strconv.Itoa(int(freeport.Number(t)))
	run(t, dir, "etcd", "--data-dir="+filepath.Join(dir, "etcd"), "--unsafe-no-fsync", "--log-level=error",
		"--listen-client-urls=http://"+etcd, "--advertise-client-urls=http://"+etcd,
		"--listen-peer-urls=http://"+peer,
		"--initial-advertise-peer-urls=http://"+peer, "--initial-cluster=default=http://"+peer)
	run(t, dir, "kube-apiserver", "--etcd-servers=http://"+etcd, "--bind-address=127.0.0.1",
		"--advertise-address=127.0.0.1",
		"--secure-port="+port, "--service-cluster-ip-range=10.96.0.0/16", "--cert-dir="+filepath.Join(dir, "certificates"),
		"--token-auth-file="+tokens, "--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction",
		"--disable-admission-plugins=ServiceAccount",
		"--service-account-issuer=https://kubernetes.default.svc", "--service-account-key-file="+private,
		"--service-account-signing-key-file="+private,
		"--requestheader-client-ca-file="+write("front-proxy-ca.crt", string(frontProxy.Cert)),
		"--requestheader-allowed-names=front-proxy-client",
		"--requestheader-extra-headers-prefix=X-Remote-Extra-", "--requestheader-group-headers=X-Remote-Group",
		"--requestheader-username-headers=X-Remote-User",
		"--proxy-client-cert-file="+write("front-proxy.crt", string(proxy.Cert)), "--proxy-client-key-file="+
			write("front-proxy.key", string(proxy.Key)),
		"--enable-aggregator-routing=true")
	s := &Server{FrontProxy: frontProxy, url: "https://127.0.0.1:" + port, client: &http.Client{Timeout: time.Minute,
		// it makes its certificate itself
		Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}}
	kubeconfig, err := pki.Kubeconfig("administrator", api.Cluster{Server: s.url, InsecureSkipTLSVerify: true},
		api.AuthInfo{Token: token})
	if err != nil {
		t.Fatal(err)
	}
	s.Kubeconfig = write("kubeconfig", string(kubeconfig))
	t.Cleanup(s.client.CloseIdleConnections)
	s.Eventually(t, "the API server is ready", func() error {
		_, err := s.Do(http.MethodGet, "/readyz", "", nil)
		return err
	})
	return s
}

// As is the server to a user of some groups.
func (s *Server) As(user string, groups ...string) *Server {
	other := *s
	other.user, other.groups = user, groups
	return &other
}

// Do gives what the API server answers; an answer that is not a success is an error with its text.
func (s *Server) Do(method, path, kind string, body []byte) ([]byte, error) {
	request, err := http.NewRequestWithContext(context.Background(), method, s.url+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Authorization", "Bearer "+token)
	request.Header.Set("Content-Type", kind)
	if s.user != "" {
		request.Header["Impersonate-User"], request.Header["Impersonate-Group"] = []string{s.user}, s.groups
	}
	response, err := s.client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode/100 != 2 {
		err = fmt.Errorf("%s %s: %d: %s", method, path, response.StatusCode, text)
	}
	return text, err
}

// Create puts an object by its YAML.
func (s *Server) Create(path, text string) error {
	body, err := yaml.ToJSON([]byte("---\n" + text)) // what begins with a brace would be taken for JSON
	if err != nil {
		return err
	}
	_, err = s.Do(http.MethodPost, path, "application/json", body)
	return err
}

// Install teaches a kind of the Network Policy API, of a version of its module, that is served as a collection.
func (s *Server) Install(t *testing.T, version, plural, collection string) {
	t.Helper()
	text, err := exec.Command("go", "mod", "download", "-json", "sigs.k8s.io/network-policy-api@"+version).Output()
	if err != nil {
		t.Fatal(err)
	}
	var module struct{ Dir string }
	if err := json.Unmarshal(text, &module); err != nil {
		t.Fatal(err)
	}
	definition, err := os.ReadFile(filepath.Join(module.Dir, "config/crd/experimental/policy.networking.k8s.io_"+plural+
		".yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", string(definition)); err != nil {
		t.Fatal(err)
	}
	s.Eventually(t, plural+" are served", func() error {
		_, err := s.Do(http.MethodGet, collection, "", nil)
		return err
	})
}

// Eventually waits until something succeeds.
func (s *Server) Eventually(t *testing.T, what string, try func() error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	for {
		err := try()
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("waited two minutes until %s: %v", what, err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// run starts one of Kubernetes' programs and ends it with the test.
func run(t *testing.T, dir, name string, args ...string) {
	t.Helper()
	log, err := os.Create(filepath.Join(dir, name+".log"))
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(kubernetes(t), append([]string{name}, args...)...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // it was killed
		log.Close()
		if t.Failed() {
			text, _ := os.ReadFile(log.Name())
			lines := strings.Split(string(text), "\n")
			t.Logf("%s said at last:\n%s", name, strings.Join(lines[max(0, len(lines)-20):], "\n"))
		}
	})
}

// kubernetes is the lab's program with all of Kubernetes' parts.
func kubernetes(t *testing.T) string {
	t.Helper()
	dir := os.Getenv("WEFT_LAB_BIN")
	if dir == "" {
		dir = filepath.Join(ovsdbtest.Repository(), "bin/lab")
	}
	path, err := filepath.Abs(filepath.Join(dir, "hyperkube"))
	if err == nil {
		_, err = os.Stat(path)
	}
	if err != nil {
		t.Fatalf("%v: run make lab", err)
	}
	return path
}
