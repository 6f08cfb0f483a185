package lab

import (
	"os"
	"os/exec"
	"path/filepath"

	"github.com/weftnet/weft/test/lab/machine"
)

// What is applied to the cluster, in the state directory.
const (
	manifestsFile   = "manifests.yaml"
	definitionsFile = "definitions.yaml"
	apiServiceFile  = "apiservice.yaml"
	nodesFile       = "nodes.yaml"
)

// policyKinds is the CustomResourceDefinition of ClusterNetworkPolicy in its experimental form, which has
// every field; `make lab` takes it out of the Network Policy API's module.
const policyKinds = "clusternetworkpolicies.yaml"

// files knows where a lab's own files and the project's programs are, and what the host's are like.
type files struct {
	dir string // the lab's state directory
	bin string // the project's programs
	ovn string // [OVNPrefix] or [OVNSystem]
	// containerd is the major version of the host's.
	containerd int
	// keepOOMScores: the lab may not lower processes' OOM scores, as is so in some containers.
	keepOOMScores bool
}

// newFiles of a lab with that state directory, on a host that is not inspected yet.
func newFiles(c Config, dir string) files { return files{dir: dir, bin: c.Bin, ovn: c.OVN} }

// machine is the directory of a machine's own files, and what is below it.
func (f files) machine(name string, below ...string) string {
	return filepath.Join(append([]string{machine.Dir(f.dir, name)}, below...)...)
}

// manifestsApplied exists when the manifests are in force. All machines see it.
func (f files) manifestsApplied() string { return f.machine(Central, "manifests-applied") }

func (f files) inventory() string { return f.machine(Control, "inventory.json") }

// hostDisk has all that a host has written.
func (f files) hostDisk(name string) string { return f.machine(name, "disk") }

// clock says how far a Windows node's clock is off, as libfaketime reads it: "+2h".
func (f files) clock(name string) string { return f.machine(name, "clock") }

func (f files) pki(name string) string        { return filepath.Join(f.dir, "pki", name) }
func (f files) kubeconfig(name string) string { return f.pki(name + ".kubeconfig") }
func (f files) lab(name string) string        { return filepath.Join(f.bin, "lab", name) }
func (f files) ssh(name string) string        { return filepath.Join(f.dir, "ssh", name) }
func (f files) hyperkube() string             { return f.lab("hyperkube") }

// hosts is where `make lab-hosts` puts what hosts are made of.
func (f files) hosts(name string) string { return filepath.Join(f.lab("hosts"), name) }

// kernel is the program of a release's kernel.
func (f files) kernel(release string) string { return f.lab("kernel/linux-" + kernels[release]) }

// path is the search path of every process in the lab: with --ovn prefix OVN's programs there win
// over any that the host has.
func (f files) path() string {
	path := f.lab("") + ":/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
	if f.ovn == OVNPrefix {
		return f.lab("ovn/bin") + ":" + path
	}
	return path + ":" + os.Getenv("PATH")
}

// schema finds an OVSDB schema, for example "ovn/ovn-nb.ovsschema", beside the programs.
func (f files) schema(name string) string {
	share := []string{"/usr/share", "/usr/local/share"}
	if f.ovn == OVNPrefix {
		share = []string{f.lab("ovn/share")}
	} else if program, err := exec.LookPath("ovsdb-tool"); err == nil {
		share = append(share, filepath.Join(filepath.Dir(program), "../share"))
	}
	for _, dir := range share {
		if path := filepath.Join(dir, name); exists(path) {
			return path
		}
	}
	return filepath.Join(share[0], name)
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
