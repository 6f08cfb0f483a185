package nodeconfig

import (
	"fmt"
	"strings"

	"golang.org/x/sys/windows"
)

// DefaultOVNRunDir is where a user's own ovn-controller.exe has its control socket.
const DefaultOVNRunDir = `C:\openvswitch\var\run\openvswitch`

// Default has a value for every key that has one.
func Default() Config {
	return WindowsDefault(systemFolder(windows.FOLDERID_ProgramData, ProgramData),
		systemFolder(windows.FOLDERID_ProgramFiles, ProgramFiles))
}

// systemFolder asks Windows, since a service's environment may have other values than a person's.
func systemFolder(id *windows.KNOWNFOLDERID, otherwise string) string {
	if path, err := windows.KnownFolderPath(id, 0); err == nil {
		return path
	}
	return otherwise
}

// validSocket checks the name of a named pipe, see CreateNamedPipeW: `\\.\pipe\NAME`, at most 256
// characters, none of them a backslash in NAME.
func validSocket(path string) error {
	name, isPipe := strings.CutPrefix(strings.ToLower(path), `\\.\pipe\`)
	if !isPipe || name == "" || strings.Contains(name, `\`) || len(path) > 256 {
		return fmt.Errorf(`%q is not the name of a pipe; write it like "\\.\pipe\weft-cni"`, path)
	}
	return nil
}
