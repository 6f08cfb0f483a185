package main

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"
)

func TestLicensesOfAllModules(t *testing.T) {
	modules, err := modulesOf(own(t))
	if err != nil {
		t.Fatal(err)
	}
	licenses, err := thirdPartyLicenses(t.Context(), commit{folder: ".."}, append(modules, modules...))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range modules {
		if n := bytes.Count(licenses, []byte(m.String()+"\n")); n != 1 {
			t.Errorf("%s is there %d times", m, n)
		}
	}
	for _, text := range []string{"The Go Authors", "Apache License"} {
		if !bytes.Contains(licenses, []byte(text)) {
			t.Errorf("there is no %q", text)
		}
	}
}

func TestModuleWithoutLicenseIsRefused(t *testing.T) {
	folder := t.TempDir()
	m := module{"example.com/closed", "v1.0.0"}
	for problem, folders := range map[string]map[string]string{
		"has no licence":          {m.String(): folder},
		"not in the module cache": {},
	} {
		if _, err := licenseOf(m, folders); err == nil || !strings.Contains(err.Error(), problem) {
			t.Errorf("the error is %v, without %q", err, problem)
		}
	}
	write(t, filepath.Join(folder, "LICENSE.md"), "do as you like")
	if text, err := licenseOf(m, map[string]string{m.String(): folder}); err != nil || text != "do as you like" {
		t.Errorf("%q: %v", text, err)
	}
}
