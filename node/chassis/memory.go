//go:build linux

package chassis

import (
	"io/fs"
	"math"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// limitMemory gives an ovn-controller that has just been started its bound. Of what Linux offers, RLIMIT_DATA does it:
//
//   - A cgroup for each would count best. Neither the unit of the playbooks, whose cgroups are read-only, nor a pod may
//     make one.
//   - RLIMIT_AS also counts what is only reserved, such as the 64 MiB of address space that glibc keeps for each
//     thread's heap, and the libraries. A bound of it says little about memory.
//   - RLIMIT_RSS has no effect.
//   - RLIMIT_DATA counts the heap, private writable mappings (since Linux 4.7) and the threads' stacks, 8 MiB each,
//     before they are used. At the bound malloc fails, and a program of OVN says so and ends itself.
//
// Go starts no child with a limit, so there is none while the loader begins, long before the node's database is read.
func limitMemory(pid int, most uint64) error {
	return unix.Prlimit(pid, unix.RLIMIT_DATA, &unix.Rlimit{Cur: most, Max: most}, nil)
}

// controllerMemory is how many bytes of data an ovn-controller may have. By default it is half of what is there: one
// node at its bound leaves as much to this process and all other nodes.
func (c Config) controllerMemory() uint64 {
	if c.OVNControllerMemory > 0 {
		return uint64(c.OVNControllerMemory)
	}
	most := cgroupMemory(os.DirFS("/"))
	var host unix.Sysinfo_t
	if err := unix.Sysinfo(&host); err == nil {
		most = min(most, uint64(host.Totalram)*uint64(host.Unit))
	}
	return most / 2
}

// cgroupMemory is the least memory that this process's cgroups may have: MemoryMax= of its unit or a slice, or the
// limit of its pod. Without any it is the highest number.
func cgroupMemory(root fs.FS) uint64 {
	least := uint64(math.MaxUint64)
	text, _ := fs.ReadFile(root, "proc/self/cgroup") // without it there is no cgroup
	for line := range strings.Lines(string(text)) {
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3) // hierarchy, controllers and path, cgroups(7)
		folder, file := "sys/fs/cgroup", "memory.max"
		switch {
		case len(fields) < 3:
			continue
		case slices.Contains(strings.Split(fields[1], ","), "memory"): // version 1
			folder, file = "sys/fs/cgroup/memory", "memory.limit_in_bytes"
		case fields[1] != "":
			continue
		}
		for at := path.Join("/", fields[2]); ; at = path.Dir(at) {
			content, _ := fs.ReadFile(root, path.Join(folder, at, file)) // the root has none
			if limit, err := strconv.ParseUint(strings.TrimSpace(string(content)), 10, 64); err == nil {
				least = min(least, limit)
			}
			if at == "/" {
				break
			}
		}
	}
	return least
}
