//go:build ansible

package ansible

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/weftnet/weft/test/lab"
	"github.com/weftnet/weft/test/lab/labtest"
	"github.com/weftnet/weft/test/lab/pki"
)

func TestHostsAreServersOfTheirRelease(t *testing.T) {
	for host, release := range hosts {
		if failed := servers.On(t, host, "systemctl", "--failed", "--plain", "--no-legend"); failed != "" {
			t.Errorf("%s has failed units: %s", host, failed)
		}
		if got := servers.On(t, host, "sh", "-c", ". /etc/os-release && echo $VERSION_CODENAME"); got != release {
			t.Errorf("%s is %s, not %s", host, got, release)
		}
		if got := servers.Must(t, "control", "--", "ssh", host, "sudo hostname"); got != host {
			t.Errorf("by ssh to %s one comes to %q", host, got)
		}
	}
}

// Everything that the playbooks ask for must be had in the lab, on each release, with all dependencies.
func TestPackagesComeFromTheLab(t *testing.T) {
	for _, host := range []string{"c1", "l2"} {
		servers.On(t, host, "apt-get", "-qq", "update")
		servers.On(t, host, "apt-get", "-qq", "--simulate", "--no-install-recommends", "install",
			"openvswitch-switch", "ovn-central", "ovn-host", "python3-cryptography", "stunnel4")
	}
}

// start of a host's system that runs: when it began, in the machine's time.
func start(host string) (string, error) {
	return servers.Try("exec", host, "--", "systemctl", "show", "--property=UserspaceTimestampMonotonic")
}

func TestAHostsDiskOutlivesItsRunning(t *testing.T) {
	const host, file = "l2", "/var/lib/precious"
	t.Cleanup(func() { servers.Must(t, "reset", host) })
	servers.On(t, host, "sh", "-c", "echo kept > "+file)
	for what, verb := range map[string][]string{
		"its own reboot":  {"control", "--", "ansible", host, "--become", "-m", "reboot", "-a", "post_reboot_delay=0"},
		"an orderly end":  {"restart", host, "system"},
		"a loss of power": {"reboot", host},
		"a crash":         {"kill", host, "system"},
		"a pause":         {"off", host},
	} {
		servers.On(t, host, "sh", "-c", "touch /run/volatile && ip tuntap add taken mode tap")
		before, err := start(host)
		if err != nil {
			t.Fatal(err)
		}
		servers.Must(t, verb...)
		if verb[0] == "off" {
			if out, err := servers.Try("exec", host, "--", "true"); err == nil {
				t.Errorf("a host that is off runs a command: %s", out)
			}
			servers.Must(t, "on", host)
		}
		eventually(t, 20*time.Second, "it has started anew after "+what, func() error {
			now, err := start(host)
			if err == nil && now == before {
				err = errors.New("it goes on")
			}
			if err == nil {
				_, err = servers.Try("control", "--", "ssh", host, "true")
			}
			return err
		})
		if got := servers.On(t, host, "cat", file); got != "kept" {
			t.Errorf("after %s its disk has %q", what, got)
		}
		if left := servers.On(t, host, "sh", "-c", "ls /run/volatile /sys/class/net/taken 2> /dev/null || true"); left != "" {
			t.Errorf("after %s there is still %s", what, left)
		}
	}
}

func TestAHostThatShutsItselfDownStaysOff(t *testing.T) {
	const host = "c3"
	servers.On(t, host, "systemctl", "poweroff")
	t.Cleanup(func() { servers.Must(t, "on", host) })
	eventually(t, 20*time.Second, "it is off", func() error {
		status, err := servers.Try("status") // which fails while the machine is ending
		for line := range strings.Lines(status) {
			if fields := strings.Fields(line); len(fields) > 1 && fields[0] == host && fields[1] == "off" {
				return nil
			}
		}
		return fmt.Errorf("%s %w", status, err)
	})
}

func TestAResetHostIsANewOne(t *testing.T) {
	const host = "l1"
	servers.On(t, host, "sh", "-c", "echo mine > /etc/motd && rm -r /etc/ssh && touch /var/lib/kubelet/mine && "+
		"systemctl disable kubelet")
	servers.Must(t, "reset", host)
	if left := servers.On(t, host, "sh", "-c", "grep -l mine /etc/motd; ls /var/lib/kubelet/mine || true"); left != "" {
		t.Errorf("it has %s", left)
	}
	servers.Must(t, "control", "--", "ssh", host, "true")
	servers.On(t, host, "systemctl", "is-active", "kubelet", "containerd")
}

// Kubelets work except for the network: a pod that needs none runs, with the token and the memory that it is given.
func TestNodesRunPods(t *testing.T) {
	for _, node := range []string{"l1", "l2"} {
		servers.Must(t, "reset", node)
		servers.Apply(t, agnhost(node, node, "hostNetwork: true"), waits...)
		servers.Kubectl(t, "wait", "--for=condition=Ready", "--timeout=60s", "pod/"+node)
		out := servers.Kubectl(t, "exec", node, "--", "sh", "-c",
			"cat /var/run/secrets/kubernetes.io/serviceaccount/namespace && echo && stat -f -c %T /memory")
		if got := strings.Fields(out); len(got) != 2 || got[0] != "default" || got[1] != "tmpfs" {
			t.Errorf("its volumes on %s: %q", node, out)
		}
		eventually(t, 20*time.Second, node+", which has no network, is not Ready", func() error {
			ready, err := servers.Try("kubectl", "--", "get", "node", node, "-o",
				"jsonpath={.status.conditions[?(@.type=='Ready')].status}")
			if err == nil && ready != "False" {
				err = errors.New("it is Ready: " + ready)
			}
			return err
		})
	}
}

// A kubelet asks for new credentials when most of the time of the old ones is over, and the cluster grants them.
func TestKubeletsRenewTheirCredentials(t *testing.T) {
	const node, file = "l1", "/var/lib/kubelet/pki/kubelet-client-current.pem"
	authority, err := pki.ReadAuthority(filepath.Join(lab.StateDir(servers.Name), "pki"), "ca")
	if err != nil {
		t.Fatal(err)
	}
	old, err := authority.Issue(pki.Subject{Name: "system:node:" + node, Groups: []string{"system:nodes"},
		NotBefore: time.Now().Add(-24 * time.Hour), NotAfter: time.Now().Add(time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	before := string(old.Cert) + string(old.Key)
	if out, err := servers.TryWith(before, "exec", node, "--", "sh", "-ec",
		"cat > "+file+"; systemctl restart kubelet"); err != nil {
		t.Fatal(out, err)
	}
	eventually(t, 60*time.Second, "they are renewed", func() error {
		now, err := servers.Try("exec", node, "--", "cat", file)
		if err == nil && now == strings.TrimSpace(before) {
			err = errors.New("they are the old ones")
		}
		return err
	})
	expires := servers.On(t, node, "openssl", "x509", "-noout", "-in", file, "-checkend", "86400")
	if !strings.Contains(expires, "will not expire") {
		t.Errorf("the new ones: %s", expires)
	}
}

// agnhost is a pod that serves port 8099 on a node, with what it needs to.
func agnhost(name, node, spec string) string {
	return fmt.Sprintf(`
apiVersion: v1
kind: Pod
metadata: {name: %s}
spec:
  nodeName: %s
  %s
  tolerations: [{operator: Exists}]
  terminationGracePeriodSeconds: 1
  containers:
  - name: agnhost
    image: registry.k8s.io/e2e-test-images/agnhost:2.59
    imagePullPolicy: Never
    args: [netexec, --http-port=8099]
    resources: {limits: {memory: 200Mi}}
    volumeMounts: [{name: memory, mountPath: /memory}]
  volumes: [{name: memory, emptyDir: {medium: Memory}}]
`, name, node, spec)
}

// TestALabWithHostsLeavesNothing kills a second lab the hard way, and looks for what it has left.
func TestALabWithHostsLeavesNothing(t *testing.T) {
	second := labtest.Lab{Name: "weft-ansible-second"}
	dir := filepath.Join(t.TempDir(), "state")
	flags := func(args ...string) []string { return append([]string{"--state-dir", dir}, args...) }
	t.Cleanup(func() { _, _ = second.Try(flags("down")...) })
	if out, err := second.Try(flags("up", "--hosts", "c1,l1:trixie")...); err != nil {
		t.Fatal(out, err)
	}
	// ssh keeps a process for the connections to come.
	if out, err := second.Try(flags("control", "--", "ansible", "all", "-m", "ping")...); err != nil {
		t.Fatal(out, err)
	}
	text, err := os.ReadFile(filepath.Join(dir, "pid"))
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	own := descendants(t, pid)
	if len(own) < 20 {
		t.Fatalf("the lab has the processes %v alone; this test would see nothing", own)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, 20*time.Second, "all its processes are gone", func() error {
		for process, start := range own {
			if _, now, err := readStat(process); err == nil && now == start {
				return fmt.Errorf("process %d is left", process)
			}
		}
		return nil
	})
	if out, err := second.Try(flags("down")...); err != nil {
		t.Fatal(out, err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("its state is left: %v", err)
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(mounts), dir) {
		t.Errorf("its mounts are left: %s", mounts)
	}
	err = filepath.WalkDir("/sys/fs/cgroup", func(path string, _ fs.DirEntry, err error) error {
		if err == nil && strings.Contains(filepath.Base(path), second.Name) {
			t.Errorf("its cgroup is left: %s", path)
		}
		return nil // other cgroups come and go meanwhile
	})
	if err != nil {
		t.Fatal(err)
	}
}

// descendants of a process, with the time that each one started.
func descendants(t *testing.T, root int) map[int]string {
	t.Helper()
	entries, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	children := map[int][]int{}
	starts := map[int]string{}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		parent, start, err := readStat(pid)
		if err != nil {
			continue // it has just ended
		}
		children[parent] = append(children[parent], pid)
		starts[pid] = start
	}
	found := map[int]string{}
	for queue := []int{root}; len(queue) > 0; queue = queue[1:] {
		found[queue[0]] = starts[queue[0]]
		queue = append(queue, children[queue[0]]...)
	}
	return found
}

// readStat of a process: its parent, and when it started. The name before them, in parentheses, may have spaces.
func readStat(pid int) (parent int, start string, err error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, "", err
	}
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	parent, err = strconv.Atoi(fields[1])
	return parent, fields[19], err
}
