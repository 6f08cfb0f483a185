package lab

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weftnet/weft/models/api/rights"
	"github.com/weftnet/weft/test/lab/image"
	"github.com/weftnet/weft/test/lab/machine"
)

// Start makes a lab and returns as soon as its first process runs; [Lab.WaitReady] waits for the
// rest. What a lab of that name left behind is removed first. say is told what takes time.
func Start(ctx context.Context, config Config, dir string, say func(string)) (*Lab, error) {
	if err := config.Validate(); err != nil {
		return nil, err
	}
	if os.Geteuid() != 0 {
		return nil, errors.New("the lab makes namespaces and mounts: run it as root")
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	f, err := inspectHost(ctx, newFiles(config, dir))
	if err != nil {
		return nil, err
	}
	if err := newPrograms(config, f).check(exists); err != nil {
		return nil, err
	}
	// Anything but a lab's own directory is refused here, before it is written to.
	if err := removeLeftovers(dir); err != nil {
		return nil, err
	}
	name, err := takeName(namesDir, config.Name, dir)
	if err != nil {
		return nil, err
	}
	defer name.Close()
	base, err := EnsureImages(ctx, config.Bin, say)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	lock, err := takeLock(dir)
	if err != nil {
		return nil, err
	}
	defer lock.Close()
	if err := writeState(config, f, base); err != nil {
		return nil, err
	}
	used, err := base.Use()
	if err != nil {
		return nil, err
	}
	defer used.Close()
	pid, err := startInit(f, lock, used, name)
	if err != nil {
		return nil, err
	}
	return &Lab{config, f, processes{dir, pid}}, nil
}

// EnsureImages returns the unpacked container images, making them if needed.
func EnsureImages(ctx context.Context, bin string, say func(string)) (*image.Base, error) {
	lab := files{bin: bin}.lab("")
	return image.EnsureBase(ctx, filepath.Join(lab, "images"), image.ClusterInputs(lab),
		func(scratch string) ([]image.Image, error) { return image.ClusterImages(lab, scratch) }, say)
}

// inspectHost fills in what the host's programs are like.
func inspectHost(ctx context.Context, f files) (files, error) {
	version, err := exec.CommandContext(ctx, "containerd", "--version").Output()
	if err != nil {
		return f, fmt.Errorf("containerd --version: %w; `make lab-deps` installs containerd", err)
	}
	if f.containerd, err = majorVersion(string(version)); err != nil {
		return f, err
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var capabilities [2]unix.CapUserData
	if err := unix.Capget(&header, &capabilities[0]); err != nil {
		return f, fmt.Errorf("read own capabilities: %w", err)
	}
	f.keepOOMScores = capabilities[0].Effective&(1<<unix.CAP_SYS_RESOURCE) == 0
	return f, nil
}

func takeLock(dir string) (*os.File, error) {
	lock, err := os.OpenFile(filepath.Join(dir, lockFile), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		lock.Close()
		return nil, fmt.Errorf("another weftlab is using %s", dir)
	}
	return lock, nil
}

// writeState writes everything that the lab's processes read.
func writeState(c Config, f files, base *image.Base) error {
	text, err := json.MarshalIndent(c, "", "  ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(f.dir, configFile), text, 0o644); err != nil {
		return err
	}
	l := newLayout(c, f)
	for name, text := range map[string]string{manifestsFile: manifests{l}.text(), definitionsFile: definitions(),
		apiServiceFile: rights.APIService, nodesFile: manifests{l}.labelledNodes()} {
		if err := os.WriteFile(filepath.Join(f.dir, name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	if err := (certificates{l}).write(); err != nil {
		return fmt.Errorf("make the cluster's certificates: %w", err)
	}
	if l.hasHosts() {
		if err := (control{l}).writeAccess(); err != nil {
			return fmt.Errorf("make the keys of the hosts: %w", err)
		}
	}
	for _, spec := range specs(c, f) {
		if err := spec.Write(); err != nil {
			return err
		}
	}
	return l.populate(base)
}

// populate gives the nodes the container images and credentials that they lack.
func (l layout) populate(base *image.Base) error {
	f := l.files
	roots := map[string]string{}
	for _, n := range l.nodes() {
		roots[n.name] = f.machine(n.name)
	}
	for _, h := range l.hosts {
		if !h.isNode() {
			continue
		}
		roots[h.name] = f.hostDisk(h.name)
		if err := writeKubeletCredentials(f, h.name); err != nil {
			return fmt.Errorf("give the kubelet of %s its credentials: %w", h.name, err)
		}
	}
	for name, root := range roots {
		if err := base.Populate(filepath.Join(root, "containerd")); err != nil {
			return fmt.Errorf("give %s its container images: %w", name, err)
		}
	}
	return nil
}

// writeKubeletCredentials to a host's disk, which keeps those that its kubelet has. The kubelet renews them
// only where the file in use is a link to one with a date.
func writeKubeletCredentials(f files, name string) error {
	path := filepath.Join(f.hostDisk(name), "kubelet", strings.TrimPrefix(kubeletCredentials, "/var/lib/kubelet/"))
	// a link, which the kubelet renews to one that is right in its own system alone
	if _, err := os.Lstat(path); err == nil {
		return nil
	}
	cert, err := os.ReadFile(f.pki(name + ".crt"))
	if err != nil {
		return err
	}
	key, err := os.ReadFile(f.pki(name + ".key"))
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	dated := time.Now().Format("kubelet-client-2006-01-02-15-04-05.pem")
	if err := os.WriteFile(filepath.Join(filepath.Dir(path), dated), append(cert, key...), 0o600); err != nil {
		return err
	}
	return os.Symlink(dated, path)
}

// startInit starts the first process of the lab's namespaces, detached from the caller.
func startInit(f files, inherited ...*os.File) (pid int, err error) {
	log, err := os.OpenFile(filepath.Join(f.dir, superviseLog), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return 0, err
	}
	defer log.Close()
	cmd := exec.Command("/proc/self/exe", machine.CommandLab, f.dir)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Dir = "/"
	cmd.ExtraFiles = inherited
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC,
		Setsid:     true,
	}
	if err := cmd.Start(); err != nil {
		return 0, fmt.Errorf("start the lab's namespaces: %w", err)
	}
	pid = cmd.Process.Pid
	// Nobody else may reap it while this process waits for the lab to be ready.
	go cmd.Wait() //nolint:errcheck // its end is noticed by the lock
	return pid, os.WriteFile(filepath.Join(f.dir, pidFile), []byte(strconv.Itoa(pid)), 0o644)
}
