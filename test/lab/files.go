package lab

import (
	"os"
	"os/exec"
	"path/filepath"
)

// What is applied to the cluster, in the state directory.
const (
	manifestsFile   = "manifests.yaml"
	definitionsFile = "definitions.yaml"
	apiServiceFile  = "apiservice.yaml"
)

// policyKinds is the CustomResourceDefinition of ClusterNetworkPolicy in its experimental form, which has
// every field; `make lab` takes it out of the Network Policy API's module.
const policyKinds = "clusternetworkpolicies.yaml"

// files knows where a lab's own files and the project's programs are, and what the host's are like.
type files struct {
	dir string // the lab's state directory
	bin string // the project's programs
	// containerd is the major version of the host's.
	containerd int
	// keepOOMScores: the lab may not lower processes' OOM scores, as is so in some containers.
	keepOOMScores bool
}

func (f files) pki(name string) string        { return filepath.Join(f.dir, "pki", name) }
func (f files) kubeconfig(name string) string { return f.pki(name + ".kubeconfig") }
func (f files) lab(name string) string        { return filepath.Join(f.bin, "lab", name) }
func (f files) ssh(name string) string        { return filepath.Join(f.dir, "ssh", name) }
func (f files) hyperkube() string             { return f.lab("hyperkube") }

// path is the search path of every process in the lab: with --ovn prefix OVN's programs there win
// over any that the host has.
func (c Config) path(f files) string {
	path := f.lab("") + ":/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
	if c.OVN == OVNPrefix {
		return f.lab("ovn/bin") + ":" + path
	}
	return path + ":" + os.Getenv("PATH")
}

// schema finds an OVSDB schema, for example "ovn/ovn-nb.ovsschema", beside the programs.
func (c Config) schema(f files, name string) string {
	share := []string{"/usr/share", "/usr/local/share"}
	if c.OVN == OVNPrefix {
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
