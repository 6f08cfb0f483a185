package lab

import (
	"fmt"
	"strings"
)

// containerdConfig is that of a node; runtime is the program that starts its containers.
func containerdConfig(f files, runtime string) string {
	values := struct {
		Socket, Sandbox, Runtime string
		KeepOOMScores            bool
	}{containerdSocket, sandboxImage, runtime, f.keepOOMScores}
	if f.containerd >= 2 {
		return mustRender(containerdV2, values)
	}
	return mustRender(containerdV1, values)
}

const containerdV1 = `version = 2
root = "/var/lib/containerd"
state = "/run/containerd"
[grpc]
  address = "{{.Socket}}"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{{.Sandbox}}"
  restrict_oom_score_adj = {{.KeepOOMScores}}
  disable_apparmor = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/opt/cni/bin"
    conf_dir = "/etc/cni/net.d"
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
      BinaryName = "{{.Runtime}}"
      SystemdCgroup = false
`

const containerdV2 = `version = 3
root = "/var/lib/containerd"
state = "/run/containerd"
[grpc]
  address = "{{.Socket}}"
[plugins."io.containerd.cri.v1.images"]
  snapshotter = "overlayfs"
[plugins."io.containerd.cri.v1.images".pinned_images]
  sandbox = "{{.Sandbox}}"
[plugins."io.containerd.cri.v1.runtime"]
  restrict_oom_score_adj = {{.KeepOOMScores}}
  disable_apparmor = true
[plugins."io.containerd.cri.v1.runtime".cni]
  bin_dirs = ["/opt/cni/bin"]
  conf_dir = "/etc/cni/net.d"
[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
  runtime_type = "io.containerd.runc.v2"
  [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
    BinaryName = "{{.Runtime}}"
    SystemdCgroup = false
`

// majorVersion reads the output of `containerd --version`: "containerd NAME 1.6.20~ds1 COMMIT".
func majorVersion(output string) (int, error) {
	fields := strings.Fields(output)
	if len(fields) < 3 {
		return 0, fmt.Errorf("%q names no version of containerd", output)
	}
	var major int
	if _, err := fmt.Sscanf(strings.TrimPrefix(fields[2], "v"), "%d.", &major); err != nil {
		return 0, fmt.Errorf("%q names no version of containerd", output)
	}
	return major, nil
}
