package main

import (
	"bytes"
	"crypto/md5"
	"fmt"
	"io"
	"strings"
	"time"
)

// debianPackage has the two programs for one architecture, and no maintainer script: dpkg needs none to place files.
type debianPackage struct {
	version      string // of Debian's form
	architecture string // amd64 or arm64, in Debian's words as in Go's
	programs     []entry
	licenses     entry // of the modules in the programs
	at           time.Time
}

const debianControl = `Package: weft
Version: %s
Architecture: %s
Maintainer: The Weft authors
Bugs: https://github.com/weftnet/weft/issues
Installed-Size: %d
Suggests: openvswitch-switch (>= 3.3), ovn-host (>= 23.03), ovn-central (>= 23.03)
Section: net
Priority: optional
Homepage: https://github.com/weftnet/weft
Description: OVN network for Kubernetes clusters of Linux and Windows nodes
 This package has the program weft, and the CNI plugin weft-cni in
 /usr/lib/cni. It has no service and no configuration, and nothing runs after
 its installation.
 .
 The Ansible collection weftnet.weft configures hosts and writes their systemd
 units. It places programs of its own, by default in /usr/local/bin and
 /opt/cni/bin, and does not use those of this package. The package is for
 container images, for hosts that are configured by other means, and for the
 command "weft policy" on any machine.
`

const debianCopyright = `Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: weft
Source: https://github.com/weftnet/weft

Files: *
Copyright: The Weft authors
License: Apache-2.0
 The text is in /usr/share/common-licenses/Apache-2.0. Licences of the modules
 that the programs are linked from are in THIRD-PARTY-LICENSES.txt here.
`

// write writes the package as deb(5) has it.
func (p debianPackage) write(w io.Writer) error {
	files := p.files()
	control, err := p.archive([]entry{
		{"./control", forAll, p.control(files)},
		{"./md5sums", forAll, md5sums(files)},
	})
	if err != nil {
		return err
	}
	data, err := p.archive(files)
	if err != nil {
		return err
	}
	return writeAr(w, p.at, []entry{
		{"debian-binary", forAll, []byte("2.0\n")},
		{"control.tar.gz", forAll, control},
		{"data.tar.gz", forAll, data},
	})
}

func (p debianPackage) archive(entries []entry) ([]byte, error) {
	var out bytes.Buffer
	err := writeTarGz(&out, entries, p.at)
	return out.Bytes(), err
}

// files are those that a host gets, with the names that a package's data has.
func (p debianPackage) files() []entry {
	folders := map[string]string{"weft": "./usr/bin/", "weft-cni": "./usr/lib/cni/"}
	var files []entry
	for _, program := range p.programs {
		files = append(files, entry{folders[program.name] + program.name, executable, program.content})
	}
	documents := []entry{{"copyright", forAll, []byte(debianCopyright)}, p.licenses}
	return append(files, below("./usr/share/doc/weft", documents)...)
}

func (p debianPackage) control(files []entry) []byte {
	kibibytes := 0
	for _, f := range withFolders(files) {
		kibibytes += max(1, (len(f.content)+1023)/1024)
	}
	return fmt.Appendf(nil, debianControl, p.version, p.architecture, kibibytes)
}

func md5sums(files []entry) []byte {
	var sums []byte
	for _, f := range files {
		sums = fmt.Appendf(sums, "%x  %s\n", md5.Sum(f.content), strings.TrimPrefix(f.name, "./"))
	}
	return sums
}

// writeAr writes an archive of ar(5) in its common form, with names of at most 16 characters.
func writeAr(w io.Writer, at time.Time, members []entry) error {
	archive := []byte("!<arch>\n")
	for _, m := range members {
		archive = fmt.Appendf(archive, "%-16s%-12d%-6d%-6d%-8o%-10d`\n", m.name, at.Unix(), 0, 0, 0o100000|m.mode,
			len(m.content))
		archive = append(archive, m.content...)
		if len(m.content)%2 == 1 {
			archive = append(archive, '\n')
		}
	}
	_, err := w.Write(archive)
	return err
}
