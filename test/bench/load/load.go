// Package load drives an API server with the objects of a busy cluster whose nodes are made up:
// pods that are bound when they are created, Services with EndpointSlices written by hand,
// NetworkPolicies, and churn. It talks to nothing but the API server, in JSON, from a fixed number
// of workers over one HTTP/2 connection, so that what it costs is the same whoever watches.
package load

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// API is where and how objects are written.
type API struct {
	URL     string
	Client  *http.Client
	Workers int
}

// Phase says how one kind of object was written.
type Phase struct {
	Name       string
	Start, End time.Time
	Jobs       int
	P50, P99   time.Duration // of one job, which is one or two requests
}

// Took is the time from the first request to the last answer.
func (p Phase) Took() time.Duration { return p.End.Sub(p.Start) }

// run does jobs 0 to n-1 and stops at the first error.
func (a *API) run(ctx context.Context, name string, n int, job func(ctx context.Context, i int) error) (Phase, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	latency := make([]time.Duration, n)
	var next atomic.Int64
	var workers sync.WaitGroup
	start := time.Now()
	for range a.Workers {
		workers.Go(func() {
			for ctx.Err() == nil {
				i := int(next.Add(1)) - 1
				if i >= n {
					return
				}
				began := time.Now()
				if err := job(ctx, i); err != nil {
					cancel(fmt.Errorf("%s, job %d: %w", name, i, err))
					return
				}
				latency[i] = time.Since(began)
			}
		})
	}
	workers.Wait()
	end := time.Now()
	if err := context.Cause(ctx); err != nil {
		return Phase{}, err
	}
	slices.Sort(latency)
	quantile := func(q float64) time.Duration { return latency[int(q*float64(n-1))] }
	return Phase{Name: name, Start: start, End: end, Jobs: n, P50: quantile(.50), P99: quantile(.99)}, nil
}

// Create makes an object that is no part of the load.
func (a *API) Create(ctx context.Context, path string, object any) error {
	return a.create(ctx, path, object)
}

// Patch changes an object that is no part of the load.
func (a *API) Patch(ctx context.Context, path string, change any) error {
	return a.patch(ctx, path, change)
}

const mergePatch = "application/merge-patch+json"

func (a *API) create(ctx context.Context, path string, object any) error {
	return a.do(ctx, http.MethodPost, path, "application/json", object)
}

func (a *API) patch(ctx context.Context, path string, change any) error {
	return a.do(ctx, http.MethodPatch, path, mergePatch, change)
}

func (a *API) delete(ctx context.Context, path string) error {
	return a.do(ctx, http.MethodDelete, path, "application/json", nil)
}

func (a *API) do(ctx context.Context, method, path, contentType string, body any) error {
	var content io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return fmt.Errorf("%s %s: %w", method, path, err)
		}
		content = bytes.NewReader(text)
	}
	request, err := http.NewRequestWithContext(ctx, method, a.URL+path, content)
	if err != nil {
		return err
	}
	request.Header.Set("Accept", "application/json")
	request.Header.Set("Content-Type", contentType)
	response, err := a.Client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		return fmt.Errorf("%s %s: %w", method, path, err)
	}
	if response.StatusCode >= 300 {
		return fmt.Errorf("%s %s: %s: %.400s", method, path, response.Status, answer)
	}
	return nil
}
