package image

import (
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
)

const goarch = runtime.GOARCH

// Names of the images as Kubernetes' own defaults and its tests ask for them
// (k8s.io/kubernetes/test/utils/image).
const (
	Pause   = "registry.k8s.io/pause:3.10.1"
	CoreDNS = "registry.k8s.io/coredns/coredns:v1.14.3"
	Agnhost = testImages + "agnhost:2.59"

	testImages = "registry.k8s.io/e2e-test-images/"
)

// ClusterInputs are the files below lab that [ClusterImages] are made of.
func ClusterInputs(lab string) []string {
	var paths []string
	for _, name := range []string{"pause", "coredns", "agnhost", "regression-issue-74839", "localhost.crt",
		"localhost.key", "images/rootfs.tar"} {
		paths = append(paths, filepath.Join(lab, name))
	}
	return paths
}

// ClusterImages writes the layers of a cluster's images to scratch: Kubernetes' own pause and
// CoreDNS, and agnhost, on a root file system with a shell and network tools, under the names of
// all test images that it can stand in for.
func ClusterImages(lab, scratch string) ([]Image, error) {
	layers := map[string][]File{
		"pause":   {{Name: "pause", Source: filepath.Join(lab, "pause"), Mode: 0o755}},
		"coredns": {{Name: "coredns", Source: filepath.Join(lab, "coredns"), Mode: 0o755}},
		"agnhost": {
			{Name: "agnhost", Source: filepath.Join(lab, "agnhost"), Mode: 0o755},
			{Name: "localhost.crt", Source: filepath.Join(lab, "localhost.crt"), Mode: 0o644},
			{Name: "localhost.key", Source: filepath.Join(lab, "localhost.key"), Mode: 0o644},
		},
		"regression": {{Name: "regression-issue-74839", Source: filepath.Join(lab, "regression-issue-74839"), Mode: 0o755}},
	}
	path := func(name string) string { return filepath.Join(scratch, name+".layer") }
	for name, files := range layers {
		err := writeLayerFile(path(name), files)
		if err != nil {
			return nil, err
		}
	}
	tools := []string{filepath.Join(lab, "images/rootfs.tar"), path("agnhost")}
	return []Image{
		{Names: []string{Pause, "registry.k8s.io/pause:3.10"}, Layers: []string{path("pause")},
			Entrypoint: []string{"/pause"}},
		{Names: []string{CoreDNS}, Layers: []string{path("coredns")}, Entrypoint: []string{"/coredns"}},
		// It has a DNS server, too, that some tests configure. 2.45 is the one of ClusterNetworkPolicy's.
		{Names: []string{Agnhost, testImages + "agnhost:2.55", testImages + "agnhost:2.45"},
			Layers: append(slices.Clone(tools), path("coredns")), Entrypoint: []string{"/agnhost"}, Cmd: []string{"pause"}},
		{Names: []string{testImages + "jessie-dnsutils:1.7", testImages + "busybox:1.37.0-1",
			"registry.k8s.io/build-image/distroless-iptables:v0.8.9"}, Layers: tools, Cmd: []string{"sh"}},
		{Names: []string{testImages + "regression-issue-74839:1.4"}, Layers: []string{path("regression")},
			Entrypoint: []string{"/regression-issue-74839"}},
		{Names: []string{testImages + "nginx:1.14-4", testImages + "nginx:1.15-4"}, Layers: tools,
			Entrypoint: []string{"/agnhost", "test-webserver"}},
	}, nil
}

func writeLayerFile(path string, files []File) error {
	out, err := os.Create(path)
	if err != nil {
		return err
	}
	if err := WriteLayer(io.Writer(out), files); err != nil {
		out.Close()
		return err
	}
	return out.Close()
}
