package node

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/rest"

	"github.com/weftnet/weft/models/telemetry"
	"github.com/weftnet/weft/node/daemons"
	"github.com/weftnet/weft/node/nodeconfig"
	"github.com/weftnet/weft/node/ovncontroller"
	"github.com/weftnet/weft/node/unixctl"
	"github.com/weftnet/weft/ovsdb/certificates"
)

// newRegistry has what says of the node as a whole how it is.
func newRegistry(c nodeconfig.Config, bridged func() bool, attached, ready func() float64) *prometheus.Registry {
	registry := telemetry.NewRegistry()
	registry.MustRegister(
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "weft_attached_interfaces", Help: "Interfaces of pods that are ports of br-int.",
		}, attached),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "weft_node_ready", Help: "1 while the agent has no problem of /readyz, else 0. With a problem it cannot " +
				"attach new pods, or they would lack something, such as encryption.",
		}, ready),
		daemons.New(func() []daemons.Daemon { return daemonsOf(c, bridged()) }),
	)
	return registry
}

// daemonsOf are those of Open vSwitch and OVN that the node has, as far as it is known where they are. A node
// without br-int has no ovs-vswitchd that may be asked.
func daemonsOf(c nodeconfig.Config, bridged bool) (list []daemons.Daemon) {
	add := func(name string, sockets []string) {
		list = append(list, daemons.Daemon{Name: name, Node: c.NodeName, Sockets: sockets})
	}
	folder, known := switchFolder(c)
	if known {
		add("ovsdb-server", unixctl.Sockets([]string{folder}, "ovsdb-server"))
	}
	if bridged && (known || c.OVSControl != "") {
		add("ovs-vswitchd", switchSockets(c))
	}
	if c.Chassis != nodeconfig.ChassisHosted {
		add("ovn-controller", unixctl.Sockets(ovncontroller.Folders(c), "ovn-controller"))
	}
	return list
}

// certificatesOf are those that the agent and the node's ovn-controller use.
func certificatesOf(c nodeconfig.Config, access rest.TLSClientConfig) certificates.Expiry {
	own := append(certificates.OfKubeconfig(c.Kubeconfig, access), []certificates.Watched{
		{Purpose: "tunnel-certificate", File: c.TunnelCertificate}, {Purpose: "tunnel-ca", File: c.TunnelCA},
		{Purpose: "encryption-certificate", File: c.EncryptionCertificate},
		{Purpose: "encryption-ca", File: c.EncryptionCA}}...)
	return certificates.NewExpiryOf(func() []certificates.Watched {
		return slices.Concat(own, ovncontroller.Certificates(c))
	})
}
