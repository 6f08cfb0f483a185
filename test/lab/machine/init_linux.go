package machine

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"
)

// The hidden commands by which the lab's program runs itself again in other roles.
const (
	// CommandLab is the first process of the lab's namespaces: "lab-init DIR".
	CommandLab = "lab-init"
	// CommandSupervise starts the machines: "lab-supervise DIR".
	CommandSupervise = "lab-supervise"
	// CommandInit is the first process of a machine: "machine-init DIR NAME".
	CommandInit = "machine-init"
	// CommandMount is CommandInit's second half, after it has changed its cgroup namespace:
	// "machine-mount DIR NAME CONTROLLERS".
	CommandMount = "machine-mount"
	// CommandRun starts the components: "machine-run DIR NAME".
	CommandRun = "machine-run"
)

// Pipes of a machine's init: on mountedFD it says that its namespaces and mounts are made, on
// releaseFD it learns that its interfaces are there.
const (
	releaseFD = 3
	mountedFD = 4
)

// program is what ps shows.
const program = "weftlab"

// self stays right when the program's file is replaced while a lab runs.
const self = "/proc/self/exe"

// LabInit is PID 1 of the lab's namespaces: when it ends, the kernel ends everything in them.
func LabInit(dir string) error {
	if err := mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return err
	}
	// The locks that were handed over are this process's alone.
	for _, fd := range []int{3, 4, 5} {
		unix.CloseOnExec(fd)
	}
	if err := mount("proc", "/proc", "proc", 0, ""); err != nil {
		return err
	}
	return reapUntilEnd(CommandSupervise, dir)
}

// Init is PID 1 of a machine, before it has cgroups of its own.
func Init(dir, name string) error {
	spec, err := Read(dir, name)
	if err != nil {
		return err
	}
	controllers, err := joinCgroups(spec)
	if err != nil {
		return err
	}
	// Namespaces belong to threads: the program that this thread executes has it throughout.
	runtime.LockOSThread()
	if err := unix.Unshare(unix.CLONE_NEWCGROUP); err != nil {
		return fmt.Errorf("unshare the cgroup namespace: %w", err)
	}
	return unix.Exec(self, []string{program, CommandMount, dir, name, strings.Join(controllers, ";")}, os.Environ())
}

// Mount is PID 1 of a machine from then on: it makes the file system, waits for the interfaces,
// starts the supervisor and reaps what is orphaned.
func Mount(dir, name, controllers string) error {
	spec, err := Read(dir, name)
	if err != nil {
		return err
	}
	var list []string
	if controllers != "" {
		list = strings.Split(controllers, ";")
	}
	if err := mountAll(spec, list); err != nil {
		return err
	}
	if err := unix.Sethostname([]byte(name)); err != nil {
		return err
	}
	// Only now may it be asked for its network namespace: while a program replaces another, its
	// process has none for a moment.
	mounted, release := os.NewFile(mountedFD, "mounted"), os.NewFile(releaseFD, "release")
	if _, err := mounted.Write([]byte{1}); err != nil {
		return fmt.Errorf("tell the lab that %s is mounted: %w", name, err)
	}
	mounted.Close()
	if _, err := io.ReadFull(release, make([]byte, 1)); err != nil {
		return fmt.Errorf("machine %s got no interfaces", name)
	}
	release.Close()
	return reapUntilEnd(CommandRun, dir, name)
}

// reapUntilEnd starts the program again in another role and reaps every orphan until that ends.
func reapUntilEnd(args ...string) error {
	child, err := os.StartProcess(self, append([]string{program}, args...),
		&os.ProcAttr{Files: []*os.File{os.Stdin, os.Stdout, os.Stderr}})
	if err != nil {
		return err
	}
	for {
		var status unix.WaitStatus
		pid, err := unix.Wait4(-1, &status, 0, nil)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return err
		case pid == child.Pid:
			return fmt.Errorf("%s ended with status %d", strings.Join(args, " "), status.ExitStatus())
		}
	}
}

// Directories of the host that a machine writes to; its writes go to memory.
var overlaid = []string{"etc", "opt", "var"}

func mountAll(spec *Spec, controllers []string) error {
	if err := mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return err
	}
	// The mounts to come hide these directories: keep them by descriptor.
	labDir, err := os.Open(spec.LabDir)
	if err != nil {
		return err
	}
	defer labDir.Close()
	sources, err := openSources(spec)
	if err != nil {
		return err
	}
	defer func() {
		for _, s := range sources {
			s.Close()
		}
	}()
	if err := mount("proc", "/proc", "proc", 0, ""); err != nil {
		return err
	}
	// A sysfs shows the network devices of the namespace that it is mounted in.
	if err := mount("sysfs", "/sys", "sysfs", 0, ""); err != nil {
		return err
	}
	if err := mount("tmpfs", "/run", "tmpfs", 0, "mode=755"); err != nil {
		return err
	}
	if err := mountCgroups(controllers); err != nil {
		return err
	}
	if err := overlayHost(); err != nil {
		return err
	}
	if err := bind(labDir, spec.LabDir); err != nil {
		return err
	}
	for i, b := range spec.Binds {
		if err := bind(sources[i], b.Target); err != nil {
			return err
		}
	}
	if err := mountOverlays(spec.Overlays); err != nil {
		return err
	}
	if err := hideKernelSettings(); err != nil {
		return err
	}
	return mount("", "/", "", unix.MS_REC|unix.MS_SHARED, "")
}

func overlayHost() error {
	for _, dir := range []string{"/run/lock", "/run/netns", "/run/tmp"} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	for _, name := range overlaid {
		upper, work := "/run/.overlay/"+name+"/upper", "/run/.overlay/"+name+"/work"
		if err := errors.Join(os.MkdirAll(upper, 0o755), os.MkdirAll(work, 0o755)); err != nil {
			return err
		}
		options := fmt.Sprintf("lowerdir=/%s,upperdir=%s,workdir=%s", name, upper, work)
		if err := mount("overlay", "/"+name, "overlay", 0, options); err != nil {
			return err
		}
	}
	return nil
}

// filledFile exists when an overlay has its files.
const filledFile = "filled"

func mountOverlays(overlays []Overlay) error {
	for _, o := range overlays {
		upper, work := filepath.Join(o.Upper, "upper"), filepath.Join(o.Upper, "work")
		_, old := os.Stat(filepath.Join(o.Upper, filledFile))
		for _, dir := range []string{upper, work, o.Target} {
			if err := os.MkdirAll(dir, 0o755); err != nil {
				return err
			}
		}
		if err := mount("overlay", o.Target, "overlay", 0, fmt.Sprintf("lowerdir=%s,upperdir=%s,workdir=%s", o.Lower, upper,
			work)); err != nil {
			return err
		}
		if old == nil {
			continue
		}
		for _, f := range o.Files {
			if err := f.write(o.Target); err != nil {
				return err
			}
		}
		if err := os.WriteFile(filepath.Join(o.Upper, filledFile), nil, 0o644); err != nil {
			return err
		}
	}
	return nil
}

func openSources(spec *Spec) ([]*os.File, error) {
	var sources []*os.File
	for _, b := range spec.Binds {
		if b.Create {
			if err := os.MkdirAll(b.Source, 0o755); err != nil {
				return nil, err
			}
		}
		source, err := os.Open(b.Source)
		if err != nil {
			return nil, err
		}
		sources = append(sources, source)
	}
	return sources, nil
}

// bind mounts an open file or directory at target, which is made where it does not exist.
func bind(source *os.File, target string) error {
	info, err := source.Stat()
	if err != nil {
		return err
	}
	if at, err := os.Stat(target); err == nil && os.SameFile(info, at) {
		return nil
	}
	if info.IsDir() {
		err = os.MkdirAll(target, 0o755)
	} else if err = os.MkdirAll(filepath.Dir(target), 0o755); err == nil {
		var file *os.File
		if file, err = os.OpenFile(target, os.O_CREATE, 0o644); err == nil {
			err = file.Close()
		}
	}
	if err != nil {
		return err
	}
	return mount(fmt.Sprintf("/proc/self/fd/%d", source.Fd()), target, "", unix.MS_BIND|unix.MS_REC, "")
}

func hideKernelSettings() error {
	if err := os.MkdirAll("/run/.sysctl", 0o755); err != nil {
		return err
	}
	for name, value := range KernelSettings {
		file := "/run/.sysctl/" + strings.ReplaceAll(name, "/", "_")
		if err := os.WriteFile(file, []byte(value+"\n"), 0o644); err != nil {
			return err
		}
		target := "/proc/sys/" + name
		if _, err := os.Stat(target); err != nil {
			continue // this kernel has no such setting
		}
		if err := mount(file, target, "", unix.MS_BIND, ""); err != nil {
			return err
		}
	}
	return nil
}

func mount(source, target, fstype string, flags uintptr, options string) error {
	if err := unix.Mount(source, target, fstype, flags, options); err != nil {
		return fmt.Errorf("mount %s %s on %s (%s): %w", fstype, source, target, options, err)
	}
	return nil
}
