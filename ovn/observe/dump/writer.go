package dump

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"

	api "github.com/weftnet/weft/models/api/observe/v1alpha1"
)

// MaxSize bounds a dump, in bytes.
const MaxSize = 256 << 20

// errFull says that a dump has its size.
var errFull = errors.New("the dump has its size")

// Writer writes the records of a dump. Several goroutines may use it.
type Writer struct {
	mu   sync.Mutex
	to   io.Writer
	left int
}

// NewWriter writes size bytes at most, and a last record of an error.
func NewWriter(to io.Writer, size int) *Writer { return &Writer{to: to, left: size} }

// Write writes a record, unless there is no room for it.
func (w *Writer) Write(record api.DumpRecord) error {
	line, err := json.Marshal(record)
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.left -= len(line) + 1; w.left < 0 {
		return errFull
	}
	_, err = w.to.Write(append(line, '\n'))
	return err
}

// End writes why a dump ends early, if it does.
func (w *Writer) End(err error) {
	if err == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	line, _ := json.Marshal(api.DumpRecord{Error: fmt.Sprintf("the dump ends here: %v", err)}) // it is a text
	_, _ = w.to.Write(append(line, '\n'))                                                      // who asked may be gone
}
