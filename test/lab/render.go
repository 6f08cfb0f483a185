package lab

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"io/fs"
	"net/netip"
	"strings"
	"text/template"

	"github.com/weftnet/weft/models/api/crds"
	"github.com/weftnet/weft/models/api/rights"
	"github.com/weftnet/weft/test/lab/image"
	"github.com/weftnet/weft/test/lab/machine"
)

// containerdConfig is that of a node; runtime is the program that starts its containers.
func containerdConfig(f files, runtime string) string {
	values := struct {
		Socket, Sandbox, Runtime string
		KeepOOMScores            bool
	}{containerdSocket, sandboxImage, runtime, f.keepOOMScores}
	if f.containerd >= 2 {
		return mustRender(containerdV2, values)
	}
	return mustRender(containerdV1, values)
}

const containerdV1 = `version = 2
root = "/var/lib/containerd"
state = "/run/containerd"
[grpc]
  address = "{{.Socket}}"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{{.Sandbox}}"
  restrict_oom_score_adj = {{.KeepOOMScores}}
  disable_apparmor = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/opt/cni/bin"
    conf_dir = "/etc/cni/net.d"
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
      BinaryName = "{{.Runtime}}"
      SystemdCgroup = false
`

const containerdV2 = `version = 3
root = "/var/lib/containerd"
state = "/run/containerd"
[grpc]
  address = "{{.Socket}}"
[plugins."io.containerd.cri.v1.images"]
  snapshotter = "overlayfs"
[plugins."io.containerd.cri.v1.images".pinned_images]
  sandbox = "{{.Sandbox}}"
[plugins."io.containerd.cri.v1.runtime"]
  restrict_oom_score_adj = {{.KeepOOMScores}}
  disable_apparmor = true
[plugins."io.containerd.cri.v1.runtime".cni]
  bin_dirs = ["/opt/cni/bin"]
  conf_dir = "/etc/cni/net.d"
[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
  runtime_type = "io.containerd.runc.v2"
  [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
    BinaryName = "{{.Runtime}}"
    SystemdCgroup = false
`

// kubeletConfig of a node with these files; JSON is YAML.
// With hosts it renews its own credentials.
func (c Config) kubeletConfig(ca, cert, key string) string {
	config := map[string]any{
		"apiVersion":               "kubelet.config.k8s.io/v1beta1",
		"kind":                     "KubeletConfiguration",
		"failCgroupV1":             false,
		"cgroupDriver":             "cgroupfs",
		"containerRuntimeEndpoint": "unix://" + containerdSocket,
		"authentication": map[string]any{
			"anonymous": map[string]any{"enabled": false},
			"webhook":   map[string]any{"enabled": true},
			"x509":      map[string]any{"clientCAFile": ca},
		},
		"authorization":     map[string]any{"mode": "Webhook"},
		"tlsCertFile":       cert,
		"tlsPrivateKeyFile": key,
		"clusterDNS":        c.pick(dnsServiceV4, dnsServiceV6)[:1],
		"clusterDomain":     "cluster.local",
		"failSwapOn":        false,
		// Its KUBE-FIREWALL drops what is sent to 127.0.0.1 from another address of the host's, which guards
		// kube-proxy's route_localnet: there is none here, and hostPorts and NodePorts are served there.
		"makeIPTablesUtilChains": false,
		// The host's disk is not the lab's to judge.
		"evictionHard": map[string]any{
			"memory.available": "100Mi", "nodefs.available": "0%", "nodefs.inodesFree": "0%", "imagefs.available": "0%",
			"imagefs.inodesFree": "0%",
		},
		"imageGCHighThresholdPercent": 100,
		"imageGCLowThresholdPercent":  99,
		"nodeStatusUpdateFrequency":   "5s",
		"syncFrequency":               "10s",
		"maxPods":                     250,
	}
	if c.Hosts != "" {
		config["rotateCertificates"] = true
	}
	text, err := json.MarshalIndent(config, "", "  ")
	if err != nil { // it holds nothing that JSON cannot say
		panic(err)
	}
	return string(text)
}

//go:embed manifests/cluster.yaml
var clusterManifest string

// manifests are what the lab applies to its cluster: CoreDNS, and weft's own rights unless Ansible gives it those.
func (c Config) manifests() string {
	return strings.Join(append(c.rights(), c.clusterManifest()), "---\n")
}

func (c Config) rights() []string {
	switch {
	case c.Hosts != "":
		return nil
	case c.Windows == 0:
		return []string{rights.Controller, rights.Node, rights.Observe, rights.Admission}
	}
	return []string{rights.Controller, rights.Node, rights.Observe, rights.Admission, rights.Chassis}
}

func (c Config) clusterManifest() string {
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
		c.pick(dnsServiceV4, dnsServiceV6), map[bool]string{true: "RequireDualStack",
			false: "SingleStack"}[c.Families == Dual], image.CoreDNS,
		c.WindowsNodes(), c.Hosts != "", c.addrs(external, outsideNumber),
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

// specs of all machines of the lab.
func (c Config) specs(f files) []*machine.Spec {
	specs := append(append([]*machine.Spec{c.central(f)}, c.nodeSpecs(f)...), c.outside(f))
	for _, h := range c.hosts() {
		specs = append(specs, c.hostMachine(f, h))
	}
	if c.Hosts != "" {
		specs = append(specs, c.control(f))
	}
	return specs
}

func (c Config) nodeSpecs(f files) []*machine.Spec {
	var specs []*machine.Spec
	for i, name := range c.Nodes() {
		if i < c.Linux {
			specs = append(specs, c.node(f, name, c.nodeNumber(i)))
		} else {
			specs = append(specs, c.windowsNode(f, name, c.nodeNumber(i)))
		}
	}
	return specs
}

// majorVersion reads the output of `containerd --version`: "containerd NAME 1.6.20~ds1 COMMIT".
func majorVersion(output string) (int, error) {
	fields := strings.Fields(output)
	if len(fields) < 3 {
		return 0, fmt.Errorf("%q names no version of containerd", output)
	}
	var major int
	if _, err := fmt.Sscanf(strings.TrimPrefix(fields[2], "v"), "%d.", &major); err != nil {
		return 0, fmt.Errorf("%q names no version of containerd", output)
	}
	return major, nil
}
