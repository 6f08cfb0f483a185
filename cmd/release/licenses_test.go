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
	folders, err := moduleFolders(t.Context(), "..")
	if err != nil {
		t.Fatal(err)
	}
	licenses, err := thirdPartyLicenses(append(modules, modules...), folders)
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

func TestTextThatModulesShareIsThereOnce(t *testing.T) {
	first, second := t.TempDir(), t.TempDir()
	write(t, filepath.Join(first, "LICENSE"), "shared")
	write(t, filepath.Join(second, "COPYING"), "shared")
	licenses, err := thirdPartyLicenses([]module{{"b.example", "v1"}, {"a.example", "v2"}},
		map[string]string{"a.example@v2": first, "b.example@v1": second})
	if want := "a.example@v2\nb.example@v1\n\nshared\n"; err != nil || !strings.HasPrefix(string(licenses), want) ||
		strings.Count(string(licenses), "shared") != 1 {
		t.Errorf("%v:\n%s", err, licenses)
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
