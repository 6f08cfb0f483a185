package sysdump

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	api "github.com/weftnet/weft/models/api/observe/v1alpha1"
	"github.com/weftnet/weft/ovn/observe/redact"
)

// answer is a list that a door gives.
type answer struct{ file, resource string }

func (a answer) collect(ctx context.Context, r *run) error {
	return r.file(ctx, a.file, func(ctx context.Context, w io.Writer) error {
		stream, err := r.get(ctx, doorPath+a.resource, nil)
		if err != nil {
			return err
		}
		defer stream.Close()
		var value any
		if err := json.NewDecoder(io.LimitReader(stream, maxFile)).Decode(&value); err != nil {
			return fmt.Errorf("read %s: %w", a.resource, err)
		}
		return json.NewEncoder(w).Encode(redact.Value(value))
	})
}

// records gives each record of a dump with its text.
func (r *run) records(ctx context.Context, dump string, each func(record api.DumpRecord, line []byte) error) error {
	stream, err := r.get(ctx, doorPath+api.NetworkDumpResource+"/"+dump, nil)
	if err != nil {
		return err
	}
	defer stream.Close()
	for decoder := json.NewDecoder(stream); ; {
		var line json.RawMessage
		var record api.DumpRecord
		err := decoder.Decode(&line)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = json.Unmarshal(line, &record)
		}
		if err != nil {
			return fmt.Errorf("read the dump %s: %w", dump, errors.Join(err, ctx.Err()))
		}
		if err := each(record, line); err != nil {
			return err
		}
	}
}

// database is the dump of a database, without secrets as the door gives it.
type database struct{ file, dump string }

func (d database) collect(ctx context.Context, r *run) error {
	return r.file(ctx, d.file, func(ctx context.Context, w io.Writer) error {
		var incomplete error
		err := r.records(ctx, d.dump, func(record api.DumpRecord, line []byte) error {
			if record.Error != "" {
				incomplete = errors.Join(incomplete, errors.New(strings.TrimSpace(record.Table+" "+record.Error)))
			}
			_, err := w.Write(append(line, '\n'))
			return err
		})
		return errors.Join(incomplete, err)
	})
}

// metrics are those of the nodes' agents, a file for each.
type metrics struct{}

const metricsFolder = "metrics/"

func (metrics) collect(ctx context.Context, r *run) error {
	var broken error // of the archive
	ctx, cancel := context.WithTimeout(ctx, partTime)
	defer cancel()
	err := r.records(ctx, api.AgentsDump, func(record api.DumpRecord, _ []byte) error {
		switch {
		case record.Node == "":
			return errors.New(record.Error)
		case len(validation.IsDNS1123Subdomain(record.Node)) > 0:
			return fmt.Errorf("%q is no Node's name", record.Node)
		case record.Error != "":
			r.missing(metricsFolder+record.Node, errors.New(record.Error))
			return nil
		}
		broken = r.file(ctx, metricsFolder+record.Node, func(_ context.Context, w io.Writer) error {
			_, err := io.WriteString(w, redact.Text(record.Metrics))
			return err
		})
		return broken
	})
	if err != nil && broken == nil {
		r.missing(metricsFolder, err)
	}
	return broken
}
