package main

import (
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// toolsOf are packages with programs, their library and the library of that one, made by gcc, and this machine's C
// library and loader.
func toolsOf(t *testing.T) unpacked {
	t.Helper()
	folder := t.TempDir()
	write(t, filepath.Join(folder, "deep.c"), "int deep(void) { return 0; }\n")
	write(t, filepath.Join(folder, "own.c"), "int deep(void); int own(void) { return deep(); }\n")
	write(t, filepath.Join(folder, "main.c"), "int own(void); int main(void) { return own(); }\n")
	gcc := exec.Command("sh", "-ec", "gcc -shared -fPIC -Wl,-soname,libdeep.so.1 -o libdeep.so.1 deep.c\n"+
		"gcc -shared -fPIC -Wl,-soname,libown.so.1 -o libown.so.1 own.c libdeep.so.1\n"+
		"gcc -Wl,-rpath-link,. -o main main.c libown.so.1")
	gcc.Dir = folder
	if out, err := gcc.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	main := []byte(read(t, filepath.Join(folder, "main")))
	loader, err := loaderOf(main)
	if err != nil {
		t.Fatal(err)
	}
	_, libraries, err := librariesOf(main)
	if err != nil {
		t.Fatal(err)
	}
	deb := func(name string, files map[string][]byte, links map[string]string) debFile {
		files["usr/share/doc/"+name+"/copyright"] = []byte("licence of " + name)
		p := pin{strings.Repeat("0", 64), "pool/" + name + "_1_amd64.deb"}
		return debFile{p, []byte("Package: " + name + "\n"), files, links}
	}
	ovn := map[string][]byte{}
	for _, program := range slices.Concat(doorPrograms, ovnPrograms) {
		if !slices.Contains(agentPrograms, program) {
			ovn[program] = main
		}
	}
	for _, schema := range ovnSchemas {
		ovn[schema] = []byte("{}")
	}
	return unpacked{
		deb("openvswitch-common", map[string][]byte{"usr/bin/ovs-ofctl": main, "usr/bin/other": nil}, nil),
		deb("libown1", map[string][]byte{libraries + "/libown.so.1.0": []byte(read(t, filepath.Join(folder, "libown.so.1"))),
			libraries + "/libdeep.so.1": []byte(read(t, filepath.Join(folder, "libdeep.so.1")))},
			map[string]string{libraries + "/libown.so.1": "libown.so.1.0"}),
		deb("libc6", map[string][]byte{libraries + "/libc.so.6": []byte(read(t, "/"+libraries+"/libc.so.6")),
			"usr/" + loader: []byte(read(t, "/"+loader))}, nil),
		deb("ovn-common", ovn, nil),
	}
}

// TestClosureRuns: what is taken of packages is enough for the program, in a root of its own.
func TestClosureRuns(t *testing.T) {
	taken, err := toolsOf(t).closure(agentPrograms)
	if err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	var names []string
	for _, e := range taken.entries {
		names = append(names, e.name)
		place(t, root, e)
	}
	if slices.Contains(names, "usr/bin/other") || len(taken.packages) != 3 ||
		!slices.Contains(names, "usr/share/doc/libown1/copyright") || !slices.Contains(names, "var/lib/dpkg/status.d/libc6") {
		t.Errorf("of %v there are taken %v", taken.packages, names)
	}
	ran(t, "unshare", "--map-root-user", "--root", root, "/usr/bin/ovs-ofctl")
}

// TestClosureHasEachFileOnce: programs of one package share their loader and their libraries.
func TestClosureHasEachFileOnce(t *testing.T) {
	tools := toolsOf(t)
	one, err := tools.closure(doorPrograms[:1])
	if err != nil {
		t.Fatal(err)
	}
	all, err := tools.closure(doorPrograms)
	if err != nil {
		t.Fatal(err)
	}
	if more := len(all.entries) - len(one.entries); more != len(doorPrograms)-1 ||
		!slices.Equal(all.packages, one.packages) {
		t.Errorf("%d programs have %d files more than one has, of %v", len(doorPrograms), more, all.packages)
	}
}

func TestIdlePackagesAreRefused(t *testing.T) {
	tools := append(toolsOf(t), debFile{pin: pin{path: "pool/idle_1_amd64.deb"}})
	_, err := newDebianParts(tools)
	if err == nil || !strings.Contains(err.Error(), "nothing is taken of package idle: remove it") {
		t.Errorf("the error is %v", err)
	}
}

func TestClosureSaysWhatIsMissing(t *testing.T) {
	for _, test := range []struct {
		name, want string
		change     func(unpacked) unpacked
	}{
		{"a library", "/libown.so.1: add the one that has it", func(u unpacked) unpacked { return slices.Delete(u, 1, 2) }},
		{"the program", "has usr/bin/ovs-ofctl: add", func(u unpacked) unpacked { return u[1:] }},
		{"a licence", "libown1/copyright: nobody may distribute libown1", func(u unpacked) unpacked {
			delete(u[1].files, "usr/share/doc/libown1/copyright")
			return u
		}},
		{"a program's form", "usr/bin/ovs-ofctl: ", func(u unpacked) unpacked {
			u[0].files["usr/bin/ovs-ofctl"] = []byte("#!/bin/sh\n")
			return u
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			if _, err := test.change(toolsOf(t)).closure(agentPrograms); err == nil ||
				!strings.Contains(err.Error(), test.want) {
				t.Errorf("the error is %v, without %q", err, test.want)
			}
		})
	}
}

func TestLinksThatGoRoundEnd(t *testing.T) {
	u := unpacked{{links: map[string]string{"a": "b", "b": "a"}}}
	if owner, _ := u.read("a"); owner != nil {
		t.Errorf("a is of %s", owner.path)
	}
}

// place writes a file of an image.
func place(t *testing.T, root string, e entry) {
	t.Helper()
	path := filepath.Join(root, e.name)
	ran(t, "mkdir", "-p", filepath.Dir(path))
	write(t, path, string(e.content))
	if e.mode == executable {
		ran(t, "chmod", "755", path)
	}
}
