package nodetest

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"io"
	"testing"
)

// Untar gives the texts of an archive's files by their names. The archive is a tar file, compressed by gzip.
func Untar(t testing.TB, archive io.Reader) map[string]string {
	t.Helper()
	plain, err := gzip.NewReader(archive)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for reader := tar.NewReader(plain); ; {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		var text []byte
		if err == nil {
			text, err = io.ReadAll(reader)
		}
		if err != nil {
			t.Fatal(err)
		}
		files[header.Name] = string(text)
	}
}
