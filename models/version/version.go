// Package version says which Weft a program is, and which OVN and Open vSwitch it is made for.
package version

import (
	"encoding/json"
	"fmt"
	"io"
	"runtime"
	"text/tabwriter"
)

// OVN and OpenVSwitch are the versions whose schemas the models are generated from. docs/versions.md lists the others
// with which Weft works. OpenVSwitchOnWindows is the first whose Windows driver is not refused.
const (
	OVN                  = "25.03"
	OpenVSwitch          = "3.5"
	OpenVSwitchOnWindows = "3.6"
)

// The linker sets both: -X github.com/weftnet/weft/models/version.version=….
var (
	version = "unknown"
	commit  = "unknown"
)

// Version is a semantic version for a release, and for other programs the commit's short name.
func Version() string { return version }

// Schema is the schema of `weft version -o json`: the versions of a program, of the software that it is made for,
// and, if there is a kubeconfig, of the parts in the cluster (field cluster).
const Schema = "weft.net/version/v1"

// Info is all that a program tells of itself.
type Info struct {
	Schema      string `json:"schema"` // always [Schema]
	Version     string `json:"version"`
	Commit      string `json:"commit"`
	Go          string `json:"go"`
	Platform    string `json:"platform"` // OS/ARCHITECTURE, in Go's words
	OVN         string `json:"ovn"`
	OpenVSwitch string `json:"openVSwitch"`
}

// Current describes the running program.
func Current() Info { return infoFor(runtime.GOOS, runtime.GOARCH) }

func infoFor(system, architecture string) Info {
	i := Info{Schema: Schema, Version: version, Commit: commit, Go: runtime.Version(),
		Platform: system + "/" + architecture, OVN: OVN, OpenVSwitch: OpenVSwitch}
	if system == "windows" {
		i.OpenVSwitch = OpenVSwitchOnWindows
	}
	return i
}

// Write prints the description in a format, "text" or "json".
func (i Info) Write(w io.Writer, format string) error {
	switch format {
	case "text":
		return i.writeText(w)
	case "json":
		encoder := json.NewEncoder(w)
		encoder.SetIndent("", "  ")
		return encoder.Encode(i)
	}
	return fmt.Errorf("output: %q is neither \"text\" nor \"json\"", format)
}

func (i Info) writeText(w io.Writer) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(table, "Weft\t%s\n", i.Version)
	fmt.Fprintf(table, "commit\t%s\n", i.Commit)
	fmt.Fprintf(table, "Go\t%s\n", i.Go)
	fmt.Fprintf(table, "platform\t%s\n", i.Platform)
	fmt.Fprintf(table, "made for OVN\t%s\n", i.OVN)
	fmt.Fprintf(table, "made for Open vSwitch\t%s\n", i.OpenVSwitch)
	return table.Flush()
}
