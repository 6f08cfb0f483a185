package observe

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/yaml"

	api "github.com/weftnet/weft/models/api/observe/v1alpha1"
	"github.com/weftnet/weft/models/api/rights"
	"github.com/weftnet/weft/node/nodetest"
	"github.com/weftnet/weft/ovn/explain"
	"github.com/weftnet/weft/ovn/hits"
	"github.com/weftnet/weft/ovsdb/ovsdbtest"
	"github.com/weftnet/weft/test/apiserver"
	"github.com/weftnet/weft/test/lab/pki"
)

func TestMain(m *testing.M) { nodetest.Main(m) }

// The API server takes no endpoint on a loopback address.
const (
	first  = "192.0.2.1:6645"
	second = "192.0.2.2:6645"
)

const (
	everything = "/apis/" + api.GroupVersion + "/policyhits"
	ofShop     = "/apis/" + api.GroupVersion + "/namespaces/shop/policyhits"
	ofBank     = "/apis/" + api.GroupVersion + "/namespaces/bank/policyhits"
)

// street is an API server with doors.
type street struct {
	*apiserver.Server
	t      *testing.T
	admin  kubernetes.Interface
	signer *pki.Authority // of the doors
	files  string
	// of the databases, if there are any
	northbound, southbound string
	agents                 Agents
}

func newStreet(t *testing.T) *street {
	t.Helper()
	for _, address := range []string{first, second} {
		host, _, _ := strings.Cut(address, ":")
		if output, err := exec.Command("ip", "addr", "replace", host+"/32", "dev", "lo").CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, output)
		}
	}
	s := &street{Server: apiserver.Start(t), t: t, files: t.TempDir()}
	s.admin = s.clients("")
	var err error
	if s.signer, err = pki.NewAuthority("tunnel"); err != nil {
		t.Fatal(err)
	}
	pair, err := s.signer.Issue(pki.Subject{Name: "observe.weft.net", DNSNames: []string{"observe.weft.net", ServerName}})
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string][]byte{"ca.crt": s.signer.Cert, "tls.crt": pair.Cert, "tls.key": pair.Key} {
		if err := os.WriteFile(filepath.Join(s.files, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s.Eventually(t, "kube-system is there", func() error {
		_, err := s.Do(http.MethodGet, "/api/v1/namespaces/kube-system", "", nil)
		return err
	})
	for manifest := range strings.SplitSeq(rights.Observe+"---\n"+rights.APIService, "---\n") {
		s.apply(manifest)
	}
	s.apply(`{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: developer, namespace: shop}, roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: weft-observe-view},
 subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: alice}]}`)
	s.apply(`{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, metadata: {name: operator}, roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: weft-observe-view},
 subjects: [{apiGroup: rbac.authorization.k8s.io, kind: Group, name: operators}]}`)
	return s
}

// apply makes an object of a manifest; an APIService gets the doors' authority.
func (s *street) apply(manifest string) {
	s.t.Helper()
	var object map[string]any
	if err := yaml.Unmarshal([]byte(manifest), &object); err != nil {
		s.t.Fatal(err)
	}
	metadata, _ := object["metadata"].(map[string]any)
	version, _ := object["apiVersion"].(string)
	path := "/apis/" + version
	if version == "v1" {
		path = "/api/v1"
	}
	if namespace, ok := metadata["namespace"].(string); ok {
		path += "/namespaces/" + namespace
	}
	kind, _ := object["kind"].(string)
	if kind == "APIService" {
		object["spec"].(map[string]any)["caBundle"] = base64.StdEncoding.EncodeToString(s.signer.Cert)
	}
	if kind == "RoleBinding" && metadata["namespace"] == "shop" {
		if err := s.Create("/api/v1/namespaces", "{apiVersion: v1, kind: Namespace, metadata: {name: shop}}"); err != nil {
			s.t.Fatal(err)
		}
	}
	text, err := json.Marshal(object)
	if err == nil {
		_, err = s.Do(http.MethodPost, path+"/"+strings.ToLower(kind)+"s", "application/json", text)
	}
	if err != nil {
		s.t.Fatal(err)
	}
}

func (s *street) clients(user string) kubernetes.Interface {
	s.t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", s.Kubeconfig)
	if err != nil {
		s.t.Fatal(err)
	}
	config.QPS = -1
	if user != "" {
		config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: []string{"system:authenticated"}}
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		s.t.Fatal(err)
	}
	return client
}

// open runs a door with the rights of weft:observe, and those of its counts.
func (s *street) open(identity, listen string, counts hits.Counts) (leave func()) {
	s.t.Helper()
	file := func(name string) string { return filepath.Join(s.files, name) }
	d, err := newDoor(Config{Identity: identity, Listen: listen, Northbound: s.northbound, Southbound: s.southbound,
		OVNTrace: ovsdbtest.Program(s.t, "ovn-trace"),
		CA:       file("ca.crt"), Certificate: file("tls.crt"), PrivateKey: file("tls.key")}, s.clients("weft:observe"),
		s.agents)
	if err != nil {
		s.t.Fatal(err)
	}
	d.hits.read = func(context.Context) (*api.PolicyHitsList, error) { return listOf(counts), nil }
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- d.run(ctx) }()
	closed := false
	leave = func() {
		if closed {
			return
		}
		closed = true
		cancel()
		if err := <-ended; err != nil {
			s.t.Error(err)
		}
	}
	s.t.Cleanup(leave)
	return leave
}

// some counts: a namespace's, another's, and a cluster-wide policy's.
func some() hits.Counts {
	count := func(owner, key, node string, packets uint64) hits.Count {
		mark, ok := explain.ParseMark(owner, key)
		if !ok {
			panic(owner)
		}
		return hits.Count{Rule: mark, Action: "Accept", Node: node, Packets: packets, Bytes: 100 * packets}
	}
	return hits.Counts{Asked: 3, Unanswered: map[string]error{"n3": errors.New("secret of n3")}, Counts: []hits.Count{
		count("ClusterNetworkPolicy/shop", "egress/0", "n1", 1), count("NetworkPolicy/bank/vault", "ingress/0", "n1", 7),
		count("NetworkPolicy/shop/db", "ingress/0", "n1", 2), count("NetworkPolicy/shop/db", "ingress/0", "n2", 1<<60),
		count("NetworkPolicy/shop/db", "ingress", "n2", 5),
		count("NetworkPolicy/shopping/db", "ingress/0", "n2", 9),
	}}
}

func policiesOf(t *testing.T, text []byte) (names []string) {
	t.Helper()
	var list api.PolicyHitsList
	if err := json.Unmarshal(text, &list); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	for _, item := range list.Items {
		names = append(names, item.Policy)
	}
	return slices.Compact(names)
}

// TestUsersOfARealAPIServer: each sees by it what he has a right to, and nothing else.
func TestUsersOfARealAPIServer(t *testing.T) {
	s := newStreet(t)
	leave := s.open("c1", first, some())
	operator := s.As("olga", "operators", "system:authenticated")
	alice, mallory := s.As("alice", "system:authenticated"), s.As("mallory", "system:authenticated")
	s.Eventually(t, "the API is served", func() error {
		_, err := operator.Do(http.MethodGet, everything, "", nil)
		return err
	})
	for _, c := range []struct {
		name string
		who  *apiserver.Server
		path string
		want string // policies, or what the refusal says
	}{
		{"an operator", operator, everything, "ClusterNetworkPolicy shop,NetworkPolicy bank/vault,NetworkPolicy " +
			"shop/db,NetworkPolicy shopping/db"},
		{"an operator of a namespace", operator, ofShop, "NetworkPolicy shop/db"},
		{"a developer of his namespace", alice, ofShop, "NetworkPolicy shop/db"},
		{"a developer of another's", alice, ofBank, "403"},
		{"a developer of all", alice, everything, "403"},
		{"a developer by a path that leaves his namespace", alice, ofShop + "/../../bank/policyhits", "403"},
		{"a developer by a path that hides this", alice, "/apis/" + api.GroupVersion +
			"/namespaces/shop%2f..%2fbank/policyhits", "40"},
		{"a user without rights", mallory, ofShop, "403"},
		{"a user without rights, of all", mallory, everything, "403"},
		{"an operator who watches", operator, everything + "?watch=true", "403"},
		{"an operator who asks for one", operator, ofShop + "/db", "403"},
		{"an administrator who asks for one", s.Server, ofShop + "/db", "404"},
		{"an administrator who watches", s.Server, everything + "?watch=true", "watch is not served"},
	} {
		t.Run(c.name, func(t *testing.T) {
			text, err := c.who.Do(http.MethodGet, c.path, "", nil)
			if err != nil {
				if !strings.Contains(err.Error(), ": "+c.want) && !strings.Contains(err.Error(), c.want) {
					t.Errorf("got %v, want %s", err, c.want)
				}
				for _, secret := range []string{"bank/vault", "secret of n3"} {
					if strings.Contains(err.Error(), secret) {
						t.Errorf("the refusal tells of %s", secret)
					}
				}
				return
			}
			if got := strings.Join(policiesOf(t, text), ","); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
	text, err := alice.Do(http.MethodGet, ofShop, "", nil)
	if err != nil || bytes.Contains(text, []byte("secret")) || bytes.Contains(text, []byte("bank")) ||
		!bytes.Contains(text, []byte(`"nodesUnanswered":1`)) ||
		!bytes.Contains(text, []byte(`"packets":1152921504606846978`)) {
		t.Errorf("a developer sees %s, %v", text, err)
	}
	if _, err := s.Do(http.MethodPost, ofShop, "application/json", []byte("{}")); err == nil ||
		!strings.Contains(err.Error(), "405") {
		t.Errorf("who writes is told %v", err)
	}
	t.Run("one user's storm", func(t *testing.T) { s.leavesOthersAlone(t) })
	slices := s.admin.DiscoveryV1().EndpointSlices(Namespace)
	leave()
	if list, err := slices.List(t.Context(), metav1.ListOptions{}); err != nil || len(list.Items) != 0 {
		t.Errorf("the door is gone, and these are left: %v, %v", list.Items, err)
	}
}

// leavesOthersAlone: what a user asks beyond his bound is refused, and does not keep others from being answered.
func (s *street) leavesOthersAlone(t *testing.T) {
	l := &limits{}
	for range maxOfUser {
		if _, err := l.enter("mallory"); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := l.enter("mallory"); !apierrors.IsTooManyRequests(err) {
		t.Errorf("beyond his bound he is told %v", err)
	}
	release, err := l.enter("alice")
	if err != nil {
		t.Fatal(err)
	}
	release()
	if len(l.users) != 1 || l.all != maxOfUser {
		t.Errorf("%d requests of %v are left", l.all, l.users)
	}
}

// TestStrangersAtTheDoor go past the API server.
func TestStrangersAtTheDoor(t *testing.T) {
	s := newStreet(t)
	s.open("c1", first, some())
	issue := func(a *pki.Authority, name string) *tls.Certificate {
		t.Helper()
		pair, err := a.Issue(pki.Subject{Name: name, DNSNames: []string{name}})
		if err != nil {
			t.Fatal(err)
		}
		certificate, err := tls.X509KeyPair(pair.Cert, pair.Key)
		if err != nil {
			t.Fatal(err)
		}
		return &certificate
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(s.signer.Cert)
	ask := func(certificate *tls.Certificate, path string, headers ...string) (code int, text string, err error) {
		config := &tls.Config{RootCAs: roots, ServerName: ServerName}
		if certificate != nil {
			config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return certificate, nil }
		}
		transport := &http.Transport{TLSClientConfig: config}
		defer transport.CloseIdleConnections()
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+first+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		for i := 0; i+1 < len(headers); i += 2 {
			request.Header.Add(headers[i], headers[i+1])
		}
		response, err := transport.RoundTrip(request)
		if err != nil {
			return 0, "", err
		}
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		return response.StatusCode, string(body), err
	}
	proxy := issue(s.FrontProxy, "front-proxy-client")
	s.Eventually(t, "the door answers the front proxy", func() error {
		code, text, err := ask(proxy, everything, "X-Remote-User", "admin", "X-Remote-Group", "system:masters")
		if err == nil && code != http.StatusOK {
			err = fmt.Errorf("%d: %s", code, text)
		}
		return err
	})
	masters := []string{"X-Remote-User", "admin", "X-Remote-Group", "system:masters"}
	for _, c := range []struct {
		name        string
		certificate *tls.Certificate
		headers     []string
		want        int // 0: no connection
	}{
		{"without a certificate", nil, masters, 0},
		{"with a door's own", issue(s.signer, "observe.weft.net"), masters, 0},
		{"with a node's", issue(s.signer, "n1.node.weft.net"), masters, 0},
		{"with another name by the front proxy's authority", issue(s.FrontProxy, "kubelet"), masters,
			http.StatusUnauthorized},
		{"who names nobody", proxy, nil, http.StatusUnauthorized},
		{"who names a group alone", proxy, masters[2:], http.StatusUnauthorized},
		{"whom the API server let in by mistake", proxy, []string{"X-Remote-User", "mallory"}, http.StatusForbidden},
	} {
		t.Run(c.name, func(t *testing.T) {
			code, text, err := ask(c.certificate, everything, c.headers...)
			if code != c.want || (err == nil) != (c.want != 0) || strings.Contains(text, "vault") {
				t.Errorf("got %d, %v, want %d: %s", code, err, c.want, text)
			}
		})
	}
	t.Run("forged headers by the API server", func(t *testing.T) {
		config, err := clientcmd.BuildConfigFromFlags("", s.Kubeconfig)
		if err != nil {
			t.Fatal(err)
		}
		config.Impersonate = rest.ImpersonationConfig{UserName: "mallory", Groups: []string{"system:authenticated"}}
		client, err := kubernetes.NewForConfig(config)
		if err != nil {
			t.Fatal(err)
		}
		err = client.RESTClient().Get().AbsPath(everything).SetHeader("X-Remote-User", "admin").SetHeader("X-Remote-Group",
			"system:masters").Do(t.Context()).Error()
		if !apierrors.IsForbidden(err) {
			t.Errorf("he is told %v", err)
		}
	})
}

// TestDoorsComeAndGo: any may go, with a word or without, and the others are asked.
func TestDoorsComeAndGo(t *testing.T) {
	s := newStreet(t)
	s.open("c1", first, some())
	leave := s.open("c2", second, some())
	slices := s.admin.DiscoveryV1().EndpointSlices(Namespace)
	are := func(names ...string) {
		t.Helper()
		s.Eventually(t, fmt.Sprintf("the doors are %v", names), func() error {
			list, err := slices.List(t.Context(), metav1.ListOptions{LabelSelector: "kubernetes.io/service-name=" + Service})
			if err != nil {
				return err
			}
			var there []string
			for _, slice := range list.Items {
				there = append(there, slice.Name)
			}
			if strings.Join(there, " ") != strings.Join(names, " ") {
				return fmt.Errorf("there are %v", there)
			}
			return nil
		})
	}
	are("weft-observe-c1", "weft-observe-c2")
	served := func() error { _, err := s.Do(http.MethodGet, everything, "", nil); return err }
	s.Eventually(t, "the API is served", served)
	leave()
	are("weft-observe-c1")
	s.Eventually(t, "the API is served by the other", served)

	lost := &presence{client: s.clients("weft:observe"), identity: "c3", address: must(t, second), renewal: renewal,
		silence: silence}
	if err := lost.renew(t.Context()); err != nil {
		t.Fatal(err)
	}
	are("weft-observe-c1", "weft-observe-c3")
	if err := slices.Delete(t.Context(), "weft-observe-c1", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	are("weft-observe-c1", "weft-observe-c3") // what somebody has removed comes back
	are("weft-observe-c1")                    // who does not renew goes
	s.Eventually(t, "its Lease goes", func() error {
		if _, err := s.admin.CoordinationV1().Leases(Namespace).Get(t.Context(), "weft-observe-c3",
			metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			return fmt.Errorf("there is the Lease still: %v", err)
		}
		return nil
	})
}
