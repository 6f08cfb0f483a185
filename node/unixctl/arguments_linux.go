package unixctl

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Arguments are those of the command line of the daemon whose control socket it is, without the program. The socket's
// name has the process's number.
func Arguments(socket, daemon string) ([]string, error) {
	process := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(socket), daemon+"."), ".ctl")
	text, err := os.ReadFile(filepath.Join("/proc", process, "cmdline"))
	if err != nil {
		return nil, fmt.Errorf("process of %s: %w", socket, err)
	}
	arguments := strings.Split(strings.TrimRight(string(text), "\x00"), "\x00")
	// behind a loader's, if there is one
	name := slices.IndexFunc(arguments, func(a string) bool { return filepath.Base(a) == daemon })
	if name < 0 {
		return nil, fmt.Errorf("process %s is no %s here: %s runs in another PID namespace", process, daemon, daemon)
	}
	return arguments[name+1:], nil
}
