package main

import (
	"cmp"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/blang/semver/v4"
)

func TestOnlySemanticVersionsAreTaken(t *testing.T) {
	for _, text := range []string{"1.2.0", "0.1.0-rc.1", "1.0.0+build.5"} {
		if version, err := parseVersion(text); err != nil || version.String() != text {
			t.Errorf("%s is read as %s: %v", text, version, err)
		}
	}
	for text, remedy := range map[string]string{
		"":              "VERSION=1.2.0",
		"v1.2.0":        "leave out the v",
		"1.2":           "VERSION=1.2.0",
		"01.2.3":        "VERSION=1.2.0",
		"9d461fd0":      "VERSION=1.2.0",
		"9d461fd-dirty": "VERSION=1.2.0",
	} {
		if _, err := parseVersion(text); err == nil || !strings.Contains(err.Error(), remedy) {
			t.Errorf("%q: the error is %v, without %q", text, err, remedy)
		}
	}
}

// TestDebianOrdersAsSemanticVersionsDo asks dpkg.
func TestDebianOrdersAsSemanticVersionsDo(t *testing.T) {
	inOrder := []string{"0.9.0", "1.0.0-alpha", "1.0.0-alpha.1", "1.0.0-rc-x.2", "1.0.0", "1.0.1-rc.1", "1.0.1", "1.10.0"}
	if !slices.IsSortedFunc(inOrder, func(a, b string) int {
		return cmp.Or(semver.MustParse(a).Compare(semver.MustParse(b)), 1)
	}) {
		t.Fatal("the test's versions are not in the order of semantic versions")
	}
	for i, later := range inOrder[1:] {
		a, b := debianVersion(semver.MustParse(inOrder[i])), debianVersion(semver.MustParse(later))
		if out, err := exec.Command("dpkg", "--compare-versions", a, "lt", b).CombinedOutput(); err != nil {
			t.Errorf("dpkg does not order %s before %s: %v %s", a, b, err, out)
		}
	}
}
