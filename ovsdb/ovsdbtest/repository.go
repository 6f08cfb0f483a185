package ovsdbtest

import (
	"os"
	"path/filepath"
	"strings"
)

// Repository is the folder of this module, above the one that the test runs in. (Source files' names do not lead there:
// -trimpath cuts them.) It panics where there is none.
func Repository() string {
	start, err := os.Getwd()
	if err != nil {
		panic(err)
	}
	for dir := start; ; dir = filepath.Dir(dir) {
		text, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if err == nil && strings.HasPrefix(string(text), "module github.com/weftnet/weft\n") {
			return dir
		}
		if dir == filepath.Dir(dir) {
			panic(start + " is not below a clone of github.com/weftnet/weft, whose bin/ has the programs that tests run")
		}
	}
}
