package bench

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/weftnet/weft/models/api/crds"
	"github.com/weftnet/weft/models/api/v1alpha1"
	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/test/bench/load"
	"github.com/weftnet/weft/test/lab/pki"
)

const (
	apiURL  = "https://127.0.0.1:6443"
	etcdURL = "http://127.0.0.1:2379"
)

// apiserver is an etcd and a kube-apiserver, and nothing else of a control plane.
type apiserver struct {
	kubeconfig string
	api        *load.API
	etcd, kube *process
}

func startAPIServer(b testing.TB) *apiserver {
	b.Helper()
	dir := runDir(b, "apiserver")
	s := &apiserver{kubeconfig: filepath.Join(dir, "kubeconfig")}
	client := s.makePKI(b, dir)
	s.api = &load.API{URL: apiURL, Workers: 16, Client: &http.Client{
		Timeout:   time.Minute,
		Transport: &http.Transport{TLSClientConfig: client, ForceAttemptHTTP2: true},
	}}
	hyperkube := kubernetesProgram(b)
	s.etcd = start(b, "etcd", dir, hyperkube, "etcd", "--data-dir", filepath.Join(dir, "etcd"), "--unsafe-no-fsync",
		"--log-level=warn", "--listen-client-urls="+etcdURL, "--advertise-client-urls="+etcdURL,
		"--listen-peer-urls=http://127.0.0.1:2380")
	s.kube = start(b, "kube-apiserver", dir, hyperkube, "kube-apiserver", "--etcd-servers="+etcdURL,
		"--bind-address=127.0.0.1", "--advertise-address=127.0.0.1", "--secure-port=6443",
		"--service-cluster-ip-range="+load.ServiceCIDR, "--authorization-mode=RBAC",
		// No controller makes the default ServiceAccounts without which this one refuses pods.
		"--disable-admission-plugins=ServiceAccount",
		"--client-ca-file=ca.crt", "--tls-cert-file=server.crt", "--tls-private-key-file=server.key",
		"--service-account-issuer=https://kubernetes.default.svc", "--service-account-key-file=sa.pub",
		"--service-account-signing-key-file=sa.key")
	until(b, 2*time.Minute, "kube-apiserver ready", s.kube, func(ctx context.Context) error {
		return s.get(ctx, "/readyz", "*/*", io.Discard)
	})
	return s
}

// rest waits until the API server has done what it does on its own, above all after its start:
// else that would count as part of what comes next.
func (s *apiserver) rest(b testing.TB) {
	b.Helper()
	const look, idle = 500 * time.Millisecond, 50 * time.Millisecond
	last, since := time.Duration(0), time.Now()
	until(b, time.Minute, "API server at rest", s.kube, func(context.Context) error {
		now := time.Now()
		if now.Sub(since) < look {
			return errors.New("looking")
		}
		used, err := s.kube.cpu()
		before := last
		last, since = used, now
		if err == nil && used-before > idle {
			err = fmt.Errorf("it used %v of a processor in %v", used-before, look)
		}
		return err
	})
}

func (s *apiserver) stop(b testing.TB) {
	s.api.Client.CloseIdleConnections()
	s.kube.stop(b)
	s.etcd.stop(b)
}

func (s *apiserver) makePKI(b testing.TB, dir string) *tls.Config {
	b.Helper()
	must := func(err error) {
		b.Helper()
		if err != nil {
			b.Fatalf("certificates of the API server: %v", err)
		}
	}
	ca, err := pki.NewAuthority("bench")
	must(err)
	server, err := ca.Issue(pki.Subject{Name: "kube-apiserver", Addresses: []netip.Addr{netip.MustParseAddr("127.0.0.1")}})
	must(err)
	admin, err := ca.Issue(pki.Subject{Name: "admin", Groups: []string{"system:masters"}})
	must(err)
	private, public, err := pki.SigningKey()
	must(err)
	kubeconfig, err := ca.Kubeconfig("bench", apiURL, admin)
	must(err)
	must(os.WriteFile(s.kubeconfig, kubeconfig, 0o600))
	must(os.WriteFile(filepath.Join(dir, "sa.key"), private, 0o600))
	must(os.WriteFile(filepath.Join(dir, "sa.pub"), public, 0o644))
	must(ca.Write(dir, "ca"))
	must(server.Write(dir, "server"))
	certificate, err := tls.X509KeyPair(admin.Cert, admin.Key)
	must(err)
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(ca.Cert)
	return &tls.Config{RootCAs: pool, Certificates: []tls.Certificate{certificate}}
}

// get copies the answer to a request into w.
func (s *apiserver) get(ctx context.Context, path, accept string, w io.Writer) error {
	return s.do(ctx, http.MethodGet, path, accept, w)
}

func (s *apiserver) do(ctx context.Context, method, path, accept string, w io.Writer) error {
	request, err := http.NewRequestWithContext(ctx, method, apiURL+path, nil)
	if err != nil {
		return err
	}
	request.Header.Set("Accept", accept)
	response, err := s.api.Client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(response.Body, 400)) // only to explain the status
		return &statusError{method + " " + path, response.StatusCode, string(text)}
	}
	_, err = io.Copy(w, response.Body)
	return err
}

type statusError struct {
	request string
	code    int
	text    string
}

func (e *statusError) Error() string { return fmt.Sprintf("%s: %d: %s", e.request, e.code, e.text) }

const leasePath = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/weft-controller"

// lease says who leads, and since when; nobody when there is no Lease.
func (s *apiserver) lease(ctx context.Context) (holder string, since time.Time, err error) {
	var text bytes.Buffer
	err = s.get(ctx, leasePath, "application/json", &text)
	if status := (*statusError)(nil); errors.As(err, &status) && status.code == http.StatusNotFound {
		return "", time.Time{}, nil
	}
	if err != nil {
		return "", time.Time{}, err
	}
	var lease coordinationv1.Lease
	if err := json.Unmarshal(text.Bytes(), &lease); err != nil {
		return "", time.Time{}, fmt.Errorf("%s: %w", leasePath, err)
	}
	if lease.Spec.HolderIdentity == nil || lease.Spec.AcquireTime == nil {
		return "", time.Time{}, nil
	}
	return *lease.Spec.HolderIdentity, lease.Spec.AcquireTime.Time, nil
}

// forgetLease takes the Lease away, so that each controller finds the same: none.
func (s *apiserver) forgetLease(b testing.TB) {
	b.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	err := s.do(ctx, http.MethodDelete, leasePath, "application/json", io.Discard)
	if status := (*statusError)(nil); err != nil && !(errors.As(err, &status) && status.code == http.StatusNotFound) {
		b.Fatal(err)
	}
}

// install teaches the server the kind PodNetworks, and makes the namespace where its objects are.
func (s *apiserver) install(b testing.TB) {
	b.Helper()
	definition, err := crds.Files.ReadFile("weft.net_podnetworks.yaml")
	if err != nil {
		b.Fatal(err)
	}
	for path, text := range map[string]string{
		"/apis/apiextensions.k8s.io/v1/customresourcedefinitions": string(definition),
		"/api/v1/namespaces": "{apiVersion: v1, kind: Namespace, metadata: {name: " + contract.PodNetworksNamespace + "}}",
	} {
		var object map[string]any
		if err := yaml.Unmarshal([]byte(text), &object); err != nil {
			b.Fatal(err)
		}
		if err := s.api.Create(context.Background(), path, object); err != nil {
			b.Fatal(err)
		}
	}
	until(b, time.Minute, "PodNetworks are served", s.kube, func(ctx context.Context) error {
		return s.get(ctx, networksPath, "application/json", io.Discard)
	})
}

// metadataList asks for a list of objects without all but their metadata.
const metadataList = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"

// read reads what a path has.
func (s *apiserver) read(ctx context.Context, path, accept string, into any) error {
	var text bytes.Buffer
	if err := s.get(ctx, path, accept, &text); err != nil {
		return err
	}
	return json.Unmarshal(text.Bytes(), into)
}

const networksPath = "/apis/weft.net/v1alpha1/namespaces/" + contract.PodNetworksNamespace + "/podnetworks"

// told is the number of pods whose addresses their nodes' agents can know: by an annotation, or by PodNetworks.
func (s *apiserver) told(b testing.TB) int {
	b.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var pods metav1.PartialObjectMetadataList
	var networks v1alpha1.PodNetworksList
	err := s.read(ctx, "/api/v1/pods?resourceVersion=0", metadataList, &pods)
	if err == nil {
		err = s.read(ctx, networksPath+"?resourceVersion=0", "application/json", &networks)
	}
	if status := (*statusError)(nil); errors.As(err, &status) && status.code == http.StatusNotFound {
		err = nil // the kind is not there
	}
	if err != nil {
		b.Fatal(err)
	}
	lines := map[string]bool{}
	for _, o := range networks.Items {
		for _, line := range o.Pods {
			if p, err := contract.ParsePodAddresses(line); err == nil {
				lines[p.UID] = true
			}
		}
	}
	n := 0
	for _, pod := range pods.Items {
		if pod.Annotations[contract.PodNetworkAnnotation] != "" || lines[string(pod.UID)] {
			n++
		}
	}
	return n
}
