//go:build linux

package chassis

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weftnet/weft/models/contract"
)

func TestConfigErrorsNameTheKey(t *testing.T) {
	good := func() Config {
		c := DefaultConfig()
		c.Identity, c.OVNController = "host1.example", "/bin/true"
		c.CA, c.Certificate, c.PrivateKey = "/ca", "/crt", "/key"
		return c
	}
	for _, c := range []struct {
		name   string
		change func(*Config)
		want   string // words; none is no error
	}{
		{"defaults", func(*Config) {}, ""},
		{"a Secret", func(c *Config) { c.CA, c.Certificate, c.PrivateKey, c.Secret = "", "", "", "kube-system/weft-chassis" },
			""},
		{"all of OVN's", func(c *Config) { c.OVNCA, c.OVNCertificate, c.OVNPrivateKey = "/a", "/{node}.crt", "/{node}.key" },
			""},
		{"no metrics", func(c *Config) { c.MetricsAddress = "" }, ""},
		{"no identity", func(c *Config) { c.Identity = "" }, "identity:"},
		{"capitals", func(c *Config) { c.Identity = "HOST" }, "identity: HOST"},
		{"a long identity", func(c *Config) { c.Identity = strings.Repeat("a", 250) }, "identity:"},
		{"a zone", func(c *Config) { c.Zone = "rack-1" }, ""},
		{"capitals in a zone", func(c *Config) { c.Zone = "Rack-1" }, "zone: Rack-1 ovn-northbound"},
		{"a long zone", func(c *Config) { c.Zone = strings.Repeat("a", 64) }, "zone: 63"},
		{"two zones", func(c *Config) { c.Zone = "a,b" }, "zone: a,b"},
		{"relative", func(c *Config) { c.RunDir = "run" }, "run-dir:"},
		{"a long path", func(c *Config) { c.RunDir = "/" + strings.Repeat("a", 100) }, "run-dir: 55"},
		{"no program", func(c *Config) { c.OVNController = "/no/such" }, "ovn-controller: /no/such ovn-host"},
		{"much memory", func(c *Config) { c.OVNControllerMemory = 2 << 30 }, ""},
		{"little memory", func(c *Config) { c.OVNControllerMemory = 512 }, "ovn-controller-memory: 512 32Mi"},
		{"negative memory", func(c *Config) { c.OVNControllerMemory = -1 }, "ovn-controller-memory: -1 32Mi"},
		{"no credentials", func(c *Config) { c.CA, c.PrivateKey = "", "" }, "tunnel-ca: tunnel-private-key: tunnel-secret"},
		{"both", func(c *Config) { c.Secret = "a/b" }, "tunnel-secret: tunnel-certificate"},
		{"no Secret's name", func(c *Config) { c.CA, c.Certificate, c.PrivateKey, c.Secret = "", "", "", "b" },
			"tunnel-secret: NAMESPACE/NAME"},
		{"half of OVN's", func(c *Config) { c.OVNCA = "/a" }, "ovn-certificate: ovn-private-key:"},
		{"a Southbound", func(c *Config) { c.Southbound = "ssl:192.0.2.1:6642,ssl:[2001:db8::1]:6642" }, ""},
		{"a Southbound beside it", func(c *Config) { c.Southbound = "unix:/run/ovn/ovnsb_db.sock" }, ""},
		{"a Southbound that listens", func(c *Config) { c.Southbound = "ptcp:6642" }, "ovn-southbound: ssl:HOST:PORT"},
		{"a Southbound in clear", func(c *Config) {
			c.OVNCA, c.OVNCertificate, c.OVNPrivateKey, c.Southbound = "/a", "/b", "/c", "tcp:192.0.2.1:6642"
		}, "ovn-southbound: clear"},
		{"namespace", func(c *Config) { c.LeaseNamespace = "a/b" }, "lease-namespace:"},
		{"short", func(c *Config) { c.LeaseDuration = time.Second }, "lease-duration: 3s"},
		{"address", func(c *Config) { c.MetricsAddress = "9472" }, "metrics-address: HOST:PORT"},
	} {
		t.Run(c.name, func(t *testing.T) {
			config := good()
			c.change(&config)
			err := config.Validate()
			if (err != nil) != (c.want != "") {
				t.Fatalf("%v, want %q", err, c.want)
			}
			for word := range strings.FieldsSeq(c.want) {
				if !strings.Contains(err.Error(), word) {
					t.Errorf("no %q in: %v", word, err)
				}
			}
		})
	}
}

func TestOVNsCredentialsAreOfTheNode(t *testing.T) {
	c := Config{OVNCA: "/ca.pem", OVNCertificate: "/pki/{node}-cert.pem", OVNPrivateKey: "/pki/{node}-key.pem"}
	args := c.controllerArgs("win1", "/run/weft/chassis/win1")
	if i := slices.Index(args, "-n"); i < 0 || args[i+1] != "win1" {
		t.Errorf("the chassis's name is left to the node: %v", args)
	}
	for _, want := range []string{"unix:/run/weft/chassis/win1/db.sock", "--ca-cert=/ca.pem",
		"--certificate=/pki/win1-cert.pem", "--private-key=/pki/win1-key.pem"} {
		if !slices.Contains(args, want) {
			t.Errorf("no %s in %v", want, args)
		}
	}
}

func TestNamesAreBounded(t *testing.T) {
	long := strings.Repeat("very-long-name.", 16) + "example"
	if a, b := nodeLease(long), nodeLease(long+"s"); len(a) > 253 || len(b) > 253 || a == b ||
		!strings.HasPrefix(a, nodeLeasePrefix+"very-long") {
		t.Error(a, b)
	}
	if nodeLease("win1") != "weft-chassis-win1" {
		t.Error(nodeLease("win1"))
	}
	if nodeLease("host-a") == hostLease("a") {
		t.Error("a node's Lease has a host's name")
	}
	dir := &runDir{path: "/run/weft/chassis"}
	if path := dir.folder(long) + "/" + fmt.Sprintf(ownSocket, 1<<22); len(path) > maxSocketPath {
		t.Errorf("%d bytes: %s", len(path), path)
	}
	if dir.folder("win1") != "/run/weft/chassis/win1" {
		t.Error(dir.folder("win1"))
	}
	for _, name := range []string{"..", "a/b", "", "../../etc"} {
		if folder, err := (&runDir{path: t.TempDir()}).make(name); err == nil {
			t.Errorf("a node of name %q gets %s", name, folder)
		}
	}
}

// TestWhereAHostConnects: a node has no chassis host connect to others.
func TestWhereAHostConnects(t *testing.T) {
	defer func(before func(string, []string, []netip.Addr) (netip.AddrPort, error)) { agentEnd = before }(agentEnd)
	agentEnd = contract.AgentEnd
	for said, want := range map[string]bool{"192.0.2.1:16642": true, "198.51.100.1:16642": true, "192.0.2.2:16642": false,
		"127.0.0.1:16642": false, "192.0.2.1:6443": false, "metadata:16642": false} {
		object := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n",
			Annotations: map[string]string{contract.NodeFactsAnnotation: contract.Format(contract.NodeFacts{
				Addresses: []netip.Addr{netip.MustParseAddr("198.51.100.1")}, Hosted: &contract.Hosted{Address: said}})}}}
		object.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "192.0.2.1"}}
		kept, err := keepFacts(object)
		if err != nil {
			t.Fatal(err)
		}
		n, ok, err := hostedNode(kept.(*corev1.Node))
		if ok != want || (err == nil) != want || want && n.address != said {
			t.Errorf("%s: %+v %v", said, n, err)
		}
	}
}

func FuzzHostedNode(f *testing.F) {
	for _, seed := range []string{``, `{`, `{"hosted":{"address":"192.0.2.1:16642"}}`, `{"hosted":{"address":"[::1]:1"}}`,
		`{"hosted":{"address":":1"}}`, `{"hosted":{"address":"a:0"}}`, `{"hosted":{}}`, `{"hosted":null}`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		object := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n",
			Annotations: map[string]string{contract.NodeFactsAnnotation: text}}}
		n, ok, err := hostedNode(object)
		if ok && (err != nil || n.name != "n" || !strings.Contains(n.address, ":")) || !ok && n != (node{}) {
			t.Errorf("%q: %v %t %v", text, n, ok, err)
		}
	})
}
