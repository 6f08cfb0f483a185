package main

import (
	"bytes"
	"debug/buildinfo"
	"fmt"
	"strings"
)

// module is a Go module of one version. Go's own library is the module std.
type module struct{ path, version string }

const standardLibrary = "std"

func (m module) String() string { return m.path + "@" + m.version }

// modulesOf are those that a program is linked from, as the linker has noted them in it.
func modulesOf(program entry) ([]module, error) {
	info, err := buildinfo.Read(bytes.NewReader(program.content))
	if err != nil {
		return nil, fmt.Errorf("read the modules of %s: %w", program.name, err)
	}
	modules := []module{{standardLibrary, strings.TrimPrefix(info.GoVersion, "go")}}
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		modules = append(modules, module{m.Path, m.Version})
	}
	return modules, nil
}
