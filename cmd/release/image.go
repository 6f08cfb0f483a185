package main

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/blang/semver/v4"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

const (
	// nobody is the user of an image whose programs need no right of root: a number, as Kubernetes can tell of a number
	// alone that it is not root's (runAsNonRoot).
	nobody = "65532:65532"
	// ownHost stands in names of images for a registry. No registry has them, and no node may ask a stranger's for them.
	ownHost = "localhost"
)

// containerImage is an image of Weft for all architectures of Linux.
type containerImage struct {
	name, description string
	user              string // empty for root
	version           semver.Version
	source            commit
}

// variant has the files of an image for one architecture.
type variant struct {
	platform
	files []entry
}

// file is the archive's name.
func (i containerImage) file() string { return fmt.Sprintf("%s-%s.oci.tar", i.name, i.version) }

// reference is the name that a node's containerd gives the image which it reads from the archive.
func (i containerImage) reference() string { return ownHost + "/" + i.name + ":" + imageTag(i.version) }

// imageTag is a version as tags may have it: they have no plus sign. Helm writes it in the same way.
func imageTag(v semver.Version) string { return strings.ReplaceAll(v.String(), "+", "_") }

// labels say what the image is, in words of https://github.com/opencontainers/image-spec/blob/main/annotations.md.
func (i containerImage) labels() map[string]string {
	labels := map[string]string{}
	for key, value := range map[string]string{
		"title": i.name, "description": i.description, "version": i.version.String(), "revision": i.source.id,
		"created": i.source.time.Format(time.RFC3339), "source": "https://github.com/weftnet/weft",
		"url": "https://github.com/weftnet/weft",
	} {
		labels["org.opencontainers.image."+key] = value
	}
	return labels
}

// index is the image with its variants.
func (i containerImage) index(variants []variant) (v1.ImageIndex, error) {
	index := mutate.Annotations(empty.Index, i.labels()).(v1.ImageIndex)
	for _, v := range variants {
		image, err := i.image(v)
		if err != nil {
			return nil, fmt.Errorf("%s for %s: %w", i.name, v.platform, err)
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: image,
			Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: v.system, Architecture: v.architecture}}})
	}
	return index, nil
}

// image is one variant: all of its files are one layer.
func (i containerImage) image(v variant) (v1.Image, error) {
	var files bytes.Buffer
	if err := writeTarGz(&files, v.files, i.source.time); err != nil {
		return nil, err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(files.Bytes())), nil
	}, tarball.WithMediaType(types.OCILayer))
	if err != nil {
		return nil, err
	}
	at := v1.Time{Time: i.source.time}
	base := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	image, err := mutate.Append(base, mutate.Addendum{Layer: layer,
		History: v1.History{Created: at, CreatedBy: "make release"}})
	if err != nil {
		return nil, err
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Created = v.system, v.architecture, at
	config.Config = v1.Config{User: i.user, Entrypoint: []string{"/usr/bin/weft"}, WorkingDir: "/",
		Env: []string{"PATH=/usr/bin"}, Labels: i.labels()}
	return mutate.ConfigFile(image, config)
}

// write writes the image as an archive of an OCI layout, which has the name for containerd. work is an empty folder.
func (i containerImage) write(w io.Writer, index v1.ImageIndex, work string) error {
	path, err := layout.Write(work, empty.Index)
	if err != nil {
		return err
	}
	if err := path.AppendIndex(index, layout.WithAnnotations(map[string]string{
		"io.containerd.image.name":          i.reference(),
		"org.opencontainers.image.ref.name": imageTag(i.version),
	})); err != nil {
		return err
	}
	entries, err := readFolder(work)
	if err != nil {
		return err
	}
	return writeTar(w, entries, i.source.time)
}

// accounts are the files of users, which have the programs' user and root.
func accounts() []entry {
	return []entry{
		{"etc/passwd", forAll, []byte("root:x:0:0:root:/root:/sbin/nologin\n" +
			"weft:x:65532:65532:weft:/nonexistent:/sbin/nologin\n")},
		{"etc/group", forAll, []byte("root:x:0:\nweft:x:65532:\n")},
	}
}

// hostsRun has paths below /var/run be those below /run, as on hosts: runtimes name network namespaces of pods by them.
var hostsRun = entry{"var/run", fs.ModeSymlink | 0o777, []byte("/run")}

// controllerImage is that of the parts which need the network alone: they run as a user without rights. As that of the
// agent it has files of many packages, whose licences are no short expression.
func (m maker) controllerImage() containerImage {
	return containerImage{name: "weft-controller", user: nobody, version: m.version, source: m.source,
		description: "weft controller, weft observe and all other parts of Weft that change nothing of their host, with " +
			"the programs of OVN that weft observe runs"}
}

// nodeImage is that of the agent of Linux nodes. It runs as root: it enters the network namespaces of pods, and changes
// the interfaces and the settings of its host's kernel.
func (m maker) nodeImage() containerImage {
	return containerImage{name: "weft-node", version: m.version, source: m.source,
		description: "weft node, the agent of Linux nodes, with the program of Open vSwitch that it runs"}
}

// imageParts are what images are made of.
type imageParts struct {
	builds    []build
	documents []entry
	debian    map[string]debianParts // by architecture
}

// contents are an image's variants, and the references of what they are made of in the bill.
type contents struct {
	variants  []variant
	materials []string
}

// add adds the variant of a platform that has some files, and programs of the release and of Debian.
func (c *contents) add(p platform, bill *bill, files []entry, programs []string, debian closure) {
	c.variants = append(c.variants, variant{p, slices.Concat(files, debian.entries)})
	for _, name := range programs {
		c.materials = append(c.materials, programRef(p, name))
	}
	for _, p := range debian.packages {
		c.materials = append(c.materials, bill.debianPackage(p))
	}
}

// images writes all images, and adds them to the bill.
func (m maker) images(folder, work string, parts imageParts, bill *bill) error {
	papers := below("usr/share/doc/weft", parts.documents)
	var controller, node contents
	for _, b := range parts.builds {
		if b.system != "linux" {
			continue
		}
		debian := parts.debian[b.architecture]
		weft, plugin := *find(b.files, "weft"), *find(b.files, "weft-cni")
		programs := []string{weft.name, plugin.name}
		weft.name, plugin.name = "usr/bin/weft", "usr/lib/cni/weft-cni"
		files := slices.Concat(accounts(), []entry{weft}, papers)
		controller.add(b.platform, bill, files, programs[:1], debian.door)
		node.add(b.platform, bill, append(files, plugin, hostsRun), programs, debian.agent)
	}
	if err := m.writeImage(folder, work, m.controllerImage(), controller, bill); err != nil {
		return err
	}
	return m.writeImage(folder, work, m.nodeImage(), node, bill)
}

func (m maker) writeImage(folder, work string, image containerImage, has contents, bill *bill) error {
	index, err := image.index(has.variants)
	if err != nil {
		return err
	}
	digest, err := index.Digest()
	if err != nil {
		return err
	}
	scratch := filepath.Join(work, image.name)
	if err := os.Mkdir(scratch, 0o755); err != nil {
		return err
	}
	if err := create(folder, image.file(), func(w io.Writer) error { return image.write(w, index, scratch) }); err != nil {
		return err
	}
	bill.addImage(image, digest.Hex, has.materials)
	return nil
}
