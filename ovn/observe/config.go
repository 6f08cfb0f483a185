package observe

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"

	"k8s.io/apimachinery/pkg/util/validation"
)

// Config is what `weft observe` is told. The key in front of each comment is the user's name for the field.
type Config struct {
	// kubeconfig: credentials for the API server; empty inside a pod.
	Kubeconfig string
	// identity: this door among the doors.
	Identity string
	// listen: ADDRESS:PORT where the API server finds this door.
	Listen string
	// ovn-northbound, ovn-southbound: sockets that are served read-only, unix:PATH.
	Northbound, Southbound string
	// ovn-trace: the program by which traces are made, by its path or its name.
	OVNTrace string
	// tunnel-ca, tunnel-certificate, tunnel-private-key: PEM files. The certificate has the DNS names observe.weft.net,
	// for the nodes' agents, and weft-observe.weft-observe.svc, for the API server.
	CA, Certificate, PrivateKey string
	// metrics-address: of /metrics, /healthz and /readyz; empty serves none.
	MetricsAddress string
	// profiling: serve /debug/pprof there, too, to clients of the host itself.
	Profiling bool
}

// Sockets that the playbooks make.
const (
	NorthboundSocket = "/run/weft-observe/nb.sock"
	SouthboundSocket = "/run/weft-observe/sb.sock"
)

// DefaultConfig has a value for every key that has one.
func DefaultConfig() Config {
	hostname, _ := os.Hostname() // without one the key has no default, and its absence is reported
	return Config{
		Identity: hostname, Northbound: "unix:" + NorthboundSocket, Southbound: "unix:" + SouthboundSocket,
		OVNTrace: "ovn-trace", MetricsAddress: "127.0.0.1:9643",
	}
}

// Validate reports every mistake at once.
func (c Config) Validate() error {
	var errs []error
	if c.Identity == "" || len(validation.IsDNS1123Subdomain(nameOf(c.Identity))) > 0 {
		errs = append(errs, fmt.Errorf("identity: %q cannot end the names of this door's Lease and EndpointSlice: give "+
			"lower case letters, digits, '-' and '.', as c1.example.net", c.Identity))
	}
	if address, err := netip.ParseAddrPort(c.Listen); err != nil || address.Addr().IsUnspecified() ||
		address.Addr().IsLoopback() || address.Port() == 0 {
		errs = append(errs, fmt.Errorf("listen: %q is not ADDRESS:PORT; give an address by which API servers reach this "+
			"host, like 192.0.2.1:6645 or [2001:db8::1]:6645", c.Listen))
	}
	for key, value := range map[string]string{"ovn-northbound": c.Northbound, "ovn-southbound": c.Southbound} {
		if len(value) < 6 || value[:5] != "unix:" || !filepath.IsAbs(value[5:]) {
			errs = append(errs, fmt.Errorf("%s: %q is not unix:PATH; give the socket that the server serves read-only", key,
				value))
		}
	}
	if c.OVNTrace == "" {
		errs = append(errs, errors.New("ovn-trace: is empty; name the program, which the package ovn-common has"))
	}
	for key, value := range map[string]string{"tunnel-ca": c.CA, "tunnel-certificate": c.Certificate,
		"tunnel-private-key": c.PrivateKey} {
		if value == "" {
			errs = append(errs, fmt.Errorf("%s: is empty; name the PEM file", key))
		}
	}
	return errors.Join(errs...)
}
