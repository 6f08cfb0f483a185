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

// closure has the files that some programs want to run: themselves, their loader, and all libraries that one of them is
// linked with; and beside them the licences of the packages that they are from.
type closure struct {
	entries  []entry
	packages []pin
}

// closure is that of some programs, and of files that they read. All of them must be in the packages.
func (u unpacked) closure(programs []string, data ...string) (closure, error) {
	c := collection{of: u, owners: map[string]*debFile{}, taken: map[string]bool{}}
	for _, program := range programs {
		if err := c.takeProgram(program); err != nil {
			return closure{}, err
		}
	}
	for _, name := range data {
		if _, err := c.take(name, forAll); err != nil {
			return closure{}, err
		}
	}
	papers, err := u.papers(c.owners)
	if err != nil {
		return closure{}, err
	}
	all := closure{entries: append(c.entries, papers...)}
	for _, name := range slices.Sorted(maps.Keys(c.owners)) {
		all.packages = append(all.packages, c.owners[name].pin)
	}
	return all, nil
}

// checkUse refuses a package of which none of the closures has a file.
func (u unpacked) checkUse(all ...closure) error {
	for _, d := range u {
		if !slices.ContainsFunc(all, func(c closure) bool { return slices.Contains(c.packages, d.pin) }) {
			return fmt.Errorf("nothing is taken of package %s: remove it from cmd/release/packages.sh, and let that write %s",
				d.name(), packagesFile)
		}
	}
	return nil
}

// collection is a closure in the making.
type collection struct {
	of      unpacked
	entries []entry
	owners  map[string]*debFile // by their names
	taken   map[string]bool     // files, by their names without folders
}

// take takes a file, and returns its content.
func (c *collection) take(name string, mode fs.FileMode) ([]byte, error) {
	owner, content := c.of.read(name)
	if owner == nil {
		return nil, fmt.Errorf("no package of %s has %s: add the one that has it to cmd/release/packages.sh", packagesFile,
			name)
	}
	c.owners[owner.name()] = owner
	c.taken[path.Base(name)] = true
	c.entries = append(c.entries, entry{name, mode, content})
	return content, nil
}

// takeProgram takes a program with its loader and its libraries.
func (c *collection) takeProgram(program string) error {
	content, err := c.take(program, executable)
	if err != nil {
		return err
	}
	loader, err := loaderOf(content)
	if err != nil {
		return fmt.Errorf("%s: %w", program, err)
	}
	if !c.taken[path.Base(loader)] {
		if _, err := c.take(loader, executable); err != nil {
			return err
		}
	}
	return c.takeLibraries(content)
}

// takeLibraries takes all libraries that a program is linked with, and those of libraries.
func (c *collection) takeLibraries(program []byte) error {
	for linked := [][]byte{program}; len(linked) > 0; linked = linked[1:] {
		libraries, folder, err := librariesOf(linked[0])
		if err != nil {
			return err
		}
		for _, library := range libraries {
			if c.taken[library] {
				continue
			}
			content, err := c.take(folder+"/"+library, forAll)
			if err != nil {
				return err
			}
			linked = append(linked, content)
		}
	}
	return nil
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
