package main

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
)

// ovnRoot is the folder of an OVN's archive that has Debian's files.
const ovnRoot = "root"

// ovnPrograms are the programs of an OVN of its own that roles and users run on hosts, and ovnSchemas those of its
// databases.
var (
	ovnPrograms = []string{"usr/bin/ovn-appctl", "usr/bin/ovn-controller", "usr/bin/ovn-nbctl", "usr/bin/ovn-northd",
		"usr/bin/ovn-sbctl", "usr/bin/ovn-trace", "usr/bin/ovs-appctl", "usr/bin/ovs-ofctl", "usr/bin/ovsdb-client",
		"usr/bin/ovsdb-tool", "usr/sbin/ovsdb-server"}
	ovnSchemas = []string{"usr/share/ovn/ovn-nb.ovsschema", "usr/share/ovn/ovn-sb.ovsschema"}
)

// ovnLauncher is the script of a program in bin: it brings its own loader and libraries, wherever the archive is
// unpacked.
const ovnLauncher = `#!/bin/sh
root=${0%%/*}/../` + ovnRoot + `
exec "$root/%s" --argv0 %s --library-path "$root/%s" "$root/%s" "$@"
`

// ovnPrefix are the files of an OVN that runs beside another one on any distribution: bin has its programs, share its
// schemas, and root what Debian's packages have of these.
func ovnPrefix(debian closure) ([]entry, error) {
	var entries []entry
	for _, program := range ovnPrograms {
		content := find(debian.entries, program).content
		loader, err := loaderOf(content)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", program, err)
		}
		_, libraries, err := librariesOf(content)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", program, err)
		}
		name := path.Base(program)
		entries = append(entries, entry{"bin/" + name, executable, fmt.Appendf(nil, ovnLauncher, loader, name, libraries,
			program)})
	}
	for _, schema := range ovnSchemas {
		entries = append(entries, entry{strings.TrimPrefix(schema, "usr/"), forAll, find(debian.entries, schema).content})
	}
	return append(entries, below(ovnRoot, debian.entries)...), nil
}

// ovnArchive writes the archive of an OVN for one platform, and adds it to the bill.
func (m maker) ovnArchive(folder string, p platform, debian closure, bill *bill) error {
	entries, err := ovnPrefix(debian)
	if err != nil {
		return err
	}
	common := slices.IndexFunc(debian.packages, func(p pin) bool { return p.name() == "ovn-common" })
	version, _, _ := strings.Cut(debian.packages[common].version(), "-")
	name, sum := fmt.Sprintf("ovn-%s-%s.tar.gz", version, p), sha256.New()
	if err := create(folder, name, func(w io.Writer) error {
		return writeTarGz(io.MultiWriter(w, sum), entries, m.source.time)
	}); err != nil {
		return err
	}
	bill.addArchive(name, version, hex.EncodeToString(sum.Sum(nil)), debian.packages)
	return nil
}
