package lab

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
)

// requirements are files that a lab needs, with what to do if they are missing.
type requirements struct {
	// files are paths, or programs in the lab's search path.
	files  []string
	remedy string
}

// programs are those that a lab runs.
type programs struct {
	layout
	emulated bool // the extension of the Hyper-V switch
}

func newPrograms(c Config, f files) programs { return programs{newLayout(c, f), c.emulated()} }

func (p programs) requirements() []requirements {
	f := p.files
	made := []string{f.hyperkube(), f.lab("kubectl"), f.lab("loopback"), f.lab("agnhost"), f.lab(policyKinds)}
	if p.weft {
		made = append(made, f.bin+"/weft", f.bin+"/weft-cni")
	}
	tools := []string{"containerd", "runc", "nsenter", "ip", "nft", "ethtool"}
	if len(p.windowsNodes) > 0 {
		tools = append(tools, wine, wineserver, faketime)
		made = append(made, f.bin+"/weftlab", f.bin+"/weft.exe", f.bin+"/weft-cni.exe", f.lab("hnsemu"),
			f.lab("ovs-ofctl.exe"), f.lab("pktmon.exe"), f.lab("wine/.complete"))
	}
	if len(p.windowsNodes) > 0 && p.emulated {
		made = append(made, f.lab("hypervemu"), f.lab("hyperv-netlink.so"))
	}
	ovn := requirements{
		files: []string{"ovn-controller", "ovn-northd", "ovn-nbctl", "ovsdb-server", "ovsdb-tool", "ovs-vswitchd",
			"ovs-vsctl", "ovs-ofctl",
			f.schema("ovn/ovn-nb.ovsschema"), f.schema("ovn/ovn-sb.ovsschema"),
			f.schema("openvswitch/vswitch.ovsschema")},
		remedy: "`make ovn` unpacks them",
	}
	if f.ovn == OVNSystem {
		ovn.remedy = "--ovn system wants them installed (on Debian and Ubuntu: apt-get install ovn-central ovn-host " +
			"openvswitch-switch); " +
			"--ovn prefix does not"
	}
	all := []requirements{{made, "`make lab` makes them"}, {tools, "`make lab-deps` installs what the lab needs"}}
	if len(p.nodes()) > 0 {
		all = append(all, ovn)
	}
	if !p.hasHosts() {
		return all
	}
	kernels := requirements{remedy: "`make lab-kernels` installs and makes them"}
	for _, h := range p.hosts {
		if h.kernel {
			kernels.files = append(kernels.files, f.kernel(h.release), "bash", "mkfs.ext4")
		}
	}
	all = append(all, kernels)
	return append(all, requirements{[]string{f.hosts(".complete"), "ssh-keygen", "/usr/bin/python3",
		"/usr/bin/ansible-playbook"},
		"`make lab-hosts` installs and makes them"})
}

// check finds out what is missing before anything is started. present tells whether there
// is a file of that path.
func (p programs) check(present func(path string) bool) error {
	var errs []error
	for _, r := range p.requirements() {
		var missing []string
		for _, file := range r.files {
			found := present(file)
			if !filepath.IsAbs(file) {
				found = false
				for _, dir := range filepath.SplitList(p.files.path()) {
					found = found || present(filepath.Join(dir, file))
				}
			}
			if !found {
				missing = append(missing, file)
			}
		}
		if len(missing) > 0 {
			errs = append(errs, fmt.Errorf("missing: %s; %s", strings.Join(missing, ", "), r.remedy))
		}
	}
	return errors.Join(errs...)
}
