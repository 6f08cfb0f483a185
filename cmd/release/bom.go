package main

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/CycloneDX/cyclonedx-go"
	"github.com/google/uuid"
)

// bill collects a bill of materials: the programs, the modules that each of them was linked from, the images that have
// the programs, and the archives and images that have files of Debian's packages.
type bill struct {
	version    string
	programs   []cyclonedx.Component
	bundles    []cyclonedx.Component          // images and archives
	modules    map[string]cyclonedx.Component // and packages of Debian, by package URL
	linkedFrom []cyclonedx.Dependency
}

func newBill(version string) *bill {
	return &bill{version: version, modules: map[string]cyclonedx.Component{}}
}

// add takes a program, and the modules that it is linked from.
func (b *bill) add(p platform, program entry) error {
	modules, err := modulesOf(program)
	if err != nil {
		return fmt.Errorf("%s: %w", p, err)
	}
	sum := sha256.Sum256(program.content)
	ref := programRef(p, program.name)
	b.programs = append(b.programs, cyclonedx.Component{
		BOMRef: ref, Type: cyclonedx.ComponentTypeApplication, Name: ref, Version: b.version,
		Hashes: &[]cyclonedx.Hash{{Algorithm: cyclonedx.HashAlgoSHA256, Value: hex.EncodeToString(sum[:])}},
	})
	var urls []string
	for _, m := range modules {
		urls = append(urls, b.module(m))
	}
	slices.Sort(urls)
	b.linkedFrom = append(b.linkedFrom, cyclonedx.Dependency{Ref: ref, Dependencies: &urls})
	return nil
}

// programRef is the reference of a program in the bill.
func programRef(p platform, name string) string { return p.String() + "/" + name }

// addImage takes an image, whose digest is the one by which containers are started, and the references of its
// materials.
func (b *bill) addImage(i containerImage, digest string, materials []string) {
	b.bundles = append(b.bundles, cyclonedx.Component{
		BOMRef: i.name, Type: cyclonedx.ComponentTypeContainer, Name: i.name, Version: b.version,
		PackageURL: "pkg:oci/" + i.name + "@sha256%3A" + digest + "?tag=" + imageTag(i.version),
		Hashes:     &[]cyclonedx.Hash{{Algorithm: cyclonedx.HashAlgoSHA256, Value: digest}},
	})
	b.linkedFrom = append(b.linkedFrom, cyclonedx.Dependency{Ref: i.name, Dependencies: &materials})
}

// addArchive takes an archive that has files of packages of Debian.
func (b *bill) addArchive(name, version, sum string, packages []pin) {
	b.bundles = append(b.bundles, cyclonedx.Component{
		BOMRef: name, Type: cyclonedx.ComponentTypeApplication, Name: name, Version: version,
		Hashes: &[]cyclonedx.Hash{{Algorithm: cyclonedx.HashAlgoSHA256, Value: sum}},
	})
	var materials []string
	for _, p := range packages {
		materials = append(materials, b.debianPackage(p))
	}
	b.linkedFrom = append(b.linkedFrom, cyclonedx.Dependency{Ref: name, Dependencies: &materials})
}

// debianPackage adds a package once, and returns its package URL.
func (b *bill) debianPackage(p pin) string {
	b.modules[p.url()] = cyclonedx.Component{BOMRef: p.url(), Type: cyclonedx.ComponentTypeLibrary, Name: p.name(),
		Version: p.version(), PackageURL: p.url(),
		Hashes: &[]cyclonedx.Hash{{Algorithm: cyclonedx.HashAlgoSHA256, Value: p.sum}}}
	return p.url()
}

// module adds a module once, and returns its package URL (https://github.com/package-url/purl-spec).
func (b *bill) module(m module) string {
	url := "pkg:golang/" + m.path + "@" + strings.ReplaceAll(m.version, "+", "%2B")
	b.modules[url] = cyclonedx.Component{BOMRef: url, Type: cyclonedx.ComponentTypeLibrary, Name: m.path,
		Version: m.version, PackageURL: url}
	return url
}

// write writes the bill as JSON of CycloneDX. Its serial number follows from the commit and the version.
func (b *bill) write(w io.Writer, source commit) error {
	bom := cyclonedx.NewBOM()
	serial := uuid.NewSHA1(uuid.NameSpaceURL, []byte("https://github.com/weftnet/weft/commit/"+source.id+"#"+b.version))
	bom.SerialNumber = serial.URN()
	const ref = "weft"
	bom.Metadata = &cyclonedx.Metadata{
		Timestamp: source.time.Format(time.RFC3339),
		Component: &cyclonedx.Component{BOMRef: ref, Type: cyclonedx.ComponentTypeApplication, Name: "weft",
			Version: b.version, PackageURL: "pkg:golang/github.com/weftnet/weft@" + source.id},
	}
	modules := slices.SortedFunc(maps.Values(b.modules), func(a, b cyclonedx.Component) int {
		return cmp.Compare(a.BOMRef, b.BOMRef)
	})
	own := append(slices.Clone(b.programs), b.bundles...)
	components := append(slices.Clone(own), modules...)
	bom.Components = &components
	var refs []string
	for _, c := range own {
		refs = append(refs, c.BOMRef)
	}
	dependencies := append([]cyclonedx.Dependency{{Ref: ref, Dependencies: &refs}}, b.linkedFrom...)
	bom.Dependencies = &dependencies
	return cyclonedx.NewBOMEncoder(w, cyclonedx.BOMFileFormatJSON).SetPretty(true).SetEscapeHTML(false).Encode(bom)
}
