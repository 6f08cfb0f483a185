package listeners

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"slices"

	"github.com/weftnet/weft/node/statefile"
)

// remembered is the content of the file.
type remembered struct {
	// Listeners are written as "tcp 192.0.2.1:53", sorted.
	Listeners []string `json:"listeners"`
}

// Load reads what was remembered. A file that cannot be read is told of, and made anew.
func (d *Daemons) Load() {
	if d.file == "" {
		return
	}
	content, err := os.ReadFile(d.file)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	var list []Socket
	if err == nil {
		list, err = parseRemembered(content)
	}
	if err != nil {
		slog.Warn("the agent does not know any more which ports daemons of the host had before; it makes the file anew, "+
			"and until a daemon listens its port may be a Service's or a pod's",
			"file", d.file, "error", err)
		d.unsaved = true
		return
	}
	for _, at := range list {
		d.known[at] = &daemon{steady: true}
	}
}

func parseRemembered(content []byte) ([]Socket, error) {
	var file remembered
	if err := json.Unmarshal(content, &file); err != nil {
		return nil, err
	}
	if len(file.Listeners) > mostRemembered {
		return nil, fmt.Errorf("%d listeners, and at most %d are written", len(file.Listeners), mostRemembered)
	}
	var list []Socket
	for _, text := range file.Listeners {
		at, err := parseSocket(text)
		if err != nil {
			return nil, err
		}
		list = append(list, at)
	}
	return list, nil
}

// save writes what is to be remembered, where that has changed.
func (d *Daemons) save() {
	if !d.unsaved || d.file == "" {
		return
	}
	file := remembered{Listeners: []string{}}
	for at := range d.steady() {
		file.Listeners = append(file.Listeners, at.String())
	}
	slices.Sort(file.Listeners)
	content, err := json.MarshalIndent(file, "", "  ")
	if err == nil {
		err = statefile.Replace(d.file, content)
	}
	d.report("save", "cannot write where daemons of the host listen; after a boot their ports may be taken before they "+
		"start: make the folder writable for the agent", err)
	d.unsaved = err != nil
}
