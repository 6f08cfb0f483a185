package main

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/CycloneDX/cyclonedx-go"
	"github.com/google/uuid"
)

// bill collects a bill of materials: the programs, and the modules that each of them was linked from.
type bill struct {
	version    string
	programs   []cyclonedx.Component
	modules    map[string]cyclonedx.Component // by package URL
	linkedFrom []cyclonedx.Dependency
}

func newBill(version string) *bill {
	return &bill{version: version, modules: map[string]cyclonedx.Component{}}
}

// add reads a program's modules from what the Go linker has left in it.
func (b *bill) add(p platform, program entry) error {
	info, err := buildinfo.Read(bytes.NewReader(program.content))
	if err != nil {
		return fmt.Errorf("read the modules of %s for %s: %w", program.name, p, err)
	}
	sum := sha256.Sum256(program.content)
	ref := p.String() + "/" + program.name
	b.programs = append(b.programs, cyclonedx.Component{
		BOMRef: ref, Type: cyclonedx.ComponentTypeApplication, Name: ref, Version: b.version,
		Hashes: &[]cyclonedx.Hash{{Algorithm: cyclonedx.HashAlgoSHA256, Value: hex.EncodeToString(sum[:])}},
	})
	urls := []string{b.module("std", strings.TrimPrefix(info.GoVersion, "go"))}
	for _, m := range info.Deps {
		m = inUse(m)
		urls = append(urls, b.module(m.Path, m.Version))
	}
	slices.Sort(urls)
	b.linkedFrom = append(b.linkedFrom, cyclonedx.Dependency{Ref: ref, Dependencies: &urls})
	return nil
}

// inUse is the module whose code was compiled.
func inUse(m *debug.Module) *debug.Module {
	if m.Replace != nil {
		return m.Replace
	}
	return m
}

// module adds a module once, and returns its package URL (https://github.com/package-url/purl-spec).
func (b *bill) module(path, version string) string {
	url := "pkg:golang/" + path + "@" + strings.ReplaceAll(version, "+", "%2B")
	b.modules[url] = cyclonedx.Component{BOMRef: url, Type: cyclonedx.ComponentTypeLibrary, Name: path, Version: version,
		PackageURL: url}
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
	components := append(slices.Clone(b.programs), modules...)
	bom.Components = &components
	var programs []string
	for _, p := range b.programs {
		programs = append(programs, p.BOMRef)
	}
	dependencies := append([]cyclonedx.Dependency{{Ref: ref, Dependencies: &programs}}, b.linkedFrom...)
	bom.Dependencies = &dependencies
	return cyclonedx.NewBOMEncoder(w, cyclonedx.BOMFileFormatJSON).SetPretty(true).SetEscapeHTML(false).Encode(bom)
}
