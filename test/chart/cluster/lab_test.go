//go:build cluster

package cluster

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/weftnet/weft/test/lab/labtest"
)

var (
	release = flag.String("release", "", "the folder of the release whose chart and images are tried")
	keep    = flag.Bool("keep", false, "leave the cluster up, to look at")
)

// cluster has Linux nodes for two controllers and two doors, and a Windows node, whose pods they serve, too.
var cluster = labtest.Lab{Name: "weft-chart"}

// linuxNodes are those on which pods of the chart run.
var linuxNodes = []string{"l1", "l2"}

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	flag.Parse()
	if *release == "" {
		fmt.Fprintln(os.Stderr, "-release names no folder of a release; `make chart-test` makes one, and names it")
		return 2
	}
	if !*keep {
		defer cluster.Down()
	}
	if err := cluster.Up("--linux", "2", "--windows", "1", "--mtu", "1500"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return cluster.Run(m)
}

// file is the one of the release whose name has that form.
func file(t testing.TB, pattern string) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(*release, pattern))
	if err == nil && len(found) != 1 {
		err = fmt.Errorf("there is not one file %s in %s: %v", pattern, *release, found)
	}
	if err != nil {
		t.Fatal(err)
	}
	path, err := filepath.Abs(found[0])
	if err != nil {
		t.Fatal(err)
	}
	return path
}
