package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
)

// platform is what programs are compiled for, in Go's words.
type platform struct{ system, architecture string }

var platforms = []platform{{"linux", "amd64"}, {"linux", "arm64"}, {"windows", "amd64"}}

func (p platform) String() string { return p.system + "-" + p.architecture }

// programs are the names of its files.
func (p platform) programs() []string {
	if p.system == "windows" {
		return []string{"weft.exe", "weft-cni.exe"}
	}
	return []string{"weft", "weft-cni"}
}

// compiler is that of all programs of a release.
type compiler struct {
	source  commit
	ldflags string
}

// compile makes the programs for a platform. It overrules the machine's settings that change a program's bytes, except
// for GOFLAGS, which `make release` sets.
func (c compiler) compile(ctx context.Context, p platform, folder string) ([]entry, error) {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return nil, err
	}
	settings := append(c.source.environment(), "CGO_ENABLED=0", "GOOS="+p.system, "GOARCH="+p.architecture, "GOAMD64=v1",
		"GOARM64=v8.0", "GOEXPERIMENT=", "GOFIPS140=off", "GOWORK=off")
	_, err := command(ctx, c.source.folder, settings, "go", "build", "-ldflags", c.ldflags, "-o", folder+"/",
		"./cmd/weft", "./cmd/weft-cni")
	if err != nil {
		return nil, fmt.Errorf("compile for %s: %w", p, err)
	}
	var programs []entry
	for _, name := range p.programs() {
		program, err := readEntry(filepath.Join(folder, name), name, executable)
		if err != nil {
			return nil, err
		}
		programs = append(programs, program)
	}
	return programs, nil
}
