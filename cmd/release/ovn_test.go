package main

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestOVNRunsWhereverItIsUnpacked: its programs have what they need beside them.
func TestOVNRunsWhereverItIsUnpacked(t *testing.T) {
	debian, err := newDebianParts(toolsOf(t))
	if err != nil {
		t.Fatal(err)
	}
	folder, bill := t.TempDir(), newBill("1.2.0")
	for _, p := range platforms[:2] {
		if err := sampleMaker().ovnArchive(folder, p, debian.ovn, bill); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"ovn-1-linux-amd64.tar.gz", "ovn-1-linux-arm64.tar.gz"} {
		prefix := t.TempDir()
		ran(t, "tar", "--extract", "--file", filepath.Join(folder, name), "--directory", prefix)
		for _, program := range ovnPrograms {
			ran(t, filepath.Join(prefix, "bin", filepath.Base(program)))
		}
		t.Setenv("PATH", filepath.Join(prefix, "bin")+":/usr/bin:/bin")
		ran(t, "sh", "-ec", "cd /; ovn-nbctl")
		for _, schema := range ovnSchemas {
			if got := read(t, filepath.Join(prefix, strings.TrimPrefix(schema, "usr/"))); got != "{}" {
				t.Errorf("%s is %q", schema, got)
			}
		}
		if licence := read(t, filepath.Join(prefix, "root/usr/share/doc/ovn-common/copyright")); licence == "" {
			t.Error("there is no licence")
		}
	}
	has := bill.linkedFrom[1]
	if has.Ref != "ovn-1-linux-arm64.tar.gz" ||
		!slices.Contains(*has.Dependencies, "pkg:deb/debian/ovn-common@1?arch=amd64") {
		t.Errorf("the bill has %+v", has)
	}
}
