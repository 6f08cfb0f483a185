// Package image makes the lab's container images without a registry: a docker archive written by
// hand, and a containerd root in which its images are unpacked already.
package image

import (
	"archive/tar"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"
)

// Image is a container image: tar files as layers, the lowest first, and how its container starts.
type Image struct {
	Names      []string
	Layers     []string
	Entrypoint []string
	Cmd        []string
}

// File of a layer that [WriteLayer] makes.
type File struct {
	// Name in the image, without a leading slash.
	Name string
	// Source on the host.
	Source string
	Mode   int64
}

// WriteLayer makes a layer of some files. The same files give the same bytes.
func WriteLayer(out io.Writer, files []File) error {
	archive := tar.NewWriter(out)
	for _, f := range files {
		source, err := os.Open(f.Source)
		if err != nil {
			return err
		}
		info, err := source.Stat()
		if err == nil {
			err = archive.WriteHeader(&tar.Header{Name: f.Name, Mode: f.Mode, Size: info.Size(), ModTime: time.Unix(0, 0)})
		}
		if err == nil {
			_, err = io.Copy(archive, source)
		}
		source.Close()
		if err != nil {
			return fmt.Errorf("layer with %s: %w", f.Source, err)
		}
	}
	return archive.Close()
}

type imageConfig struct {
	Architecture string          `json:"architecture"`
	OS           string          `json:"os"`
	Created      time.Time       `json:"created"`
	Config       containerConfig `json:"config"`
	RootFS       rootFS          `json:"rootfs"`
}

type containerConfig struct {
	Entrypoint []string `json:",omitempty"`
	Cmd        []string `json:",omitempty"`
	Env        []string
	WorkingDir string
}

type rootFS struct {
	Type    string   `json:"type"`
	DiffIDs []string `json:"diff_ids"`
}

type manifest struct {
	Config   string
	RepoTags []string
	Layers   []string
}

// WriteArchive writes images as `docker save` does; a layer that several of them have is in it once.
func WriteArchive(out io.Writer, architecture string, images []Image) error {
	archive := tar.NewWriter(out)
	digests := map[string]string{} // by layer's path
	var manifests []manifest
	for _, image := range images {
		m := manifest{RepoTags: image.Names}
		config := imageConfig{Architecture: architecture, OS: "linux", Created: time.Unix(0, 0).UTC(),
			RootFS: rootFS{Type: "layers"},
			Config: containerConfig{Entrypoint: image.Entrypoint, Cmd: image.Cmd, WorkingDir: "/",
				Env: []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}}}
		for _, layer := range image.Layers {
			if digests[layer] == "" {
				digest, err := digestOf(layer)
				if err != nil {
					return err
				}
				if err := addLayer(archive, layer, digest); err != nil {
					return err
				}
				digests[layer] = digest
			}
			config.RootFS.DiffIDs = append(config.RootFS.DiffIDs, "sha256:"+digests[layer])
			m.Layers = append(m.Layers, layerName(digests[layer]))
		}
		text, err := json.Marshal(config)
		if err != nil {
			return err
		}
		sum := sha256.Sum256(text)
		m.Config = hex.EncodeToString(sum[:]) + ".json"
		if !slices.ContainsFunc(manifests, func(other manifest) bool { return other.Config == m.Config }) {
			if err := addBytes(archive, m.Config, text); err != nil {
				return err
			}
		}
		manifests = append(manifests, m)
	}
	text, err := json.Marshal(manifests)
	if err != nil {
		return err
	}
	if err := addBytes(archive, "manifest.json", text); err != nil {
		return err
	}
	return archive.Close()
}

func layerName(digest string) string { return digest + "/layer.tar" }

func digestOf(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer file.Close()
	hash := sha256.New()
	if _, err := io.Copy(hash, file); err != nil {
		return "", fmt.Errorf("read layer %s: %w", path, err)
	}
	return hex.EncodeToString(hash.Sum(nil)), nil
}

func addLayer(archive *tar.Writer, path, digest string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	if err := archive.WriteHeader(&tar.Header{Name: layerName(digest), Mode: 0o644, Size: info.Size()}); err != nil {
		return err
	}
	if _, err := io.Copy(archive, file); err != nil {
		return fmt.Errorf("copy layer %s: %w", path, err)
	}
	return nil
}

func addBytes(archive *tar.Writer, name string, content []byte) error {
	if err := archive.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(content))}); err != nil {
		return err
	}
	_, err := io.Copy(archive, strings.NewReader(string(content)))
	return err
}
