package node

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/weftnet/weft/node/statefile"
)

// savedHost is a file with what the host had on its uplink.
type savedHost[T any] struct{ path string }

// read returns nil where nothing was written yet.
func (s savedHost[T]) read() (*T, error) {
	content, err := os.ReadFile(s.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the host's saved networking: %w", err)
	}
	settings := new(T)
	if err := json.Unmarshal(content, settings); err != nil {
		return nil, fmt.Errorf("read the host's saved networking from %s: %w; remove the file if the host has its addresses", s.path, err)
	}
	return settings, nil
}

// write replaces the file as a whole.
func (s savedHost[T]) write(settings T) error {
	content, err := json.MarshalIndent(settings, "", "  ")
	if err == nil {
		err = statefile.Replace(s.path, content)
	}
	if err != nil {
		return fmt.Errorf("save the host's networking: %w", err)
	}
	return nil
}

// remove: there is no such file.
func (s savedHost[T]) remove() error {
	if err := os.Remove(s.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove the host's saved networking: %w", err)
	}
	return nil
}
