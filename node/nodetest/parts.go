//go:build linux

package nodetest

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"
)

// MainInParts is Main for a package whose tests wait for most of their time. All its tests are run in so many parts
// at once, each in namespaces of its own. A selection of tests, a benchmark and a profile are run in one part.
func MainInParts(m *testing.M, parts int) {
	flag.Parse()
	if os.Getenv(insideMark) != "" || !wholeRun() {
		Main(m)
	}
	names, err := listTests()
	if err != nil {
		fmt.Fprintln(os.Stderr, "nodetest: list the tests:", err)
		os.Exit(2)
	}
	os.Exit(runParts(divide(names, parts)))
}

// wholeRun tells whether nothing is asked for but all tests.
func wholeRun() bool {
	whole := true
	flag.Visit(func(f *flag.Flag) {
		switch f.Name {
		case "test.run", "test.bench", "test.list", "test.fuzz", "test.coverprofile", "test.cpuprofile", "test.memprofile",
			"test.blockprofile", "test.mutexprofile", "test.trace":
			whole = whole && f.Value.String() == ""
		}
	})
	return whole
}

// listTests names the tests, the fuzz tests and the examples of this program.
func listTests() ([]string, error) {
	var stdout, stderr bytes.Buffer
	if code := again(&stdout, &stderr, "-test.list=^(Test|Fuzz|Example)"); code != 0 {
		return nil, fmt.Errorf("exit code %d: %s", code, strings.TrimSpace(stderr.String()))
	}
	return strings.Fields(stdout.String()), nil
}

// divide deals the names out: neighbours in a file, which often take equally long, go to different parts.
func divide(names []string, parts int) [][]string {
	dealt := make([][]string, min(parts, len(names)))
	for i, name := range names {
		dealt[i%len(dealt)] = append(dealt[i%len(dealt)], name)
	}
	return dealt
}

// runParts runs the parts at once, and returns the first exit code that is not 0. The first part's output is seen
// as it comes, that of the others one after the other.
func runParts(parts [][]string) int {
	codes, outputs, inputs := make([]int, len(parts)), make([]bytes.Buffer, len(parts)), inputLogOf(os.Args[1:])
	var running sync.WaitGroup
	for i, names := range parts {
		for j, name := range names {
			names[j] = regexp.QuoteMeta(name)
		}
		arguments := append(inputs.argumentsOf(i), "-test.run=^("+strings.Join(names, "|")+")$")
		running.Go(func() {
			if i == 0 {
				codes[i] = again(os.Stdout, os.Stderr, arguments...)
			} else {
				codes[i] = again(&outputs[i], &outputs[i], arguments...)
			}
		})
	}
	running.Wait()
	failed := 0
	for i, code := range codes {
		os.Stdout.Write(outputs[i].Bytes())
		if failed == 0 {
			failed = code
		}
	}
	if failed > 0 {
		return failed
	}
	if err := inputs.join(len(parts)); err != nil {
		fmt.Fprintln(os.Stderr, "nodetest: join what the parts' tests have looked at:", err)
		return 2
	}
	return 0
}
