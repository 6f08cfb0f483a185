package lab

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"k8s.io/client-go/tools/clientcmd/api"

	"github.com/weftnet/weft/test/lab/machine"
	"github.com/weftnet/weft/test/lab/pki"
)

// Files of a host that is a node, where an operator would look for them.
const (
	kubeletConf   = "/etc/kubernetes/kubelet.conf"
	kubeletYAML   = "/etc/kubernetes/kubelet.yaml"
	kubeletPKI    = "/etc/kubernetes/pki/"
	unitDir       = "/etc/systemd/system/"
	nodeNamespace = "/usr/local/sbin/lab-node"
	// kubeletCredentials are renewed by the kubelet.
	kubeletCredentials = "/var/lib/kubelet/pki/kubelet-client-current.pem"
)

// hostNode is a host that is a node of the cluster, except for its network: containerd and kubelet are units of its
// systemd, and nothing is in /etc/cni/net.d.
type hostNode struct{ hostMachine }

func (h hostNode) nodeFiles() []machine.File {
	f := h.files
	f.containerd = 1 // both releases' is 1.6 or 1.7
	kubelet := fmt.Sprintf("/usr/bin/kubelet --config=%s --kubeconfig=%s --node-ip=%s --node-labels=%s", kubeletYAML,
		kubeletConf, join(h.addresses.of(external, h.number)), zoneLabel(h.number))
	runtime, pods := "runc", podsOnSharedKernel
	if h.kernel {
		pods = podsOnOwnKernel
		runtime = "crun" // runc starts itself three times, which takes seconds in user-mode Linux
	}
	files := []machine.File{
		{Path: "/etc/containerd/config.toml", Content: containerdConfig(f, runtime)},
		{Path: "/opt/cni/bin/loopback", Source: f.lab("loopback"), Mode: 0o755},
		{Path: kubeletPKI + "ca.crt", Source: f.pki("ca.crt")},
		{Path: kubeletPKI + "kubelet.crt", Source: f.pki(h.name + ".crt")},
		{Path: kubeletPKI + "kubelet.key", Source: f.pki(h.name + ".key"), Mode: 0o600},
		{Path: kubeletConf, Content: h.kubeconfig(), Mode: 0o600},
		{Path: kubeletYAML, Content: h.kubeletConfig(kubeletPKI+"ca.crt", kubeletPKI+"kubelet.crt",
			kubeletPKI+"kubelet.key", pods)},
		{Path: unitDir + "kubelet.service", Content: kubeletUnit + kubelet + "\n"},
		enabled("kubelet.service", unitDir+"kubelet.service"),
		enabled("containerd.service", "/lib/systemd/system/containerd.service"),
	}
	if h.kernel {
		return files
	}
	return append(files,
		machine.File{Path: nodeNamespace, Content: nodeNamespaceScript(), Mode: 0o755},
		machine.File{Path: unitDir + "kubelet.service.d/lab.conf", Content: inNodeNamespace(kubelet)},
		machine.File{Path: unitDir + "containerd.service.d/lab.conf", Content: inNodeNamespace("/usr/bin/containerd")})
}

// enabled has a host start the unit that is at path.
func enabled(unit, path string) machine.File {
	return machine.File{Path: unitDir + "multi-user.target.wants/" + unit, Content: path, Mode: os.ModeSymlink}
}

// kubeconfig of the kubelet is like the one that kubeadm writes.
func (h hostNode) kubeconfig() string {
	text, err := pki.Kubeconfig("default",
		api.Cluster{Server: h.addresses.apiServer(), CertificateAuthority: kubeletPKI + "ca.crt"},
		api.AuthInfo{ClientCertificate: kubeletCredentials, ClientKey: kubeletCredentials})
	if err != nil { // it holds nothing that YAML cannot say
		panic(err)
	}
	return string(text)
}

const kubeletUnit = `[Unit]
Description=kubelet: the Kubernetes node agent
After=containerd.service network-online.target
Wants=containerd.service network-online.target
StartLimitIntervalSec=0

[Install]
WantedBy=multi-user.target

[Service]
Restart=always
RestartSec=1
ExecStart=`

// binds show the host's system what an overlay cannot hold, and what it shares with the lab.
func (h hostNode) binds() []string {
	f, disk := h.files, h.disk()
	escape := strings.NewReplacer(`\`, `\\`, ":", `\:`).Replace
	return []string{
		"--bind=" + escape(disk+"/containerd") + ":/var/lib/containerd",
		"--bind=" + escape(disk+"/kubelet") + ":/var/lib/kubelet",
		"--bind-ro=" + escape(f.lab("images")), // whose layers containerd's images are links to
		"--bind-ro=" + escape(f.hyperkube()) + ":/usr/bin/kubelet",
		"--bind=" + machine.LegacyCgroups,
		"--bind=/dev/null:/dev/kmsg", // the kernel's log is not this host's, and kubelet wants one
	}
}

// inNodeNamespace is a unit's drop-in that has its command run by [nodeNamespaceScript].
func inNodeNamespace(command string) string {
	return "[Service]\nExecStart=\nExecStart=" + nodeNamespace + " " + command + "\n"
}

// nodeNamespaceScript runs a command in a mount namespace that differs from the system's in what the
// machine's kernel has for all: where its controllers are those of cgroup v1, kubelet and containers see
// them, and the kernel's settings are files. All other mounts are common to both.
func nodeNamespaceScript() string {
	script := `#!/bin/sh
exec unshare --mount --propagation unchanged sh -ec '
mount --make-rprivate /sys/fs/cgroup
mount --make-rprivate /proc
[ ! -d ` + machine.LegacyCgroups + `/memory ] || mount --rbind ` + machine.LegacyCgroups + ` /sys/fs/cgroup
mkdir -p /run/settings
setting() {
    [ -e /proc/sys/$1 ] || return 0
    file=/run/settings/$(echo $1 | tr / _)
    [ -e $file ] || echo $2 > $file
    mount --bind $file /proc/sys/$1
}
`
	for _, name := range slices.Sorted(maps.Keys(machine.KernelSettings)) {
		script += fmt.Sprintf("setting %s %s\n", name, machine.KernelSettings[name])
	}
	return script + `exec "$@"' sh "$@"` + "\n"
}
