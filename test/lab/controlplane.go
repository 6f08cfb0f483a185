package lab

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/weftnet/weft/test/lab/machine"
)

const (
	etcdAddress     = "127.0.0.1:2379"
	etcdPeerAddress = "127.0.0.1:2380"
)

// controlPlane is Kubernetes' on the central.
type controlPlane struct{ layout }

func (c controlPlane) components() []machine.Component {
	f := c.files
	apiReady := c.apiReady()
	afterAPI := []machine.Probe{apiReady}
	client := func(name string, args ...string) []string {
		k := f.kubeconfig(name)
		return append([]string{f.hyperkube(), name, "--kubeconfig=" + k, "--authentication-kubeconfig=" + k,
			"--authorization-kubeconfig=" + k, "--leader-elect=false", "--bind-address=127.0.0.1"}, args...)
	}
	return []machine.Component{
		{
			Name: "etcd",
			Command: []string{f.hyperkube(), "etcd", "--data-dir=/var/lib/etcd", "--unsafe-no-fsync", "--log-level=warn",
				"--listen-client-urls=http://" + etcdAddress, "--advertise-client-urls=http://" + etcdAddress,
				"--listen-peer-urls=http://" + etcdPeerAddress, "--initial-advertise-peer-urls=http://" + etcdPeerAddress,
				"--initial-cluster=default=http://" + etcdPeerAddress},
			Ready: machine.Probe{TCP: etcdAddress},
		},
		{
			Name:    "kube-apiserver",
			Command: c.apiServerCommand(),
			WaitFor: []machine.Probe{{TCP: etcdAddress}},
			Ready:   apiReady,
		},
		{
			Name: "kube-controller-manager",
			Command: client("kube-controller-manager",
				"--service-account-private-key-file="+f.pki("sa.key"), "--root-ca-file="+f.pki("ca.crt"),
				"--cluster-signing-cert-file="+f.pki("ca.crt"), "--cluster-signing-key-file="+f.pki("ca.key"),
				"--use-service-account-credentials=true", "--allocate-node-cidrs=true", "--configure-cloud-routes=false",
				"--cluster-cidr="+strings.Join(c.addresses.podRanges(), ","),
				"--service-cluster-ip-range="+strings.Join(c.addresses.serviceRanges(), ","),
				c.nodeMask(),
				// With the usual limits its controllers queue for four seconds before the first one starts.
				"--kube-api-qps=500", "--kube-api-burst=1000"),
			WaitFor: afterAPI,
			Ready:   machine.Probe{TCP: "127.0.0.1:10257"},
		},
		{Name: "kube-scheduler", Command: client("kube-scheduler"), WaitFor: afterAPI,
			Ready: machine.Probe{TCP: "127.0.0.1:10259"}},
		{
			Name:    "manifests",
			Prepare: [][]string{{"rm", "-f", f.manifestsApplied()}},
			Command: c.applyManifests(),
			WaitFor: afterAPI,
			Once:    true,
		},
	}
}

// applyManifests ends when the manifests are in force: kinds and policies are so a moment after they are written.
// Nodes in other zones than the lab's configuration says are put back there.
func (c controlPlane) applyManifests() []string {
	f := c.files
	kinds, labelled, inForce := []string{f.lab(policyKinds)}, "", ""
	if c.hasZones() {
		labelled = `
		"$kubectl" "$config" apply --server-side --force-conflicts -f "$5"`
	}
	if !c.hasHosts() {
		kinds = append(kinds, filepath.Join(f.dir, definitionsFile))
	}
	if len(c.windowsNodes) > 0 {
		inForce = `
			until echo '{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "w1"}}' |
				"$kubectl" "$config" apply --server-side --dry-run=server -o yaml -f - | grep -q 'kubernetes.io/os: windows'; do :; done`
	}
	command := []string{"sh", "-ec", `
		kubectl=$0 config=--kubeconfig=$1` + labelled + `
		"$kubectl" "$config" apply --server-side -f "$2" -f "$3"
		"$kubectl" "$config" wait --for=condition=Established --timeout=30s -f "$2"` + inForce + `
		touch "$4"`, f.lab("kubectl"), f.kubeconfig("admin"), strings.Join(kinds, ","), filepath.Join(f.dir, manifestsFile),
		f.manifestsApplied()}
	if c.hasZones() {
		command = append(command, filepath.Join(f.dir, nodesFile))
	}
	return command
}

func (c controlPlane) nodeMask() string {
	switch c.addresses.Families {
	case IPv4:
		return fmt.Sprintf("--node-cidr-mask-size=%d", podMaskV4)
	case IPv6:
		return fmt.Sprintf("--node-cidr-mask-size=%d", podMaskV6)
	}
	return fmt.Sprintf("--node-cidr-mask-size-ipv4=%d", podMaskV4) // 64 is the default of the other
}

func (c controlPlane) apiServerCommand() []string {
	f := c.files
	command := []string{f.hyperkube(), "kube-apiserver",
		"--etcd-servers=http://" + etcdAddress,
		"--advertise-address=" + c.addresses.first(management, centralNumber).String(),
		"--secure-port=" + strconv.Itoa(apiPort),
		"--service-cluster-ip-range=" + strings.Join(c.addresses.serviceRanges(), ","), "--endpoint-reconciler-type=lease",
		"--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction", "--allow-privileged=true",
		"--client-ca-file=" + f.pki("ca.crt"), "--tls-cert-file=" + f.pki("apiserver.crt"), "--tls-private-key-file=" +
			f.pki("apiserver.key"),
		"--kubelet-client-certificate=" + f.pki("apiserver-kubelet.crt"), "--kubelet-client-key=" +
			f.pki("apiserver-kubelet.key"),
		"--kubelet-certificate-authority=" + f.pki("ca.crt"), "--kubelet-preferred-address-types=InternalIP",
		"--service-account-issuer=https://kubernetes.default.svc.cluster.local",
		"--service-account-key-file=" + f.pki("sa.pub"), "--service-account-signing-key-file=" + f.pki("sa.key"),
		"--requestheader-client-ca-file=" + f.pki("ca.crt"), "--requestheader-allowed-names=front-proxy-client",
		"--requestheader-extra-headers-prefix=X-Remote-Extra-", "--requestheader-group-headers=X-Remote-Group",
		"--requestheader-username-headers=X-Remote-User",
		"--proxy-client-cert-file=" + f.pki("front-proxy.crt"), "--proxy-client-key-file=" + f.pki("front-proxy.key"),
		"--enable-aggregator-routing=true",
	}
	if len(c.windowsNodes) > 0 { // for the policy that labels Windows nodes
		command = append(command, "--feature-gates=MutatingAdmissionPolicy=true",
			"--runtime-config=admissionregistration.k8s.io/v1beta1=true")
	}
	return command
}
