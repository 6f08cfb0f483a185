package machine

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

const cgroupRoot = "/sys/fs/cgroup"

// hierarchy is one cgroup v1 hierarchy: its controllers as the kernel lists them ("cpu,cpuacct" or
// "name=systemd"), and the directory of the cgroup that the reading process is in.
type hierarchy struct{ controllers, dir string }

// mountName is the directory below /sys/fs/cgroup where the hierarchy is mounted by convention.
func (h hierarchy) mountName() string { return strings.TrimPrefix(h.controllers, "name=") }

// hierarchies reads /proc/self/cgroup and /proc/self/mountinfo.
func hierarchies(selfCgroup, mountinfo string) []hierarchy {
	type mount struct{ root, point string }
	mounts := map[string]mount{}
	for line := range strings.Lines(mountinfo) {
		before, after, _ := strings.Cut(line, " - ")
		left, right := strings.Fields(before), strings.Fields(after)
		if len(left) < 5 || len(right) < 3 || right[0] != "cgroup" {
			continue
		}
		for option := range strings.SplitSeq(right[2], ",") {
			if _, seen := mounts[option]; !seen {
				mounts[option] = mount{left[3], left[4]}
			}
		}
	}
	var found []hierarchy
	for line := range strings.Lines(selfCgroup) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) != 3 || parts[1] == "" {
			continue // the unified hierarchy beside v1 ones has no controller that the lab needs
		}
		first, _, _ := strings.Cut(parts[1], ",")
		m, mounted := mounts[first]
		if !mounted {
			continue
		}
		// A container sees its own cgroup as the mount's root.
		below, _ := strings.CutPrefix(parts[2], strings.TrimSuffix(m.root, "/"))
		found = append(found, hierarchy{parts[1], filepath.Join(m.point, below)})
	}
	return found
}

// unified is the unified hierarchy's name in what joinCgroups returns, first, where there are v1 ones beside it.
const unified = "unified"

// unifiedDir is the directory of the cgroup, in the unified hierarchy beside v1 ones, that the reading
// process is in.
func unifiedDir(selfCgroup, mountinfo string) (string, error) {
	for line := range strings.Lines(mountinfo) {
		before, after, _ := strings.Cut(line, " - ")
		left, right := strings.Fields(before), strings.Fields(after)
		if len(left) < 5 || len(right) < 1 || right[0] != "cgroup2" {
			continue
		}
		for line := range strings.Lines(selfCgroup) {
			if path, found := strings.CutPrefix(strings.TrimSpace(line), "0::"); found {
				below, _ := strings.CutPrefix(path, strings.TrimSuffix(left[3], "/"))
				return filepath.Join(left[4], below), nil
			}
		}
	}
	return "", errors.New("the unified cgroup hierarchy is mounted nowhere, and a systemd needs it: " +
		"mkdir -p /sys/fs/cgroup/unified && mount -t cgroup2 cgroup2 /sys/fs/cgroup/unified")
}

func cgroupV2() bool {
	var stat unix.Statfs_t
	return unix.Statfs(cgroupRoot, &stat) == nil && stat.Type == unix.CGROUP2_SUPER_MAGIC
}

func cgroupName(spec *Spec) string { return "weftlab-" + spec.Lab + "-" + spec.Name }

// joinCgroups puts the calling process into cgroups of the machine's own, and notes them in the
// lab's directory for [RemoveCgroups]. It returns the v1 hierarchies to mount in the machine.
func joinCgroups(spec *Spec) ([]string, error) {
	if cgroupV2() {
		return nil, joinV2(spec)
	}
	self, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return nil, err
	}
	mountinfo, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	var joined []string
	if spec.Unified {
		parent, err := unifiedDir(string(self), string(mountinfo))
		if err != nil {
			return nil, err
		}
		dir := filepath.Join(parent, cgroupName(spec))
		if err := errors.Join(makeCgroup(spec, dir), enterCgroup(dir)); err != nil {
			return nil, err
		}
		joined = append(joined, unified)
	}
	for _, h := range hierarchies(string(self), string(mountinfo)) {
		dir := filepath.Join(h.dir, cgroupName(spec))
		if err := makeCgroup(spec, dir); err != nil {
			return nil, err
		}
		if slices.Contains(strings.Split(h.controllers, ","), "cpuset") {
			for _, file := range []string{"cpuset.cpus", "cpuset.mems"} {
				if err := copyFile(filepath.Join(h.dir, file), filepath.Join(dir, file)); err != nil {
					return nil, err
				}
			}
		}
		if err := enterCgroup(dir); err != nil {
			return nil, err
		}
		joined = append(joined, h.controllers)
	}
	return joined, nil
}

// joinV2 uses a cgroup directly below the root: only the root may hold processes and hand its
// controllers on at the same time, and the caller's own cgroup holds at least the caller.
func joinV2(spec *Spec) error {
	if err := delegate(cgroupRoot); err != nil {
		return fmt.Errorf("%w: in a container, run it with its own cgroup namespace (--cgroupns=private) "+
			"and its processes below /sys/fs/cgroup in a group of their own", err)
	}
	dir := filepath.Join(cgroupRoot, cgroupName(spec))
	if err := makeCgroup(spec, dir); err != nil {
		return err
	}
	return enterCgroup(dir)
}

// delegate hands all controllers of a v2 cgroup to its children.
func delegate(dir string) error {
	controllers, err := os.ReadFile(filepath.Join(dir, "cgroup.controllers"))
	if err != nil {
		return err
	}
	var errs []error
	for _, name := range strings.Fields(string(controllers)) {
		err := os.WriteFile(filepath.Join(dir, "cgroup.subtree_control"), []byte("+"+name), 0)
		if err != nil && slices.Contains([]string{"cpu", "cpuset", "memory", "pids"}, name) {
			errs = append(errs, fmt.Errorf("hand the controller %s of %s to its children: %w", name, dir, err))
		}
	}
	return errors.Join(errs...)
}

func makeCgroup(spec *Spec, dir string) error {
	if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("make the cgroup of machine %s: %w", spec.Name, err)
	}
	record, err := os.OpenFile(cgroupRecord(spec.LabDir), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(record, dir)
	return errors.Join(err, record.Close())
}

func enterCgroup(dir string) error {
	if err := os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte("0"), 0); err != nil {
		return fmt.Errorf("enter cgroup %s: %w", dir, err)
	}
	return nil
}

func copyFile(from, to string) error {
	content, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, content, 0o644)
}

// mountCgroups shows the machine its own cgroups as if they were the roots, as a container would
// see them. controllers are what joinCgroups returned.
func mountCgroups(controllers []string) error {
	if err := os.Mkdir(LegacyCgroups, 0o755); err != nil {
		return err
	}
	if len(controllers) == 0 {
		return mountUnified()
	}
	if controllers[0] == unified {
		return errors.Join(mountUnified(), mountLegacy(LegacyCgroups, controllers[1:]))
	}
	return mountLegacy(cgroupRoot, controllers)
}

func mountUnified() error {
	if err := mount("cgroup2", cgroupRoot, "cgroup2", 0, ""); err != nil {
		return err
	}
	// Controllers can be handed on only from a cgroup that holds no process.
	leaf := filepath.Join(cgroupRoot, "machine")
	if err := os.Mkdir(leaf, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if err := enterCgroup(leaf); err != nil {
		return err
	}
	return delegate(cgroupRoot)
}

// mountLegacy shows the hierarchies of cgroup v1 below root.
func mountLegacy(root string, controllers []string) error {
	if err := mount("tmpfs", root, "tmpfs", 0, "mode=755"); err != nil {
		return err
	}
	for _, list := range controllers {
		h := hierarchy{controllers: list}
		point, options := filepath.Join(root, h.mountName()), list
		if strings.HasPrefix(list, "name=") {
			options = "none," + list
		}
		if err := os.Mkdir(point, 0o755); err != nil {
			return err
		}
		if err := mount("cgroup", point, "cgroup", 0, options); err != nil {
			return err
		}
		if strings.Contains(list, ",") {
			for name := range strings.SplitSeq(list, ",") {
				if err := os.Symlink(list, filepath.Join(root, name)); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func cgroupRecord(labDir string) string { return filepath.Join(labDir, "cgroups") }

// RemoveCgroups removes all cgroups that the lab's machines made. The lab's processes must have
// been killed; the last of them may still be ending.
func RemoveCgroups(labDir string) error {
	return removeCgroups(labDir, func(string) bool { return true })
}

// removeMachineCgroups is RemoveCgroups for one machine: its pods' went with their processes.
func removeMachineCgroups(labDir, name string) error {
	spec, err := Read(labDir, name)
	if err != nil {
		return err
	}
	return removeCgroups(labDir, func(dir string) bool { return filepath.Base(dir) == cgroupName(spec) })
}

func removeCgroups(labDir string, wanted func(dir string) bool) error {
	record, err := os.Open(cgroupRecord(labDir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer record.Close()
	deadline := time.Now().Add(10 * time.Second)
	for lines := bufio.NewScanner(record); lines.Scan(); {
		for wanted(lines.Text()) {
			err := removeCgroup(lines.Text())
			if err == nil {
				break
			}
			if time.Now().After(deadline) {
				return fmt.Errorf("remove the lab's cgroup: %w", err)
			}
			time.Sleep(20 * time.Millisecond)
		}
	}
	return nil
}

func removeCgroup(dir string) error {
	var dirs []string
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err == nil && entry.IsDir() {
			dirs = append(dirs, path)
		}
		return err
	})
	if err != nil {
		return err
	}
	for _, d := range slices.Backward(dirs) {
		if err := unix.Rmdir(d); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("rmdir %s: %w", d, err)
		}
	}
	return nil
}
