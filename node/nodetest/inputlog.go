//go:build linux

package nodetest

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
)

// inputLog is the file in which a test program notes the files and variables that its tests look at. Go remembers that
// the tests have passed until one of these has changed (-test.testlogfile, of go test alone).
type inputLog struct {
	path      string   // "": nobody asks for it
	arguments []string // the program's others
}

const (
	inputLogFlag = "test.testlogfile="
	// inputLogHead is the first line of such a file (cmd/go/internal/test, testlogMagic).
	inputLogHead = "# test log\n"
)

// inputLogOf finds the file among a test program's arguments.
func inputLogOf(arguments []string) (l inputLog) {
	l.arguments = slices.DeleteFunc(slices.Clone(arguments), func(a string) bool {
		path, is := strings.CutPrefix(strings.TrimLeft(a, "-"), inputLogFlag)
		if is {
			l.path = path
		}
		return is
	})
	return l
}

func (l inputLog) ofPart(i int) string { return l.path + "." + strconv.Itoa(i) }

// argumentsOf are the program's for a part, which has a file of its own.
func (l inputLog) argumentsOf(part int) []string {
	arguments := slices.Clone(l.arguments)
	if l.path != "" {
		arguments = append(arguments, "-"+inputLogFlag+l.ofPart(part))
	}
	return arguments
}

// join writes the file from those of the parts, and removes these. Each part has begun in the package's folder.
func (l inputLog) join(parts int) error {
	if l.path == "" {
		return nil
	}
	folder, err := os.Getwd()
	if err != nil {
		return err
	}
	all := []byte(inputLogHead)
	for i := range parts {
		log, err := os.ReadFile(l.ofPart(i))
		if err != nil {
			return err
		}
		lines, whole := bytes.CutPrefix(log, []byte(inputLogHead))
		if !whole {
			return fmt.Errorf("%s: its first line is not %q", l.ofPart(i), inputLogHead)
		}
		all = append(append(all, "chdir "+folder+"\n"...), lines...)
		if err := os.Remove(l.ofPart(i)); err != nil {
			return err
		}
	}
	return os.WriteFile(l.path, all, 0o600)
}
