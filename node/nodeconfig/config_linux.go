package nodeconfig

import (
	"fmt"
	"path/filepath"
)

// DefaultOVNRunDir is where OVN's programs have their control sockets.
const DefaultOVNRunDir = "/var/run/ovn"

// Default has a value for every key that has one.
func Default() Config { return LinuxDefault() }

// validSocket checks the path of a unix socket.
func validSocket(path string) error {
	if !filepath.IsAbs(path) {
		return fmt.Errorf("%q is not an absolute path", path)
	}
	if len(path) > 107 {
		return fmt.Errorf("%q is longer than the 107 bytes of a unix socket's address", path)
	}
	return nil
}
