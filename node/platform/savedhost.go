package platform

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/weftnet/weft/node/statefile"
)

// SavedHost is a file with what the host had on its uplink.
type SavedHost[T any] struct{ Path string }

// Read returns nil where nothing was written yet.
func (s SavedHost[T]) Read() (*T, error) {
	content, err := os.ReadFile(s.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the host's saved networking: %w", err)
	}
	settings := new(T)
	if err := json.Unmarshal(content, settings); err != nil {
		return nil, fmt.Errorf("read the host's saved networking from %s: %w; remove the file if the host has its "+
			"addresses", s.Path, err)
	}
	return settings, nil
}

// Write replaces the file as a whole.
func (s SavedHost[T]) Write(settings T) error {
	content, err := json.MarshalIndent(settings, "", "  ")
	if err == nil {
		err = statefile.Replace(s.Path, content)
	}
	if err != nil {
		return fmt.Errorf("save the host's networking: %w", err)
	}
	return nil
}

// Remove: there is no such file.
func (s SavedHost[T]) Remove() error {
	if err := os.Remove(s.Path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove the host's saved networking: %w", err)
	}
	return nil
}
