package main

import (
	"bytes"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/CycloneDX/cyclonedx-go"
)

// own is the test's program, as one that the linker has made.
func own(t *testing.T) entry {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	program, err := readEntry(path, "weft", executable)
	if err != nil {
		t.Fatal(err)
	}
	return program
}

func written(t *testing.T) []byte {
	t.Helper()
	bill := newBill("1.2.0")
	for _, p := range platforms[:2] {
		if err := bill.add(p, own(t)); err != nil {
			t.Fatal(err)
		}
	}
	var out bytes.Buffer
	if err := bill.write(&out, commit{id: "c0ffee", time: noon}); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func TestBillIsTheSameEachTime(t *testing.T) {
	if !bytes.Equal(written(t), written(t)) {
		t.Error("two runs give other bytes")
	}
}

func TestBillHasProgramsAndTheirModules(t *testing.T) {
	var bom cyclonedx.BOM
	if err := cyclonedx.NewBOMDecoder(bytes.NewReader(written(t)), cyclonedx.BOMFileFormatJSON).Decode(&bom); err != nil {
		t.Fatal(err)
	}
	if bom.Metadata.Component.Version != "1.2.0" || bom.Metadata.Timestamp != "2026-03-04T12:00:00Z" {
		t.Errorf("the bill is of %+v", bom.Metadata)
	}
	refs := []string{bom.Metadata.Component.BOMRef}
	for _, c := range *bom.Components {
		refs = append(refs, c.BOMRef)
	}
	for _, prefix := range []string{"linux-amd64/weft", "linux-arm64/weft", "pkg:golang/std@1.",
		"pkg:golang/github.com/CycloneDX/cyclonedx-go@v"} {
		if found := slices.DeleteFunc(slices.Clone(refs), func(ref string) bool {
			return !strings.HasPrefix(ref, prefix)
		}); len(found) != 1 {
			t.Errorf("%d components begin with %s: %v", len(found), prefix, found)
		}
	}
	for _, d := range *bom.Dependencies {
		for _, ref := range append(*d.Dependencies, d.Ref) {
			if !slices.Contains(refs, ref) {
				t.Errorf("%s depends on %s, which is no component", d.Ref, ref)
			}
		}
	}
}

func TestProgramWithoutModulesIsNamed(t *testing.T) {
	err := newBill("1.2.0").add(platforms[0], entry{"weft", executable, []byte("no program")})
	if err == nil || !strings.Contains(err.Error(), "linux-amd64: read the modules of weft") {
		t.Errorf("the error is %v", err)
	}
}
