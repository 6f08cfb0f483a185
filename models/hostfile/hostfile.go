// Package hostfile has the type of the files that Weft's programs write on hosts. Each is a variable beside the code
// that writes it with this mode, and docs/reference lists them all.
package hostfile

import (
	"io/fs"
	"path"
	"path/filepath"
)

// File is a file, or a unix socket.
type File struct {
	// Path begins with the key that has the folder or the path, in braces. DEVICE and NODE stand for names.
	Path string
	Mode fs.FileMode
	// Content says what is in it.
	Content string
	// Loss says what happens if it is lost while its writer does not run.
	Loss string
}

// In is the path of the file in a folder, of a file whose path ends with its own name.
func (f *File) In(folder string) string { return filepath.Join(folder, path.Base(f.Path)) }
