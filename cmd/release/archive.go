package main

import (
	"archive/tar"
	"archive/zip"
	"cmp"
	"compress/gzip"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"time"
)

// Modes of files in archives: those that a work tree happens to have are of no matter.
const (
	forAll     fs.FileMode = 0o644
	executable fs.FileMode = 0o755
)

// entry is a file of an archive, or a symbolic link (fs.ModeSymlink), whose content is where it leads.
type entry struct {
	name    string // with slashes
	mode    fs.FileMode
	content []byte
}

// readEntry takes a file into an archive under another name.
func readEntry(path, name string, mode fs.FileMode) (entry, error) {
	content, err := os.ReadFile(path)
	return entry{name, mode, content}, err
}

// readFolder reads all files below a folder, with names from there on. It follows links to files.
func readFolder(folder string) ([]entry, error) {
	var entries []entry
	err := filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(folder, path)
		if err != nil {
			return err
		}
		e, err := readEntry(path, filepath.ToSlash(name), forAll)
		entries = append(entries, e)
		return err
	})
	return entries, err
}

// below are the entries in a folder.
func below(folder string, entries []entry) []entry {
	moved := slices.Clone(entries)
	for i := range moved {
		moved[i].name = folder + "/" + moved[i].name
	}
	return moved
}

// withFolders are the entries and their folders, whose names end with a slash. Each folder is before what is in it.
func withFolders(entries []entry) []entry {
	all := slices.Clone(entries)
	known := map[string]bool{}
	for _, e := range entries {
		for i, letter := range e.name {
			folder := e.name[:i] + "/"
			if letter == '/' && !known[folder] {
				known[folder] = true
				all = append(all, entry{name: folder, mode: fs.ModeDir | executable})
			}
		}
	}
	slices.SortFunc(all, func(a, b entry) int { return cmp.Compare(a.name, b.name) })
	return all
}

// writeTarGz writes a compressed tar archive, as writeTar does.
func writeTarGz(w io.Writer, entries []entry, at time.Time) error {
	zipped, err := gzip.NewWriterLevel(w, gzip.BestCompression)
	if err != nil {
		return err
	}
	if err := writeTar(zipped, entries, at); err != nil {
		return err
	}
	return zipped.Close()
}

// writeTar writes a tar archive in which all belongs to root and is of one time.
func writeTar(w io.Writer, entries []entry, at time.Time) error {
	archive := tar.NewWriter(w)
	for _, e := range withFolders(entries) {
		content := e.content
		header := &tar.Header{Name: e.name, Typeflag: tar.TypeReg, Mode: int64(e.mode.Perm()), Uname: "root", Gname: "root",
			ModTime: at, Format: tar.FormatGNU}
		switch e.mode.Type() {
		case fs.ModeDir:
			header.Typeflag = tar.TypeDir
		case fs.ModeSymlink:
			header.Typeflag, header.Linkname, content = tar.TypeSymlink, string(e.content), nil
		}
		header.Size = int64(len(content))
		if err := archive.WriteHeader(header); err != nil {
			return fmt.Errorf("add %s: %w", e.name, err)
		}
		if _, err := archive.Write(content); err != nil {
			return fmt.Errorf("add %s: %w", e.name, err)
		}
	}
	return archive.Close()
}

// readTarGz reads the files of such an archive.
func readTarGz(r io.Reader) ([]entry, error) {
	unzipped, err := gzip.NewReader(r)
	if err != nil {
		return nil, err
	}
	var entries []entry
	err = eachOfTar(unzipped, func(header *tar.Header, content []byte) {
		if header.Typeflag == tar.TypeReg {
			entries = append(entries, entry{header.Name, header.FileInfo().Mode(), content})
		}
	})
	return entries, err
}

// readTar reads the files and the links of a tar archive, by their names without a leading "./".
func readTar(r io.Reader) (files map[string][]byte, links map[string]string, err error) {
	files, links = map[string][]byte{}, map[string]string{}
	err = eachOfTar(r, func(header *tar.Header, content []byte) {
		name := path.Clean(header.Name)
		switch header.Typeflag {
		case tar.TypeReg:
			files[name] = content
		case tar.TypeLink:
			links[name] = "/" + path.Clean(header.Linkname)
		case tar.TypeSymlink:
			links[name] = header.Linkname
		}
	})
	return files, links, err
}

func eachOfTar(r io.Reader, take func(*tar.Header, []byte)) error {
	archive := tar.NewReader(r)
	for {
		header, err := archive.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		content, err := io.ReadAll(archive)
		if err != nil {
			return err
		}
		take(header, content)
	}
}

// writeZip writes a zip archive in which all is of one time.
func writeZip(w io.Writer, entries []entry, at time.Time) error {
	archive := zip.NewWriter(w)
	for _, e := range withFolders(entries) {
		header := &zip.FileHeader{Name: e.name, Method: zip.Deflate, Modified: at}
		header.SetMode(e.mode)
		file, err := archive.CreateHeader(header)
		if err != nil {
			return fmt.Errorf("add %s: %w", e.name, err)
		}
		if _, err := file.Write(e.content); err != nil {
			return fmt.Errorf("add %s: %w", e.name, err)
		}
	}
	return archive.Close()
}
