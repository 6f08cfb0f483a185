package ovn

import (
	"crypto/sha256"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/weftnet/weft/ovsdb"
)

var livesDir = flag.String("lives-dir", "", "directory that gets what each random life comes to, to compare two "+
	"versions of the translation")

// livesFile has the hash of what each of the first random lives comes to.
const livesFile = "testdata/lives.golden"

var livesMutex sync.Mutex // over livesFile

// sameAsEver compares what a random life comes to, its Northbound and what it told, with livesFile. So a translation
// that is written in another way is shown to do the same. Where other rows are meant, -update writes the file anew.
func (l *life) sameAsEver() {
	l.t.Helper()
	var told []string
	for _, p := range l.w.problems {
		told = append(told, p.String()+"\n")
	}
	slices.Sort(told)
	text := ovsdb.Dump(l.engine.Client()) + strings.Join(told, "")
	if *livesDir != "" {
		if err := os.WriteFile(filepath.Join(*livesDir, strings.ReplaceAll(l.t.Name(), "/", "-")), []byte(text),
			0o644); err != nil {
			l.t.Fatal(err)
		}
	}
	hash := fmt.Sprintf("%x", sha256.Sum256([]byte(text)))
	livesMutex.Lock()
	defer livesMutex.Unlock()
	hashes := readLives(l.t)
	if *update {
		hashes[l.t.Name()] = hash
		var lines []string
		for _, name := range slices.Sorted(maps.Keys(hashes)) {
			lines = append(lines, name+" "+hashes[name]+"\n")
		}
		if err := os.WriteFile(livesFile, []byte(strings.Join(lines, "")), 0o644); err != nil {
			l.t.Fatal(err)
		}
		return
	}
	if want, known := hashes[l.t.Name()]; known && want != hash {
		l.t.Errorf("the life comes to other rows, or tells something else, than %s has: write both versions' texts with "+
			"-lives-dir, and compare them", livesFile)
	}
}

// readLives reads livesFile: hashes by the names of tests.
func readLives(t *testing.T) map[string]string {
	hashes := map[string]string{}
	content, err := os.ReadFile(livesFile)
	if err != nil && !(*update && os.IsNotExist(err)) {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(content)) {
		name, hash, _ := strings.Cut(strings.TrimSpace(line), " ")
		hashes[name] = hash
	}
	return hashes
}
