package unixctl

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// Sockets are those at which a daemon may answer that has its files in one of the folders, the newest first. The
// sockets of processes that have died are among them, since a name has the process's number.
func Sockets(folders []string, daemon string) []string {
	type found struct {
		path string
		made time.Time
	}
	var sockets []found
	for _, folder := range folders {
		paths, err := filepath.Glob(filepath.Join(folder, daemon+"*.ctl"))
		if err != nil {
			continue // a folder with a name like a pattern
		}
		for _, path := range paths {
			if info, err := os.Stat(path); err == nil {
				sockets = append(sockets, found{path, info.ModTime()})
			}
		}
	}
	slices.SortFunc(sockets, func(a, b found) int { return cmp.Or(b.made.Compare(a.made), cmp.Compare(a.path, b.path)) })
	var paths []string
	for _, s := range sockets {
		paths = append(paths, s.path)
	}
	return paths
}
