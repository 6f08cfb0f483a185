package image

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// contents of a tar archive by name.
func contents(t *testing.T, archive []byte) map[string][]byte {
	t.Helper()
	found := map[string][]byte{}
	reader := tar.NewReader(bytes.NewReader(archive))
	for {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return found
		}
		if err != nil {
			t.Fatal(err)
		}
		if _, twice := found[header.Name]; twice {
			t.Errorf("%s is in the archive twice", header.Name)
		}
		if found[header.Name], err = io.ReadAll(reader); err != nil {
			t.Fatal(err)
		}
	}
}

func layer(t *testing.T, name, content string) string {
	t.Helper()
	dir := t.TempDir()
	source := filepath.Join(dir, "source")
	if err := os.WriteFile(source, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "layer.tar")
	if err := writeLayerFile(path, []File{{Name: name, Source: source, Mode: 0o755}}); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestArchiveHoldsWhatItsManifestNames(t *testing.T) {
	common, own := layer(t, "bin/sh", "shell"), layer(t, "agnhost", "program")
	images := []Image{
		{Names: []string{"one:1", "one:2"}, Layers: []string{common, own}, Entrypoint: []string{"/agnhost"},
			Cmd: []string{"pause"}},
		{Names: []string{"two:1"}, Layers: []string{common}},
	}
	var out bytes.Buffer
	if err := WriteArchive(&out, "amd64", images); err != nil {
		t.Fatal(err)
	}
	files := contents(t, out.Bytes())
	var manifests []manifest
	if err := json.Unmarshal(files["manifest.json"], &manifests); err != nil {
		t.Fatal(err)
	}
	if len(manifests) != 2 || len(manifests[0].Layers) != 2 || manifests[0].Layers[0] != manifests[1].Layers[0] {
		t.Fatalf("manifests %+v", manifests)
	}
	for i, m := range manifests {
		if strings.Join(m.RepoTags, " ") != strings.Join(images[i].Names, " ") {
			t.Errorf("image %d is called %v", i, m.RepoTags)
		}
		if sum := sha256.Sum256(files[m.Config]); m.Config != hex.EncodeToString(sum[:])+".json" {
			t.Errorf("%s is not the digest of its content", m.Config)
		}
		var config imageConfig
		if err := json.Unmarshal(files[m.Config], &config); err != nil {
			t.Fatal(err)
		}
		for j, name := range m.Layers {
			sum := sha256.Sum256(files[name])
			if digest := hex.EncodeToString(sum[:]); config.RootFS.DiffIDs[j] != "sha256:"+digest || name != layerName(digest) {
				t.Errorf("layer %d of %v is %s, its content's digest %s", j, m.RepoTags, config.RootFS.DiffIDs[j], digest)
			}
		}
	}
	if inner := contents(t, files[manifests[0].Layers[1]]); string(inner["agnhost"]) != "program" {
		t.Errorf("the layer holds %q", inner)
	}
}

func TestLayersAreReproducible(t *testing.T) {
	one, err := digestOf(layer(t, "a", "same"))
	if err != nil {
		t.Fatal(err)
	}
	two, err := digestOf(layer(t, "a", "same"))
	if err != nil || one != two {
		t.Errorf("%s and %s (%v) are layers of the same files", one, two, err)
	}
}

func TestAMissingLayerIsNamed(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "absent.tar")
	if err := WriteArchive(io.Discard, "amd64", []Image{{Layers: []string{missing}}}); err == nil ||
		!strings.Contains(err.Error(), missing) {
		t.Errorf("the error is %v", err)
	}
}
