package lab

import (
	"bytes"
	_ "embed"
	"fmt"
	"io/fs"
	"net/netip"
	"strings"
	"text/template"

	"github.com/weftnet/weft/models/api/crds"
	"github.com/weftnet/weft/models/api/rights"
	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/test/lab/image"
)

//go:embed manifests/cluster.yaml
var clusterManifest string

// manifests are the objects that the lab applies to its cluster: CoreDNS, and weft's own rights unless Ansible gives it
// those.
type manifests struct{ layout }

func (m manifests) text() string { return strings.Join(append(m.rights(), m.cluster()), "---\n") }

func (m manifests) rights() []string {
	switch {
	case m.hasHosts():
		return nil
	case len(m.windowsNodes) == 0:
		return []string{rights.Controller, rights.Node, rights.Observe, rights.Admission}
	}
	return []string{rights.Controller, rights.Node, rights.Observe, rights.Admission, rights.Chassis}
}

// labelledNodes are the Nodes with the labels of their zones, in a lab with zones. They are mostly there before their
// kubelets, which add what they know. Kubelets may not write these labels.
func (m manifests) labelledNodes() string {
	if !m.hasZones() {
		return ""
	}
	var nodes strings.Builder
	for _, n := range m.nodes() {
		fmt.Fprintf(&nodes, "---\napiVersion: v1\nkind: Node\nmetadata: {name: %s, labels: {%s: %s}}\n", n.name,
			contract.ZoneLabel, n.zone.name)
	}
	return nodes.String()
}

func (m manifests) cluster() string {
	var windows []string
	for _, n := range m.windowsNodes {
		windows = append(windows, n.name)
	}
	return mustRender(clusterManifest, struct {
		DNSAddresses []string
		Policy       string
		CoreDNSImage string
		WindowsNodes []string
		// Hosts have kubelets that renew their own credentials.
		Hosts bool
		// OutsideAddresses are of the host outside, which the cluster's DNS servers know by a name.
		OutsideAddresses []netip.Addr
	}{
		m.addresses.dnsServices(), map[bool]string{true: "RequireDualStack",
			false: "SingleStack"}[m.addresses.Families == Dual], image.CoreDNS,
		windows, m.hasHosts(), m.addresses.of(external, outsideNumber),
	})
}

// definitions of the kinds that are weft's own.
func definitions() string {
	var text strings.Builder
	names, err := fs.Glob(crds.Files, "*.yaml")
	if err != nil { // the pattern is a good one
		panic(err)
	}
	for _, name := range names {
		manifest, err := fs.ReadFile(crds.Files, name)
		if err != nil { // it is embedded
			panic(err)
		}
		text.Write(manifest)
		text.WriteString("\n---\n")
	}
	return text.String()
}

func mustRender(text string, values any) string {
	out := &bytes.Buffer{}
	// both are constants of this package
	if err := template.Must(template.New("").Parse(text)).Execute(out, values); err != nil {
		panic(err)
	}
	return out.String()
}
