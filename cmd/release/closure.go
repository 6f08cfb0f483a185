package main

import (
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
)

// unpacked are packages of one architecture.
type unpacked []debFile

// read is a file of any of the packages, and where it is, when links have been followed. A name of before Debian moved
// all below /usr is as good.
func (u unpacked) read(name string) (owner *debFile, content []byte) {
	for range 8 { // links
		next := ""
		for i := range u {
			for _, known := range []string{name, "usr/" + name} {
				if content, ok := u[i].files[known]; ok {
					return &u[i], content
				}
				if to := u[i].target(known); to != "" {
					next = to
				}
			}
		}
		if next == "" {
			return nil, nil
		}
		name = next
	}
	return nil, nil
}

// target is where a file is that is itself a link, or in a folder that is one.
func (d *debFile) target(name string) string {
	for link := name; link != "."; link = path.Dir(link) {
		to, ok := d.links[link]
		if !ok {
			continue
		}
		if !path.IsAbs(to) {
			to = path.Join("/", path.Dir(link), to)
		}
		return strings.TrimPrefix(to, "/") + strings.TrimPrefix(name, link)
	}
	return ""
}

// closure are the files that a program wants to run: itself, its loader, and all libraries that one of them is linked
// with; and beside them the licences of the packages that they are from. Each of the packages must be one of these.
func (u unpacked) closure(program string) (entries []entry, packages []pin, err error) {
	owners := map[string]*debFile{}
	done := map[string]bool{}
	take := func(name string, mode fs.FileMode) ([]byte, error) {
		owner, content := u.read(name)
		if owner == nil {
			return nil, fmt.Errorf("no package of %s has %s: add the one that has it to cmd/release/packages.sh", packagesFile,
				name)
		}
		owners[owner.name()] = owner
		entries = append(entries, entry{name, mode, content})
		return content, nil
	}
	content, err := take(program, executable)
	if err != nil {
		return nil, nil, err
	}
	loader, err := loaderOf(content)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", program, err)
	}
	if _, err := take(loader, executable); err != nil {
		return nil, nil, err
	}
	done[path.Base(loader)] = true
	for linked := [][]byte{content}; len(linked) > 0; linked = linked[1:] {
		libraries, folder, err := librariesOf(linked[0])
		if err != nil {
			return nil, nil, err
		}
		for _, library := range libraries {
			if done[library] {
				continue
			}
			done[library] = true
			content, err := take(folder+"/"+library, forAll)
			if err != nil {
				return nil, nil, err
			}
			linked = append(linked, content)
		}
	}
	for _, d := range u {
		if owners[d.name()] == nil {
			return nil, nil, fmt.Errorf("nothing is taken of package %s: remove it from cmd/release/packages.sh, and let that "+
				"write %s", d.name(), packagesFile)
		}
	}
	papers, err := u.papers(owners)
	for _, name := range slices.Sorted(maps.Keys(owners)) {
		packages = append(packages, owners[name].pin)
	}
	return append(entries, papers...), packages, err
}

// papers are the licence of each package that files were taken of, and the entry by which scanners know its version.
func (u unpacked) papers(owners map[string]*debFile) ([]entry, error) {
	var entries []entry
	for _, name := range slices.Sorted(maps.Keys(owners)) {
		copyright := "usr/share/doc/" + name + "/copyright"
		_, content := u.read(copyright)
		if content == nil {
			return nil, fmt.Errorf("no package of %s has %s: nobody may distribute %s without it", packagesFile, copyright, name)
		}
		entries = append(entries, entry{copyright, forAll, content},
			entry{"var/lib/dpkg/status.d/" + name, forAll, owners[name].control})
	}
	return entries, nil
}

// loaderOf is the path of the loader that a program names.
func loaderOf(program []byte) (string, error) {
	file, err := elf.NewFile(bytes.NewReader(program))
	if err != nil {
		return "", err
	}
	section := file.Section(".interp")
	if section == nil {
		return "", errors.New("it names no loader")
	}
	content, err := section.Data()
	return strings.Trim(string(content), "/\x00"), err
}

var libraryFolders = map[elf.Machine]string{elf.EM_X86_64: "usr/lib/x86_64-linux-gnu",
	elf.EM_AARCH64: "usr/lib/aarch64-linux-gnu"}

// librariesOf are those that a program or a library is linked with, and the folder in which Debian has them.
func librariesOf(content []byte) (names []string, folder string, err error) {
	file, err := elf.NewFile(bytes.NewReader(content))
	if err != nil {
		return nil, "", err
	}
	names, err = file.ImportedLibraries()
	return names, libraryFolders[file.Machine], err
}
