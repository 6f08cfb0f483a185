// Package imports holds which of our packages may import which.
package imports

import (
	"fmt"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// PointOneWay fails the test for each import that is not allowed. root is the import path of the package that is
// tested, in whose folder the others are. allowed has for each of these, by its folder, the folders of those that it
// may import, with spaces between them. None of them may import root. What is not below root, and what test files
// import, is of no matter.
func PointOneWay(t *testing.T, root string, allowed map[string]string) {
	t.Helper()
	found, err := wrong(".", root, allowed)
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range found {
		t.Error(line)
	}
}

// wrong are the imports that are not allowed, in the order of their files.
func wrong(folder, root string, allowed map[string]string) (found []string, err error) {
	for name, others := range allowed {
		files, err := filepath.Glob(filepath.Join(folder, name, "*.go"))
		if err != nil || len(files) == 0 {
			return nil, fmt.Errorf("%s has no files: %v", name, err)
		}
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			paths, err := importsOf(file)
			if err != nil {
				return nil, err
			}
			for _, path := range paths {
				other, below := strings.CutPrefix(path, root+"/")
				if below && !slices.Contains(strings.Fields(others), other) || path == root {
					found = append(found, file+" imports "+path)
				}
			}
		}
	}
	slices.Sort(found)
	return found, nil
}

func importsOf(file string) (paths []string, err error) {
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
	if err != nil {
		return nil, err
	}
	for _, spec := range parsed.Imports {
		path, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return nil, err
		}
		paths = append(paths, path)
	}
	return paths, nil
}
