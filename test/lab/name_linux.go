package lab

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// namesDir has a file for each name of a lab on this machine. The first process of the lab that runs holds its lock,
// and the file says in which directory that lab is.
const namesDir = "/run/weftlab"

// takeName takes a name for the lab of a directory: cgroups have the name of their lab, so two labs of one name would
// share them.
func takeName(names, name, dir string) (*os.File, error) {
	if err := os.MkdirAll(names, 0o755); err != nil {
		return nil, err
	}
	file, err := os.OpenFile(filepath.Join(names, name), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	err = unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	switch {
	case errors.Is(err, unix.EWOULDBLOCK):
		holder, _ := io.ReadAll(file) // it may be just being written
		err = fmt.Errorf("a lab with the name %q runs already, in %q: give this one another name by --name", name, holder)
	case err == nil:
		err = errors.Join(file.Truncate(0), writeAt(file, dir))
	}
	if err != nil {
		file.Close()
		return nil, err
	}
	return file, nil
}

func writeAt(file *os.File, text string) error {
	_, err := file.WriteAt([]byte(text), 0)
	return err
}

// isNameTaken says whether a lab of a name runs, in whichever directory.
func isNameTaken(names, name string) (bool, error) { return isFileLocked(filepath.Join(names, name)) }
