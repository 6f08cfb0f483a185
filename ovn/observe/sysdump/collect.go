package sysdump

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"k8s.io/client-go/rest"

	api "github.com/weftnet/weft/models/api/observe/v1alpha1"
)

// partTime bounds one part. The API server gives an answer a minute, and a door ends a dump before that.
const partTime = 70 * time.Second

// Collector collects by a user's rights.
type Collector struct {
	// Kubernetes is any client of the API server: paths are given whole.
	Kubernetes rest.Interface
	// Version is that of the program that collects.
	Version string
	// Folder is the name of the archive's only folder.
	Folder string
	// Progress is told of each file, and of each that is missing.
	Progress func(Entry)
}

// part is what becomes one file of the archive, or several.
type part interface {
	collect(ctx context.Context, r *run) error
}

// run is one collection.
type run struct {
	*Collector
	archive *archive
	index   Index
}

// Collect writes an archive. Parts that fail are in the index. An error means that there is no archive.
func (c *Collector) Collect(ctx context.Context, to io.Writer) (Index, error) {
	began := time.Now().UTC()
	r := &run{Collector: c, archive: newArchive(to, c.Folder, began), index: Index{Version: c.Version, Began: began}}
	for _, p := range parts() {
		if err := p.collect(ctx, r); err != nil {
			return r.index, err
		}
	}
	return r.index, r.archive.end(r.index)
}

// Incomplete says whether something is missing.
func (i Index) Incomplete() bool {
	for _, e := range i.Entries {
		if e.Error != "" {
			return true
		}
	}
	return false
}

// parts are in the order of their use to support: what comes first is there even if the time is over later.
func parts() (all []part) {
	all = append(all,
		answer{"status.json", api.NetworkStatusResource}, answer{"version.json", api.NetworkVersionResource},
		answer{"topology.json", api.NetworkTopologyResource})
	for _, o := range objects {
		all = append(all, o)
	}
	return append(all,
		logs{}, metrics{}, database{"ovn/northbound.jsonl", api.NorthboundDump},
		database{"ovn/southbound.jsonl", api.SouthboundDump})
}

// file adds a file to the archive, and to the index what became of it.
func (r *run) file(ctx context.Context, name string, write func(context.Context, io.Writer) error) error {
	entry, err := r.archive.add(name, func(w io.Writer) error {
		ctx, cancel := context.WithTimeout(ctx, partTime)
		defer cancel()
		return write(ctx, w)
	})
	if err == nil {
		r.note(entry)
	}
	return err
}

// missing notes why files are not there.
func (r *run) missing(name string, err error) { r.note(Entry{File: name, Error: err.Error()}) }

func (r *run) note(entry Entry) {
	if entry.Error == "" && entry.Bytes == 0 {
		return // there is nothing of it in the cluster
	}
	r.index.Entries = append(r.index.Entries, entry)
	r.Progress(entry)
}

// get opens what the API server answers at a path.
func (r *run) get(ctx context.Context, path string, query map[string]string) (io.ReadCloser, error) {
	request := r.Kubernetes.Get().AbsPath(path).SetHeader("Accept", "application/json, */*")
	for key, value := range query {
		if value != "" {
			request.Param(key, value)
		}
	}
	stream, err := request.Stream(ctx)
	if err != nil {
		return nil, fmt.Errorf("get %s: %w", path, errors.Join(err, ctx.Err()))
	}
	return stream, nil
}

const doorPath = "/apis/" + api.GroupVersion + "/"
