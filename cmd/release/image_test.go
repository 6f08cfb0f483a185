package main

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/blang/semver/v4"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

// sampleMaker releases a version whose image's tag is another text.
func sampleMaker() maker {
	return maker{version: semver.MustParse("1.2.0+build.5"), source: commit{id: "c0ffee", time: noon}, stdout: io.Discard}
}

// imageFiles makes a release's images of a program and of tools, and returns the folder that they are in.
func imageFiles(t *testing.T, program []byte) (folder string, bill *bill) {
	t.Helper()
	folder, bill = t.TempDir(), newBill("1.2.0")
	var builds []build
	for _, p := range platforms {
		builds = append(builds, build{p, []entry{{"weft-cni", executable, nil}, {"weft", executable, program}}})
	}
	debian, err := newDebianParts(toolsOf(t))
	if err != nil {
		t.Fatal(err)
	}
	parts := imageParts{builds, []entry{{licensesFile, forAll, []byte("licences")}},
		map[string]debianParts{"amd64": debian, "arm64": debian}}
	if err := sampleMaker().images(folder, t.TempDir(), parts, bill); err != nil {
		t.Fatal(err)
	}
	return folder, bill
}

// readImage reads an archive by the library, which checks all sizes, digests and types.
func readImage(t *testing.T, archive string) (v1.Descriptor, v1.ImageIndex) {
	t.Helper()
	folder := t.TempDir()
	ran(t, "tar", "--extract", "--file", archive, "--directory", folder)
	top, err := layout.ImageIndexFromPath(folder)
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Index(top); err != nil {
		t.Errorf("%s is no valid OCI layout: %v", archive, err)
	}
	manifest, err := top.IndexManifest()
	if err != nil || len(manifest.Manifests) != 1 {
		t.Fatalf("%s has not one image: %v %+v", archive, err, manifest)
	}
	index, err := top.ImageIndex(manifest.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	return manifest.Manifests[0], index
}

// variantsOf are an image's variants by platform.
func variantsOf(t *testing.T, index v1.ImageIndex) map[string]v1.Image {
	t.Helper()
	manifest, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	variants := map[string]v1.Image{}
	for _, m := range manifest.Manifests {
		if variants[m.Platform.String()], err = index.Image(m.Digest); err != nil {
			t.Fatal(err)
		}
	}
	return variants
}

func TestControllerImage(t *testing.T) {
	content := []byte("program")
	folder, bill := imageFiles(t, content)
	named, index := readImage(t, filepath.Join(folder, "weft-controller-1.2.0+build.5.oci.tar"))
	if name := named.Annotations["io.containerd.image.name"]; name != "localhost/weft-controller:1.2.0_build.5" {
		t.Errorf("containerd will name it %s", name)
	}
	if component := bill.bundles[0]; (*component.Hashes)[0].Value != named.Digest.Hex {
		t.Errorf("the bill has %+v, and the image the digest %s", component, named.Digest)
	}
	variants := variantsOf(t, index)
	for _, platform := range []string{"linux/amd64", "linux/arm64"} {
		t.Run(platform, func(t *testing.T) {
			image := variants[platform]
			if image == nil || len(variants) != 2 {
				t.Fatalf("the platforms are %v", variants)
			}
			config, err := image.ConfigFile()
			if err != nil {
				t.Fatal(err)
			}
			if config.OS+"/"+config.Architecture != platform || config.Config.User != "65532:65532" ||
				!config.Created.Equal(noon) || !slices.Equal(config.Config.Entrypoint, []string{"/usr/bin/weft"}) {
				t.Errorf("the configuration is %+v", config)
			}
			for label, want := range map[string]string{"version": "1.2.0+build.5", "revision": "c0ffee",
				"title": "weft-controller", "source": "https://github.com/weftnet/weft"} {
				if got := config.Config.Labels["org.opencontainers.image."+label]; got != want {
					t.Errorf("label %s is %q, not %q", label, got, want)
				}
			}
			root := unpack(t, image)
			if listed := ran(t, "find", filepath.Join(root, "etc"), filepath.Join(root, "usr/bin"),
				filepath.Join(root, "usr/share/doc/weft"), "-type", "f", "-printf", "%f %m\n"); !slices.Equal(
				slices.Sorted(strings.Lines(listed)), []string{licensesFile + " 644\n", "group 644\n", "ovn-nbctl 755\n",
					"ovn-sbctl 755\n", "ovn-trace 755\n", "passwd 644\n", "weft 755\n"}) {
				t.Errorf("the files are:\n%s", listed)
			}
			ran(t, "unshare", "--map-root-user", "--root", root, "/usr/bin/ovn-trace")
			program, err := os.ReadFile(filepath.Join(root, "usr/bin/weft"))
			if err != nil || !bytes.Equal(program, content) {
				t.Errorf("the program is another than that of the release: %v", err)
			}
		})
	}
}

// unpack has the files of an image in a folder.
func unpack(t *testing.T, image v1.Image) string {
	t.Helper()
	root := t.TempDir()
	files := mutate.Extract(image)
	defer files.Close()
	cmd := exec.Command("tar", "--extract", "--directory", root)
	cmd.Stdin = files
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return root
}

// TestNodeImage: it has what the controller's has, and what the agent runs; and it is root's.
func TestNodeImage(t *testing.T) {
	folder, bill := imageFiles(t, []byte("program"))
	_, index := readImage(t, filepath.Join(folder, "weft-node-1.2.0+build.5.oci.tar"))
	for platform, image := range variantsOf(t, index) {
		config, err := image.ConfigFile()
		if err != nil || config.Config.User != "" {
			t.Errorf("%s: the user is %q: %v", platform, config.Config.User, err)
		}
		root := unpack(t, image)
		for _, name := range []string{"usr/bin/weft", "usr/lib/cni/weft-cni", "usr/bin/ovs-ofctl", "etc/passwd",
			"usr/share/doc/openvswitch-common/copyright"} {
			if _, err := os.Stat(filepath.Join(root, name)); err != nil {
				t.Errorf("%s: %v", platform, err)
			}
		}
		// Container runtimes name pods' network namespaces /var/run/netns/….
		if to, err := os.Readlink(filepath.Join(root, "var/run")); err != nil || to != "/run" {
			t.Errorf("%s: /var/run leads to %q: %v", platform, to, err)
		}
	}
	materials := *bill.linkedFrom[len(bill.linkedFrom)-1].Dependencies
	for _, want := range []string{"linux-amd64/weft", "linux-arm64/weft-cni", "pkg:deb/debian/libc6@1?arch=amd64"} {
		if !slices.Contains(materials, want) {
			t.Errorf("the image is of %v, without %s", materials, want)
		}
	}
}

func TestImagesAreTheSameEachTime(t *testing.T) {
	folders := make([]string, 2)
	for i := range folders {
		folders[i], _ = imageFiles(t, []byte("program"))
	}
	if listed := ran(t, "ls", folders[0]); strings.Count(listed, ".oci.tar\n") != 2 {
		t.Errorf("the images are %s", listed)
	}
	ran(t, "diff", "-r", folders[0], folders[1])
}

// TestImageOfAnotherProgramHasAnotherDigest, or those before prove nothing.
func TestImageOfAnotherProgramHasAnotherDigest(t *testing.T) {
	_, one := imageFiles(t, []byte("program"))
	_, other := imageFiles(t, []byte("another"))
	if one.bundles[0].PackageURL == other.bundles[0].PackageURL {
		t.Errorf("both have the URL %s", one.bundles[0].PackageURL)
	}
}
