package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"slices"

	"github.com/blang/semver/v4"
)

// maker makes the files of one release.
type maker struct {
	source  commit
	version semver.Version
	ldflags string
	url     *url.URL // of the folder from which the files will be downloaded
	signKey string   // empty for no signature
	stdout  io.Writer
}

// makeAll fills the folder, whose former files it removes. After an error these are still there.
func (m maker) makeAll(ctx context.Context, folder string) error {
	if err := os.MkdirAll(filepath.Dir(folder), 0o755); err != nil {
		return err
	}
	work, err := os.MkdirTemp(filepath.Dir(folder), ".release-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	if work, err = filepath.Abs(work); err != nil {
		return err
	}
	files := filepath.Join(work, "files")
	if err := os.Mkdir(files, 0o755); err != nil {
		return err
	}
	if err := m.fill(ctx, files, work); err != nil {
		return err
	}
	if err := os.RemoveAll(folder); err != nil {
		return err
	}
	if err := os.Rename(files, folder); err != nil {
		return err
	}
	fmt.Fprintf(m.stdout, "release %s of commit %s is in %s\n", m.version, m.source.id, folder)
	return nil
}

// build has the programs for one platform.
type build struct {
	platform
	files []entry
}

// fill puts the files into an empty folder. work is for what is needed on the way.
func (m maker) fill(ctx context.Context, folder, work string) error {
	packages, err := m.debianPackages(ctx)
	if err != nil {
		return err
	}
	debian, err := newDebianPartsOf(packages)
	if err != nil {
		return err
	}
	builds, err := m.compile(ctx, work)
	if err != nil {
		return err
	}
	licenses, err := m.licenses(ctx, builds)
	if err != nil {
		return err
	}
	documents, err := m.documents(licenses)
	if err != nil {
		return err
	}
	bill, err := m.bill(builds)
	if err != nil {
		return err
	}
	for _, b := range builds {
		if err := m.pack(folder, b, documents, licenses); err != nil {
			return err
		}
	}
	if err := m.krew(folder); err != nil {
		return err
	}
	if err := m.chart(folder); err != nil {
		return err
	}
	if err := m.images(folder, work, imageParts{builds, documents, debian}, bill); err != nil {
		return err
	}
	for _, b := range builds {
		if b.system != "linux" {
			continue
		}
		if err := m.ovnArchive(folder, b.platform, debian[b.architecture].ovn, bill); err != nil {
			return err
		}
	}
	if err := create(folder, fmt.Sprintf("weft-%s.cdx.json", m.version), func(w io.Writer) error {
		return bill.write(w, m.source)
	}); err != nil {
		return err
	}
	if err := m.collection(ctx, folder, work, licenses); err != nil {
		return err
	}
	return m.seal(ctx, folder)
}

// compile leaves the programs in folders of work, one for each architecture: a collection has the programs for Linux
// and for Windows in one folder.
func (m maker) compile(ctx context.Context, work string) ([]build, error) {
	compiler := compiler{m.source, m.ldflags}
	var builds []build
	for _, p := range platforms {
		fmt.Fprintf(m.stdout, "compiling for %s\n", p)
		files, err := compiler.compile(ctx, p, filepath.Join(work, p.architecture))
		if err != nil {
			return nil, err
		}
		builds = append(builds, build{p, files})
	}
	return builds, nil
}

func (m maker) licenses(ctx context.Context, builds []build) (entry, error) {
	var modules []module
	for _, b := range builds {
		for _, program := range b.files {
			linked, err := modulesOf(program)
			if err != nil {
				return entry{}, err
			}
			modules = append(modules, linked...)
		}
	}
	folders, err := moduleFolders(ctx, m.source.folder)
	if err != nil {
		return entry{}, err
	}
	content, err := thirdPartyLicenses(modules, folders)
	return entry{licensesFile, forAll, content}, err
}

// bill has the programs.
func (m maker) bill(builds []build) (*bill, error) {
	bill := newBill(m.version.String())
	for _, b := range builds {
		for _, program := range b.files {
			if err := bill.add(b.platform, program); err != nil {
				return nil, err
			}
		}
	}
	return bill, nil
}

// folderOf is the only folder in a platform's archive.
func folderOf(version semver.Version, p platform) string {
	return fmt.Sprintf("weft-%s-%s", version, p)
}

func archiveOf(version semver.Version, p platform) string {
	if p.system == "windows" {
		return folderOf(version, p) + ".zip"
	}
	return folderOf(version, p) + ".tar.gz"
}

// pack writes a platform's archive and, for Linux, its Debian package.
func (m maker) pack(folder string, b build, documents []entry, licenses entry) error {
	name := archiveOf(m.version, b.platform)
	entries := below(folderOf(m.version, b.platform), slices.Concat(documents, b.files))
	if b.system == "windows" {
		return create(folder, name, func(w io.Writer) error { return writeZip(w, entries, m.source.time) })
	}
	err := create(folder, name, func(w io.Writer) error { return writeTarGz(w, entries, m.source.time) })
	if err != nil {
		return err
	}
	deb := debianPackage{debianVersion(m.version), b.architecture, b.files, licenses, m.source.time}
	return create(folder, fmt.Sprintf("weft_%s_%s.deb", m.version, b.architecture), deb.write)
}

// documents are those that archives and images have: the repository's, and the licences of modules.
func (m maker) documents(licenses entry) ([]entry, error) {
	entries := []entry{licenses}
	for _, name := range []string{"CHANGELOG.md", "LICENSE"} {
		e, err := readEntry(filepath.Join(m.source.folder, name), name, forAll)
		if err != nil {
			return nil, err
		}
		entries = append(entries, e)
	}
	return entries, nil
}

// collection has ansible-galaxy build the collection of the playbooks, with the programs for amd64.
func (m maker) collection(ctx context.Context, folder, work string, licenses entry) error {
	programs := filepath.Join(work, "amd64")
	if err := os.WriteFile(filepath.Join(programs, licenses.name), licenses.content, 0o644); err != nil {
		return err
	}
	_, err := command(ctx, m.source.folder, m.source.environment(), "ansible/collection.sh", programs, work,
		m.version.String())
	if err != nil {
		return fmt.Errorf("build the collection: %w", err)
	}
	name := fmt.Sprintf("weftnet-weft-%s.tar.gz", m.version)
	built, err := os.ReadFile(filepath.Join(work, name))
	if err != nil {
		return err
	}
	return create(folder, name, func(w io.Writer) error {
		return rewriteCollection(w, bytes.NewReader(built), m.source.time)
	})
}

// seal writes the checksums of all files, and their signature.
func (m maker) seal(ctx context.Context, folder string) error {
	if err := writeChecksums(folder); err != nil {
		return err
	}
	if m.signKey == "" {
		fmt.Fprintln(m.stdout, "not signed: no SIGN_KEY names an OpenSSH key")
		return nil
	}
	return sign(ctx, folder, m.signKey)
}

// create writes a file of the folder.
func create(folder, name string, write func(io.Writer) error) error {
	var content bytes.Buffer
	if err := write(&content); err != nil {
		return fmt.Errorf("make %s: %w", name, err)
	}
	return os.WriteFile(filepath.Join(folder, name), content.Bytes(), 0o644)
}
