package main

import (
	"crypto/sha256"
	"fmt"
	"io"
	"net/url"
	"os"
	"path"
	"path/filepath"

	"github.com/blang/semver/v4"
	"sigs.k8s.io/yaml"
)

// krewFile has the name of the plugin, as krew wants it.
const krewFile = "weft.yaml"

// krewManifest says how krew installs weft as a plugin of kubectl:
// https://krew.sigs.k8s.io/docs/developer-guide/plugin-manifest.
type krewManifest struct {
	APIVersion string            `json:"apiVersion"`
	Kind       string            `json:"kind"`
	Metadata   map[string]string `json:"metadata"`
	Spec       krewSpec          `json:"spec"`
}

type krewSpec struct {
	Version          string         `json:"version"`
	Homepage         string         `json:"homepage"`
	ShortDescription string         `json:"shortDescription"`
	Description      string         `json:"description"`
	Platforms        []krewPlatform `json:"platforms"`
}

type krewPlatform struct {
	Selector struct {
		MatchLabels map[string]string `json:"matchLabels"`
	} `json:"selector"`
	URI    string     `json:"uri"`
	SHA256 string     `json:"sha256"`
	Bin    string     `json:"bin"`
	Files  []krewCopy `json:"files"`
}

type krewCopy struct {
	From string `json:"from"`
	To   string `json:"to"`
}

const (
	home = "https://github.com/weftnet/weft"
	// krewDescription is of what a kubeconfig is enough for.
	krewDescription = `Weft is an OVN network for Kubernetes clusters of Linux and Windows nodes.
This plugin asks such a cluster: its status, the way of a packet, the rules
that allow or refuse a connection, who talks to whom, and OVN itself.
`
)

// krew writes the manifest for the archives of the folder.
func (m maker) krew(folder string) error {
	manifest := krewManifest{"krew.googlecontainertools.github.com/v1alpha2", "Plugin", map[string]string{"name": "weft"},
		krewSpec{"v" + m.version.String(), home, "Ask an OVN network of Linux and Windows nodes", krewDescription, nil}}
	for _, p := range platforms {
		archive := archiveOf(m.version, p)
		content, err := os.ReadFile(filepath.Join(folder, archive))
		if err != nil {
			return err
		}
		program := p.programs()[0]
		one := krewPlatform{URI: m.url.JoinPath(archive).String(), SHA256: fmt.Sprintf("%x", sha256.Sum256(content)),
			Bin: program}
		one.Selector.MatchLabels = map[string]string{"os": p.system, "arch": p.architecture}
		for _, name := range []string{program, "LICENSE", licensesFile} {
			one.Files = append(one.Files, krewCopy{path.Join(folderOf(m.version, p), name), "."})
		}
		manifest.Spec.Platforms = append(manifest.Spec.Platforms, one)
	}
	text, err := yaml.Marshal(manifest)
	if err != nil {
		return err
	}
	return create(folder, krewFile, func(w io.Writer) error {
		_, err := w.Write(text)
		return err
	})
}

// parseDownloads reads the URL of the folder from which the release's files will be downloaded; empty: that of the
// repository's releases.
func parseDownloads(text string, version semver.Version) (*url.URL, error) {
	if text == "" {
		text = home + "/releases/download/v" + version.String()
	}
	downloads, err := url.Parse(text)
	if err != nil || downloads.Scheme != "https" || downloads.Host == "" || downloads.RawQuery != "" ||
		downloads.Fragment != "" {
		return nil, fmt.Errorf("RELEASE_URL %q is no https URL of a folder; name one, as in "+
			"RELEASE_URL=https://downloads.example.com/weft/1.2.0", text)
	}
	return downloads, nil
}
