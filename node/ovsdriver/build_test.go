package ovsdriver

import (
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/weftnet/weft/node/nodetest"
)

// resources are those of a program with VS_FIXEDFILEINFO among them.
func resources(version Version, mask, flags uint32) []byte {
	info := make([]byte, 52)
	for at, value := range map[int]uint32{0: 0xFEEF04BD, fileVersionOffset: uint32(version.Major<<16 | version.Minor),
		fileVersionOffset + 4: 5 << 16, fileFlagsMaskOffset: mask, fileFlagsOffset: flags} {
		binary.LittleEndian.PutUint32(info[at:], value)
	}
	return append([]byte("VS_VERSION_INFO"), info...)
}

// The version and the flag of a debug build are where ovsext.rc puts them.
func TestParseBuild(t *testing.T) {
	const mask, release, debug = 0x3f, 0x8, 0x9
	for name, c := range map[string]struct {
		resources []byte
		want      Build
	}{
		"3.0.5":                {resources(Version{3, 0}, mask, release), Build{Version: Version{3, 0}}},
		"debug":                {resources(Version{3, 7}, mask, debug), Build{Version{3, 7}, true}},
		"release":              {resources(Version{3, 7}, mask, release), Build{Version: Version{3, 7}}},
		"flag without meaning": {resources(Version{3, 7}, mask&^1, debug), Build{Version: Version{3, 7}}},
		"cut":                  {resources(Version{3, 7}, mask, debug)[:44], Build{}},
		"none":                 {nil, Build{}},
	} {
		if got := parseBuild(c.resources); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

// A driver before 3.6 is refused. One that does not say its version is not.
func TestUnsoundBuilds(t *testing.T) {
	for version, unsound := range map[Version]bool{
		{2, 17}: true, {3, 0}: true, {3, 5}: true, {3, 6}: false, {3, 7}: false, {4, 0}: false, {}: false,
	} {
		if err := (Build{Version: version}).Check(); errors.Is(err, ErrUnsound) != unsound {
			t.Errorf("%v: %v", version, err)
		}
	}
}

// program is the smallest one for Windows that has resources alone.
func program(resources []byte) []byte {
	const headers = 0x200
	file := make([]byte, headers, headers+len(resources))
	copy(file, "MZ")
	little := binary.LittleEndian
	little.PutUint32(file[0x3c:], 0x80) // where the header is
	copy(file[0x80:], "PE\x00\x00")
	little.PutUint16(file[0x84:], 0x8664) // for amd64
	little.PutUint16(file[0x86:], 1)      // section
	section := file[0x98:]                // without an optional header
	copy(section, ".rsrc")
	little.PutUint32(section[8:], uint32(len(resources)))
	little.PutUint32(section[16:], uint32(len(resources)))
	little.PutUint32(section[20:], headers)
	return append(file, resources...)
}

func TestReadBuild(t *testing.T) {
	path := filepath.Join(nodetest.Folder(t), "OVSExt.sys")
	if _, err := ReadBuild(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
	want := Build{Version: Version{3, 5}}
	if err := os.WriteFile(path, program(resources(want.Version, 0x3f, 0x8)), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := ReadBuild(path); err != nil || got != want {
		t.Errorf("%+v, %v", got, err)
	}
}

func FuzzParseBuild(f *testing.F) {
	f.Add(resources(Version{3, 7}, 0x3f, 0x9))
	f.Fuzz(func(t *testing.T, text []byte) {
		if b := parseBuild(text); b.Version.Major < 0 || b.Version.Minor < 0 {
			t.Errorf("%+v", b)
		}
	})
}
