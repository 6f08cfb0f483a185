package machine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// A unix socket's address is short and a state directory's may be long: the directory is opened
// and the socket named relative to its descriptor.
func socketAddress(labDir, name string) (address string, done func(), err error) {
	dir, err := os.Open(Dir(labDir, name))
	if err != nil {
		return "", nil, err
	}
	return fmt.Sprintf("/proc/self/fd/%d/control.sock", dir.Fd()), func() { dir.Close() }, nil
}

// ServeControl answers [Client] until ctx ends.
func (s *Supervisor) ServeControl(ctx context.Context) error {
	address, done, err := socketAddress(s.spec.LabDir, s.spec.Name)
	if err != nil {
		return err
	}
	defer done()
	if err := os.Remove(filepath.Join(Dir(s.spec.LabDir, s.spec.Name), "control.sock")); err != nil &&
		!os.IsNotExist(err) {
		return err
	}
	listener, err := net.Listen("unix", address)
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /status", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if err := json.NewEncoder(w).Encode(s.Status()); err != nil {
			return // the client has gone
		}
	})
	mux.HandleFunc("POST /restart/{component}", func(w http.ResponseWriter, r *http.Request) {
		reply(w, s.Restart(r.Context(), r.PathValue("component")))
	})
	mux.HandleFunc("POST /stop/{component}", func(w http.ResponseWriter, r *http.Request) {
		reply(w, s.Stop(r.Context(), r.PathValue("component")))
	})
	mux.HandleFunc("POST /kill/{component}", func(w http.ResponseWriter, r *http.Request) {
		reply(w, s.Kill(r.PathValue("component")))
	})
	mux.HandleFunc("POST /reboot", func(w http.ResponseWriter, _ *http.Request) {
		reply(w, s.Reboot())
	})
	mux.HandleFunc("POST /off", func(w http.ResponseWriter, _ *http.Request) {
		reply(w, s.Off())
	})
	server := &http.Server{Handler: mux, BaseContext: func(net.Listener) context.Context { return ctx }}
	context.AfterFunc(ctx, func() { server.Close() })
	return server.Serve(listener)
}

func reply(w http.ResponseWriter, err error) {
	if err != nil {
		http.Error(w, err.Error(), http.StatusConflict)
	}
}

// Client asks a machine's supervisor.
type Client struct{ labDir, name string }

// NewClient of the machine of that name in the lab of that state directory.
func NewClient(labDir, name string) *Client { return &Client{labDir, name} }

// Status of the machine.
func (c *Client) Status(ctx context.Context) (Status, error) {
	body, err := c.call(ctx, http.MethodGet, "/status")
	if err != nil {
		return Status{}, err
	}
	var status Status
	return status, json.Unmarshal(body, &status)
}

// Restart is [Supervisor.Restart]; that of a vital component returns when the whole machine serves again.
func (c *Client) Restart(ctx context.Context, component string) error {
	path := "/restart/" + url.PathEscape(component)
	spec, err := Read(c.labDir, c.name)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(spec.Components, func(o Component) bool { return o.Name == component && o.Vital }) {
		return c.startAnew(ctx, path)
	}
	_, err = c.call(ctx, http.MethodPost, path)
	return err
}

// Stop is [Supervisor.Stop].
func (c *Client) Stop(ctx context.Context, component string) error {
	_, err := c.call(ctx, http.MethodPost, "/stop/"+url.PathEscape(component))
	return err
}

// Kill is [Supervisor.Kill].
func (c *Client) Kill(ctx context.Context, component string) error {
	_, err := c.call(ctx, http.MethodPost, "/kill/"+url.PathEscape(component))
	return err
}

// Reboot ends everything in the machine at once, as a loss of power would, and returns when it has
// started again and all its components serve.
func (c *Client) Reboot(ctx context.Context) error { return c.startAnew(ctx, "/reboot") }

// startAnew asks for what makes the machine start anew, and returns when that serves.
func (c *Client) startAnew(ctx context.Context, path string) error {
	before, err := os.ReadFile(PIDFile(c.labDir, c.name))
	if err != nil {
		return fmt.Errorf("machine %s does not run: %w", c.name, err)
	}
	if _, err := c.call(ctx, http.MethodPost, path); err != nil {
		return err
	}
	return c.awaitUp(ctx, string(before))
}

// Off ends everything in the machine at once, and returns when nothing of it runs.
func (c *Client) Off(ctx context.Context) error {
	if !IsOff(c.labDir, c.name) {
		if _, err := c.call(ctx, http.MethodPost, "/off"); err != nil {
			return err
		}
	}
	for {
		if _, err := os.Stat(PIDFile(c.labDir, c.name)); errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		select {
		case <-time.After(powerPoll):
		case <-ctx.Done():
			return fmt.Errorf("machine %s has not ended: %w", c.name, ctx.Err())
		}
	}
}

// On starts a machine that is off, and returns when all its components serve.
func (c *Client) On(ctx context.Context) error {
	if err := os.Remove(offFile(c.labDir, c.name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return c.awaitUp(ctx, "")
}

// awaitUp returns when all components of the machine serve, whose process is another than before.
func (c *Client) awaitUp(ctx context.Context, before string) error {
	last := "it has not ended"
	for {
		if now, err := os.ReadFile(PIDFile(c.labDir, c.name)); err == nil && string(now) != before {
			status, err := c.Status(ctx)
			if last = status.pending(); err != nil {
				last = err.Error()
			}
			if last == "" {
				return nil
			}
		}
		select {
		case <-time.After(powerPoll):
		case <-ctx.Done():
			return fmt.Errorf("machine %s has not come up: %s", c.name, last)
		}
	}
}

const powerPoll = 100 * time.Millisecond

// pending names the components that do not work yet.
func (s Status) pending() string {
	var pending []string
	for _, c := range s.Components {
		if !c.OK() {
			pending = append(pending, strings.TrimSpace(fmt.Sprintf("%s is %s %s", c.Name, c.State, c.Detail)))
		}
	}
	return strings.Join(pending, ", ")
}

func (c *Client) call(ctx context.Context, method, path string) ([]byte, error) {
	address, done, err := socketAddress(c.labDir, c.name)
	if err != nil {
		return nil, fmt.Errorf("the lab has no machine %q: %w", c.name, err)
	}
	defer done()
	transport := &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn,
		error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", address)
	}}
	request, err := http.NewRequestWithContext(ctx, method, "http://machine"+path, nil)
	if err != nil {
		return nil, err
	}
	response, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		return nil, fmt.Errorf("ask machine %s: %w", c.name, err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = errors.New(strings.TrimSpace(string(body)))
	}
	return body, err
}
