// Package statefile replaces files that the agent reads again when it or the node starts anew.
package statefile

import (
	"errors"
	"os"
	"path/filepath"
)

// Mode is that of the files.
const Mode = 0o600

// Replace writes a file as a whole and has it on the disk before it takes the old one's place: the next thing to happen
// may be that the node loses its power. It makes the file's folder, the agent's user's alone.
func Replace(path string, content []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	if err := writeSynced(path+".new", content); err != nil {
		return err
	}
	return rename(path+".new", path)
}

func writeSynced(path string, content []byte) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, Mode)
	if err != nil {
		return err
	}
	_, err = file.Write(content)
	return errors.Join(err, file.Sync(), file.Close())
}
