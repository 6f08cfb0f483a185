package main

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"
)

// Files of a collection's archive (https://docs.ansible.com/ansible/latest/dev_guide/collections_galaxy_meta.html).
const (
	collectionManifest = "MANIFEST.json"
	collectionFiles    = "FILES.json"
)

// rewriteCollection writes the archive of a collection in which ansible-galaxy has left the present time, and the order
// in which the file system lists files. The manifest has the checksum of the list of files, which gets another order.
func rewriteCollection(w io.Writer, r io.Reader, at time.Time) error {
	entries, err := readTarGz(r)
	if err != nil {
		return err
	}
	list, manifest := find(entries, collectionFiles), find(entries, collectionManifest)
	if list == nil || manifest == nil {
		return fmt.Errorf("the collection's archive has no %s, or no %s", collectionFiles, collectionManifest)
	}
	if list.content, err = sortFiles(list.content); err != nil {
		return fmt.Errorf("sort %s: %w", collectionFiles, err)
	}
	if manifest.content, err = setChecksum(manifest.content, list.content); err != nil {
		return fmt.Errorf("change %s: %w", collectionManifest, err)
	}
	return writeTarGz(w, entries, at)
}

func find(entries []entry, name string) *entry {
	i := slices.IndexFunc(entries, func(e entry) bool { return e.name == name })
	if i < 0 {
		return nil
	}
	return &entries[i]
}

func sortFiles(content []byte) ([]byte, error) {
	var list struct {
		Files  []map[string]any `json:"files"`
		Format int              `json:"format"`
	}
	if err := json.Unmarshal(content, &list); err != nil {
		return nil, err
	}
	slices.SortFunc(list.Files, func(a, b map[string]any) int {
		return cmp.Compare(fmt.Sprint(a["name"]), fmt.Sprint(b["name"]))
	})
	return encode(list)
}

func setChecksum(manifest, files []byte) ([]byte, error) {
	var m map[string]any
	if err := json.Unmarshal(manifest, &m); err != nil {
		return nil, err
	}
	list, ok := m["file_manifest_file"].(map[string]any)
	if !ok {
		return nil, errors.New("it has no file_manifest_file")
	}
	sum := sha256.Sum256(files)
	list["chksum_sha256"] = hex.EncodeToString(sum[:])
	return encode(m)
}

func encode(value any) ([]byte, error) {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", " ")
	err := encoder.Encode(value)
	return out.Bytes(), err
}
