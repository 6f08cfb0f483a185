package lab

import (
	"slices"
	"strings"
	"testing"
)

// withKernels is a lab of a central and two nodes, of both releases, that have kernels of their own.
func withKernels(families Families) Config {
	c := withHosts(families)
	c.Hosts = "c1,l1+kernel,l2:trixie+kernel"
	return c
}

func TestAHostsKernelIsThatOfItsRelease(t *testing.T) {
	c := withKernels(IPv4)
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string][]string{"c1": nil, "l1": {"/project/bin/lab/kernel/linux-6.1"},
		"l2": {"/project/bin/lab/kernel/linux-6.12"}} {
		command := slices.Clone(specOf(t, c, name).Components[0].Command)
		got := slices.DeleteFunc(command, func(word string) bool { return !strings.Contains(word, "/kernel/") })
		if !slices.Equal(got, want) {
			t.Errorf("the kernel of %s is %q, want %q", name, got, want)
		}
	}
}

// The addresses and routes that a host's machine has, where it shares that one's kernel, are the host's own to set.
func TestAHostWithAKernelHasItsNetworkForItself(t *testing.T) {
	shared := withHosts(Dual)
	shared.Hosts = "c1,l1,l2:trixie"
	for _, name := range []string{"l1", "l2"} {
		outside, without := specOf(t, withKernels(Dual), name), specOf(t, shared, name)
		script := newHostFiles(t, withKernels(Dual), name)[hostNetworkScript].Content
		if len(outside.Routes) > 0 {
			t.Errorf("the machine of %s has the routes %v", name, outside.Routes)
		}
		for i, on := range without.Interfaces {
			if taken := outside.Interfaces[i]; len(taken.Addresses) > 0 || !taken.Switched || taken.MAC != on.MAC {
				t.Errorf("%s of the machine of %s is %+v", on.Name, name, taken)
			}
			for _, address := range on.Addresses {
				if !strings.Contains(script, "ip address add "+address+" dev "+on.Name+"\n") {
					t.Errorf("%s gives %s no address %s:\n%s", name, on.Name, address, script)
				}
			}
		}
		for _, route := range without.Routes {
			if !strings.Contains(script, "ip route replace "+route.Destination+" via "+route.Via+"\n") {
				t.Errorf("%s has no route to %s:\n%s", name, route.Destination, script)
			}
		}
	}
}

func TestANodeWithAKernelNeedsNoNamespaceForItsKubelet(t *testing.T) {
	files := newHostFiles(t, withKernels(IPv4), "l1")
	for _, path := range []string{nodeNamespace, unitDir + "kubelet.service.d/lab.conf",
		unitDir + "containerd.service.d/lab.conf"} {
		if _, there := files[path]; there {
			t.Errorf("it has %s", path)
		}
	}
}

func TestANodeWithAKernelLeavesPodsToOthers(t *testing.T) {
	for pods, c := range map[string]Config{`"maxPods": 25,`: withKernels(IPv4), `"maxPods": 250,`: withHosts(IPv4)} {
		if got := newHostFiles(t, c, "l1")[kubeletYAML].Content; !strings.Contains(got, pods) {
			t.Errorf("not %s, but\n%s", pods, got)
		}
	}
}

func TestAMissingKernelIsNamedWithItsRemedy(t *testing.T) {
	err := newPrograms(withKernels(IPv4), someFiles).check(func(path string) bool {
		return !strings.HasSuffix(path, "linux-6.1")
	})
	if err == nil || !strings.Contains(err.Error(), "linux-6.1; `make lab-kernels`") {
		t.Errorf("without a kernel: %v", err)
	}
	if err := newPrograms(withHosts(IPv4), someFiles).check(func(path string) bool {
		return !strings.Contains(path, "kernel")
	}); err != nil {
		t.Errorf("without kernels, which no host has: %v", err)
	}
}
