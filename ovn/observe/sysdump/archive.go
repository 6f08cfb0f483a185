package sysdump

import (
	"archive/tar"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"time"
)

// Bounds of an archive, in bytes before it is compressed.
const (
	maxArchive = 1 << 30
	maxFile    = 300 << 20
)

var errFull = errors.New("it has more bytes than an archive takes, and ends here")

// Entry is a file of the archive, or one that is missing.
type Entry struct {
	// File is its name in the archive.
	File string `json:"file"`
	// Bytes is its size; 0 if it is missing.
	Bytes int64 `json:"bytes"`
	// Error is why it is missing, or not complete.
	Error string `json:"error,omitempty"`
}

// Index is the archive's file index.json, which is its last one.
type Index struct {
	// Version is the version of the program that has collected it.
	Version string `json:"version"`
	// Began is when.
	Began time.Time `json:"began"`
	// Entries is its files, and those that are missing.
	Entries []Entry `json:"entries"`
}

// archive is a .tar.gz that is written file by file.
type archive struct {
	folder string // of all files
	began  time.Time
	tar    *tar.Writer
	gzip   *gzip.Writer
	left   int64
}

func newArchive(to io.Writer, folder string, began time.Time) *archive {
	zipped := gzip.NewWriter(to)
	return &archive{folder: folder, began: began, gzip: zipped, tar: tar.NewWriter(zipped), left: maxArchive}
}

// add has write fill a file. What it has written before an error is kept, and its error is told in the entry. The error
// that add returns is the archive's own, after which there are no more files.
func (a *archive) add(name string, write func(io.Writer) error) (Entry, error) {
	entry := Entry{File: name}
	spool, err := os.CreateTemp("", "weft-sysdump-")
	if err != nil {
		return entry, err
	}
	defer os.Remove(spool.Name())
	defer spool.Close()
	wrong := write(&limited{to: spool, left: min(maxFile, a.left)})
	if wrong != nil {
		entry.Error = wrong.Error()
	}
	if entry.Bytes, err = spool.Seek(0, io.SeekCurrent); err != nil || entry.Bytes == 0 {
		return entry, err
	}
	if _, err := spool.Seek(0, io.SeekStart); err != nil {
		return entry, err
	}
	a.left -= entry.Bytes
	header := &tar.Header{Name: path.Join(a.folder, name), Mode: 0o600, Size: entry.Bytes, ModTime: a.began}
	if err := a.tar.WriteHeader(header); err != nil {
		return entry, fmt.Errorf("write %s: %w", name, err)
	}
	if _, err := io.Copy(a.tar, spool); err != nil {
		return entry, fmt.Errorf("write %s: %w", name, err)
	}
	return entry, nil
}

// end writes the index, for which there is always room.
func (a *archive) end(index Index) error {
	a.left = maxFile
	_, err := a.add("index.json", func(w io.Writer) error {
		encoder := json.NewEncoder(w)
		encoder.SetIndent("", "  ")
		return encoder.Encode(index)
	})
	return errors.Join(err, a.tar.Close(), a.gzip.Close())
}

// limited takes so many bytes and no more.
type limited struct {
	to   io.Writer
	left int64
}

func (l *limited) Write(text []byte) (int, error) {
	if l.left -= int64(len(text)); l.left < 0 {
		return 0, errFull
	}
	return l.to.Write(text)
}
