package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const sampleManifest = `{"collection_info": {"version": "1.2.0"}, "file_manifest_file": {"chksum_sha256": "former"}}`

// rewritten is a collection whose list of files has the given order, and which was built at a time.
func rewritten(t *testing.T, files string, built time.Time) []byte {
	t.Helper()
	var in, out bytes.Buffer
	entries := []entry{
		{collectionManifest, forAll, []byte(sampleManifest)},
		{collectionFiles, forAll, []byte(`{"files": [` + files + `], "format": 1}`)},
		{"roles/a/tasks/main.yml", forAll, []byte("[]")},
	}
	if err := writeTarGz(&in, entries, built); err != nil {
		t.Fatal(err)
	}
	if err := rewriteCollection(&out, &in, noon); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func TestCollectionIsTheSameEachTime(t *testing.T) {
	const a, b = `{"name": "roles", "format": 1}`, `{"name": "README.md", "format": 1}`
	first := rewritten(t, a+","+b, noon.Add(time.Hour))
	if !bytes.Equal(first, rewritten(t, b+","+a, noon.Add(2*time.Hour))) {
		t.Error("another time and another order of the files give other bytes")
	}
	entries, err := readTarGz(bytes.NewReader(first))
	if err != nil {
		t.Fatal(err)
	}
	list := find(entries, collectionFiles).content
	sum := sha256.Sum256(list)
	manifest := string(find(entries, collectionManifest).content)
	if !strings.Contains(manifest, hex.EncodeToString(sum[:])) || !strings.Contains(manifest, `"version": "1.2.0"`) {
		t.Errorf("%s of\n%s\nis\n%s", collectionManifest, list, manifest)
	}
	if bytes.Index(list, []byte("README.md")) > bytes.Index(list, []byte("roles")) {
		t.Errorf("not sorted:\n%s", list)
	}
}

func TestArchiveOfNoCollectionIsRefused(t *testing.T) {
	var in bytes.Buffer
	if err := writeTarGz(&in, samples, noon); err != nil {
		t.Fatal(err)
	}
	err := rewriteCollection(&bytes.Buffer{}, &in, noon)
	if err == nil || !strings.Contains(err.Error(), collectionManifest) {
		t.Errorf("the error is %v", err)
	}
}

// TestCollectionHasTheDefinitions: the playbooks apply what is in its folder, and nothing else.
func TestCollectionHasTheDefinitions(t *testing.T) {
	for folder, definitions := range definitions(t) {
		in := filepath.Join("../../ansible/definitions", filepath.Base(folder))
		for _, definition := range definitions {
			if read(t, filepath.Join(in, filepath.Base(definition))) != read(t, definition) {
				t.Errorf("%s does not have %s", in, definition)
			}
		}
		if has, err := os.ReadDir(in); err != nil || len(has) != len(definitions) {
			t.Errorf("%s has %v, and not %v: %v", in, has, definitions, err)
		}
	}
}
