//go:build linux

package chassis

import (
	"math"
	"testing"
	"testing/fstest"
)

func TestTheMemoryOfCgroups(t *testing.T) {
	const none = uint64(math.MaxUint64)
	for _, c := range []struct {
		name  string
		files map[string]string
		want  uint64
	}{
		{"no cgroups", nil, none},
		{"no limit", map[string]string{"proc/self/cgroup": "0::/system.slice/weft-chassis.service\n",
			"sys/fs/cgroup/system.slice/weft-chassis.service/memory.max": "max\n"}, none},
		{"a unit's", map[string]string{"proc/self/cgroup": "0::/system.slice/weft-chassis.service\n",
			"sys/fs/cgroup/system.slice/weft-chassis.service/memory.max": "4294967296\n",
			"sys/fs/cgroup/system.slice/memory.max":                      "8589934592\n"}, 4 << 30},
		{"a slice's", map[string]string{"proc/self/cgroup": "0::/system.slice/weft-chassis.service\n",
			"sys/fs/cgroup/system.slice/weft-chassis.service/memory.max": "max\n",
			"sys/fs/cgroup/system.slice/memory.max":                      "8589934592\n"}, 8 << 30},
		{"a pod's", map[string]string{"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "1073741824\n"}, 1 << 30},
		{"a unit's, of version 1", map[string]string{
			"proc/self/cgroup": "5:cpu,cpuacct:/\n4:memory:/system.slice/a.service\n0::/\n",
			"sys/fs/cgroup/memory/system.slice/a.service/memory.limit_in_bytes": "2147483648\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes":                        "9223372036854771712\n"}, 2 << 30},
		{"a pod's, of version 1, which does not see its path", map[string]string{
			"proc/self/cgroup":                           "4:memory:/kubepods/pod1/2\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes": "1073741824\n"}, 1 << 30},
	} {
		t.Run(c.name, func(t *testing.T) {
			root := fstest.MapFS{}
			for name, content := range c.files {
				root[name] = &fstest.MapFile{Data: []byte(content)}
			}
			if got := cgroupMemory(root); got != c.want {
				t.Errorf("%d, want %d", got, c.want)
			}
		})
	}
}
