//go:build linux

package chassis

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"
)

// Config is what a chassis host is told. Each field's key is in its comment.
type Config struct {
	// Kubeconfig is the path of a kubeconfig file; empty means the pod's own service account. Key: kubeconfig.
	Kubeconfig string
	// Identity tells this host from the others. Key: identity.
	Identity string
	// Zone is the zone whose nodes this host serves ([contract.NodeNetwork.Zone]); empty serves those without a zone.
	// Key: zone.
	Zone string
	// RunDir has a folder for each node that this host holds. Key: run-dir.
	RunDir string
	// OVNController is the program, a path or a name to be found in PATH. Key: ovn-controller.
	OVNController string
	// OVNControllerMemory is how many bytes of data each node's ovn-controller may have; 0 is half of the memory of the
	// host, or of the cgroup in which this process runs. Key: ovn-controller-memory.
	OVNControllerMemory int64

	// CA, Certificate and PrivateKey are PEM files for the tunnels to the nodes' agents; the
	// certificate's name is [tunnel.HostName]. Keys: tunnel-ca, tunnel-certificate, tunnel-private-key.
	CA, Certificate, PrivateKey string
	// Secret, NAMESPACE/NAME, holds them instead, as ca.crt, tls.crt and tls.key. Key: tunnel-secret.
	Secret string

	// Southbound is what ovn-controller connects to, whatever the nodes' databases say: a list of
	// ssl:HOST:PORT and tcp:HOST:PORT, or unix:/PATH. Empty takes it from each node's database. Key: ovn-southbound.
	Southbound string

	// OVNCA, OVNCertificate and OVNPrivateKey are PEM files that ovn-controller shows to the
	// Southbound; [NodePlaceholder] in them stands for the node's name, since the Southbound's RBAC
	// wants a certificate with the chassis's name. Keys: ovn-ca, ovn-certificate, ovn-private-key.
	OVNCA, OVNCertificate, OVNPrivateKey string

	// LeaseNamespace has the Leases. Key: lease-namespace.
	LeaseNamespace string
	// LeaseDuration is how long a silent host is still believed to be alive. Key: lease-duration.
	LeaseDuration time.Duration
	// MetricsAddress is where /metrics, /healthz and /readyz are served; empty serves nothing. Key: metrics-address.
	MetricsAddress string
	// Profiling adds /debug/pprof there, for clients of the host itself. Key: profiling.
	Profiling bool
}

// NodePlaceholder stands for a node's name in the paths of ovn-controller's credentials.
const NodePlaceholder = "{node}"

// DefaultConfig holds every default; the tunnel's credentials have none.
func DefaultConfig() Config {
	hostname, _ := os.Hostname() // without one the key has no default, and its absence is reported
	return Config{
		Identity:       strings.ToLower(hostname),
		RunDir:         "/run/weft/chassis",
		OVNController:  "ovn-controller",
		LeaseNamespace: "kube-system",
		LeaseDuration:  8 * time.Second,
		MetricsAddress: "127.0.0.1:9472",
	}
}

// longestIdentity leaves room for the rest of the host's Lease's name.
const longestIdentity = validation.DNS1123SubdomainMaxLength - len(hostLeasePrefix)

// leastMemory tells bytes from larger units: no ovn-controller has room for its threads' stacks in less.
const leastMemory = 32 << 20

// longestRunDir leaves room for a node's name, or its beginning and a hash, and a socket's in
// the 107 bytes of a unix socket's address.
const longestRunDir = maxSocketPath - len("/") - shortestFolder - longestSocket

// Validate checks everything and returns all that is wrong at once, each as "key: what is wrong; remedy".
func (c Config) Validate() error {
	var errs []error
	bad := func(key, format string, args ...any) { errs = append(errs, fmt.Errorf(key+": "+format, args...)) }
	if problems := validation.IsDNS1123Subdomain(c.Identity); len(problems) > 0 || len(c.Identity) > longestIdentity {
		bad("identity", "%q cannot be part of a Lease's name; use lower-case letters, digits, dots and dashes, %d at most: "+
			"the host's name will do", c.Identity, longestIdentity)
	}
	if problems := validation.IsDNS1123Label(c.Zone); c.Zone != "" && len(problems) > 0 {
		bad("zone", "%q is no name of a zone: %s; use the name that the controller's key ovn-northbound has for it", c.Zone,
			strings.Join(problems, "; "))
	}
	if !filepath.IsAbs(c.RunDir) || len(c.RunDir) > longestRunDir {
		bad("run-dir", "%q is not an absolute path of at most %d bytes, which leaves room for sockets' names; use one like "+
			"/run/weft/chassis", c.RunDir, longestRunDir)
	}
	if _, err := exec.LookPath(c.OVNController); err != nil {
		bad("ovn-controller", "%w; install OVN's host package (ovn-host), or give the program's path", err)
	}
	if c.OVNControllerMemory != 0 && c.OVNControllerMemory < leastMemory {
		bad("ovn-controller-memory", "%d bytes are too few for any node; use %dMi or more, or 0 for half of the memory that "+
			"is there", c.OVNControllerMemory, leastMemory>>20)
	}
	if problems := validation.IsDNS1123Label(c.LeaseNamespace); len(problems) > 0 {
		bad("lease-namespace", "%q is not a namespace: %s", c.LeaseNamespace, strings.Join(problems, "; "))
	}
	if c.LeaseDuration < 3*time.Second || c.LeaseDuration > time.Hour {
		bad("lease-duration", "%s is too short to survive a slow API server or too long to be of use; use 3s to 1h "+
			"(default 8s)", c.LeaseDuration)
	}
	if _, _, err := net.SplitHostPort(c.MetricsAddress); c.MetricsAddress != "" && err != nil {
		bad("metrics-address", "%q: %w; write HOST:PORT, like 127.0.0.1:9472 or :9472", c.MetricsAddress, err)
	}
	return errors.Join(errors.Join(errs...), c.validateTunnel(), c.validateOVN())
}

func (c Config) validateTunnel() error {
	files := []key{{"tunnel-ca", c.CA}, {"tunnel-certificate", c.Certificate}, {"tunnel-private-key", c.PrivateKey}}
	given := set(files)
	if c.Secret == "" {
		return missing(files, "give the PEM file, or the three by tunnel-secret")
	}
	namespace, name, _ := strings.Cut(c.Secret, "/")
	switch {
	case len(given) > 0:
		return fmt.Errorf("tunnel-secret: it is given, and so is %s; give one or the other", strings.Join(given, ", "))
	case len(validation.IsDNS1123Label(namespace)) > 0, len(validation.IsDNS1123Subdomain(name)) > 0:
		return fmt.Errorf("tunnel-secret: %q does not name a Secret; write NAMESPACE/NAME, like kube-system/weft-chassis",
			c.Secret)
	}
	return nil
}

func (c Config) validateOVN() error {
	files := []key{{"ovn-ca", c.OVNCA}, {"ovn-certificate", c.OVNCertificate}, {"ovn-private-key", c.OVNPrivateKey}}
	if len(set(files)) > 0 {
		if err := missing(files, "give the three PEM files or none"); err != nil {
			return err
		}
	}
	if c.Southbound == "" {
		return nil
	}
	if _, isSocket := strings.CutPrefix(c.Southbound, "unix:/"); isSocket {
		return nil // the operator's word, for a host that has the Southbound too
	}
	if problem := refuseRemote(c.Southbound, c.OVNCA != ""); problem != "" {
		return fmt.Errorf("ovn-southbound: %q: %s", c.Southbound, problem)
	}
	return nil
}

type key struct{ name, value string }

func set(keys []key) []string {
	var names []string
	for _, k := range keys {
		if k.value != "" {
			names = append(names, k.name)
		}
	}
	return names
}

func missing(keys []key, remedy string) error {
	var errs []error
	for _, k := range keys {
		if k.value == "" {
			errs = append(errs, fmt.Errorf("%s: is empty; %s", k.name, remedy))
		}
	}
	return errors.Join(errs...)
}
