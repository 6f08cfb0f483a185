package ovsdb

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/ovn-kubernetes/libovsdb/ovsdb"

	"github.com/weftnet/weft/models"
)

// Client keeps a replica of a database's tables, connected as long as it is not closed.
type Client struct {
	config    Config
	endpoints []Endpoint
	log       *slog.Logger
	stop      context.CancelFunc
	ended     chan struct{}
	ready     chan struct{} // closed once the first replica is complete
	fatal     error         // set before ended is closed
	probe     time.Duration // what Config.Probe has become; of the goroutine that connects

	mu       sync.RWMutex // of all below
	cache    *cache
	session  *session // nil while there is no connection
	changed  chan struct{}
	disabled []string
	since    string // the last transaction that the replica holds
	schema   string // the text of the schema that the replica was read with
	cluster  string // whose member the last server was
	index    int    // how far that cluster's log has been seen

	stats *stats
}

// Connect waits for a server, however long that takes, and gives a client with a complete
// replica. ctx ends the waiting only; Close ends the client. An error means that waiting would
// not help: the configuration is wrong, or the server's schema is too old.
func Connect(ctx context.Context, config Config) (*Client, error) {
	endpoints, err := ParseEndpoints(config.Endpoints)
	if err != nil {
		return nil, err
	}
	if config.Logger == nil {
		config.Logger = slog.Default()
	}
	if config.Requirements == nil {
		config.Requirements = models.Requirements
	}
	if config.Probe <= 0 {
		config.Probe = 5 * time.Second
	}
	if config.LookInterval <= 0 {
		config.LookInterval = time.Hour
	}
	if config.Pipeline <= 0 {
		config.Pipeline = 3
	}
	for _, e := range endpoints {
		if e.Scheme == "ssl" && config.Dial == nil {
			if _, err := config.TLS.config(); err != nil {
				return nil, fmt.Errorf("connect to %s: %w", e, err)
			}
		}
	}
	life, stop := context.WithCancel(context.WithoutCancel(ctx))
	c := &Client{
		config: config, endpoints: endpoints, stop: stop,
		log:   config.Logger.With("database", config.Model.Name()),
		ended: make(chan struct{}), ready: make(chan struct{}), changed: make(chan struct{}),
		cache: newCache(), since: zeroUUID, probe: config.Probe, stats: newStats(config.Model.Name()),
	}
	for _, t := range config.Tables {
		table, err := newTable(t, config.Model)
		if err != nil {
			stop()
			return nil, err
		}
		c.cache.tables[table.name], c.cache.types[table.goType] = table, table
	}
	if config.Metrics != nil {
		config.Metrics.MustRegister(c.Metrics()...)
	}
	go c.run(life)
	select {
	case <-c.ready:
		return c, nil
	case <-c.ended:
		return nil, c.fatal
	case <-ctx.Done():
		c.Close()
		return nil, fmt.Errorf("connect to %s: %w", config.Endpoints, ctx.Err())
	}
}

const zeroUUID = "00000000-0000-0000-0000-000000000000"

// Close ends the connection and every call in flight.
func (c *Client) Close() {
	c.stop()
	<-c.ended
}

// Connected says whether there is a connection now.
func (c *Client) Connected() bool {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.session != nil
}

// Endpoint is the server that the replica comes from, empty while there is no connection.
func (c *Client) Endpoint() string {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if c.session == nil {
		return ""
	}
	return c.session.endpoint.String()
}

// Disabled lists the optional features that the server's schema has no columns for.
func (c *Client) Disabled() []string {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return slices.Clone(c.disabled)
}

// schemaError is a server that cannot serve: to wait for it is of no use.
type schemaError struct{ error }

const (
	firstBackoff = 100 * time.Millisecond
	lastBackoff  = 4 * time.Second
	// connecting bounds the time up to a connection, and reading that from a request for the
	// replica to its last byte.
	connecting = 5 * time.Second
	reading    = 60 * time.Second
	// longestProbe bounds what a client learns of its server: one that is lost is to be left.
	longestProbe = 10 * time.Second
)

// run connects, and connects again, until the client is closed.
func (c *Client) run(ctx context.Context) {
	defer close(c.ended)
	failing, flapping := firstBackoff, firstBackoff
	pause := func(backoff *time.Duration) {
		select {
		case <-ctx.Done():
		case <-time.After(*backoff):
		}
		*backoff = min(2**backoff, lastBackoff)
	}
	var told time.Time
	for first := true; ctx.Err() == nil; {
		s, err := c.open(ctx)
		var schema schemaError
		if first && errors.As(err, &schema) {
			c.fatal = err
			return
		}
		if err != nil {
			if ctx.Err() == nil && time.Since(told) > 30*time.Second {
				told = time.Now()
				c.log.Warn("waiting for a database server", "endpoints", c.config.Endpoints, "error", err)
			}
			pause(&failing)
			continue
		}
		failing, told = firstBackoff, time.Time{}
		if first {
			first = false
			close(c.ready)
		} else {
			c.stats.reconnects.Inc()
		}
		if c.serve(ctx, s) > lastBackoff {
			flapping = firstBackoff
		} else { // another at once may fare no better
			pause(&flapping)
		}
	}
}

// serve lets a session last and says how long it did.
func (c *Client) serve(ctx context.Context, s *session) time.Duration {
	began := time.Now()
	c.log.Info("connected to the database", "endpoint", s.endpoint.String())
	select {
	case <-ctx.Done():
		s.close(ErrClosed)
	case <-s.done:
	}
	c.leave(s)
	if ctx.Err() == nil {
		c.log.Warn("lost the database", "endpoint", s.endpoint.String(), "error", s.cause())
	}
	if errors.Is(s.cause(), errSilent) { // the others first: this one takes long to fail
		c.endpoints = append(slices.Clone(c.endpoints[1:]), c.endpoints[0])
	}
	return time.Since(began)
}

func (c *Client) leave(s *session) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.session == s {
		c.session = nil
	}
	c.wake()
}

// wake lets all who wait look again; c.mu is held.
func (c *Client) wake() {
	close(c.changed)
	c.changed = make(chan struct{})
}

// open tries each endpoint once.
func (c *Client) open(ctx context.Context) (*session, error) {
	var problems []error
	for i, endpoint := range c.endpoints {
		s, err := c.try(ctx, endpoint)
		if err == nil {
			// The one that serves now is asked first the next time.
			c.endpoints = append(slices.Clone(c.endpoints[i:]), c.endpoints[:i]...)
			return s, nil
		}
		problems = append(problems, fmt.Errorf("%s: %w", endpoint, err))
	}
	return nil, errors.Join(problems...)
}

func (c *Client) try(ctx context.Context, endpoint Endpoint) (*session, error) {
	limit, cancel := context.WithTimeout(ctx, connecting)
	conn, err := c.config.dial(limit, endpoint)
	cancel()
	if err != nil {
		return nil, err
	}
	c.stats.shown(conn)
	s := newSession(conn, endpoint, c.probe)
	s.notify = func(method string, params []byte) error { return c.notified(s, method, params) }
	s.start()
	if err := c.begin(ctx, s); err != nil {
		s.close(err)
		c.leave(s)
		return nil, err
	}
	go s.probe()
	if endpoint.Scheme == "ssl" {
		go c.look(ctx, s)
	}
	return s, nil
}

// look sees, as long as a session lasts, which certificate its server shows: a server takes a renewed one for new
// connections only.
func (c *Client) look(ctx context.Context, s *session) {
	ticker := time.NewTicker(c.config.LookInterval)
	defer ticker.Stop()
	for {
		select {
		case <-s.done:
			return
		case <-ticker.C:
		}
		limit, cancel := context.WithTimeout(ctx, connecting)
		conn, err := c.config.dial(limit, s.endpoint)
		cancel()
		if err != nil {
			c.log.Warn("the database's server refuses a second connection; the first one goes on", "endpoint",
				s.endpoint.String(), "error", err)
			continue
		}
		c.stats.shown(conn)
		conn.Close()
	}
}

// begin makes a session useful: the leader's, with a fitting schema, and watched.
func (c *Client) begin(ctx context.Context, s *session) error {
	limit, cancel := context.WithTimeout(ctx, 2*c.probe)
	defer cancel()
	if err := c.follow(limit, s); err != nil {
		return err
	}
	text, err := s.call(limit, "get_schema", appendString(nil, c.config.Model.Name()))
	if err != nil {
		return fmt.Errorf("read the schema of %s: %w", c.config.Model.Name(), err)
	}
	if err := c.fit(text); err != nil {
		return err
	}
	return c.replicate(ctx, s)
}

// replicate reads the replica, and learns from that how long the server may be silent. As long as a server reads out
// its database to one client, it says nothing to the others. That takes milliseconds in a small database, and many
// seconds in a large one. A client that left the server then would have it read out the database once more.
func (c *Client) replicate(ctx context.Context, s *session) error {
	limit, cancel := context.WithTimeout(ctx, reading)
	defer cancel()
	began := time.Now()
	if err := c.monitor(limit, s); err != nil {
		return err
	}
	c.probe = max(c.probe, min(time.Since(began), longestProbe))
	s.bear(c.probe)
	return nil
}

// fit takes the server's schema; the replica starts anew where it has changed.
func (c *Client) fit(text []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.schema == string(text) {
		return nil
	}
	var schema ovsdb.DatabaseSchema
	if err := json.Unmarshal(text, &schema); err != nil {
		return schemaError{fmt.Errorf("read the schema of %s: %w", c.config.Model.Name(), err)}
	}
	needed := map[string][]string{}
	for _, t := range c.cache.tables {
		for _, column := range t.columns {
			needed[t.name] = append(needed[t.name], column.name)
		}
	}
	c.schema = "" // a failure may leave tables half fitted
	disabled, err := models.Check(schema, needed, c.config.Requirements)
	if err != nil {
		return schemaError{err}
	}
	for _, t := range c.cache.tables {
		if err := t.fit(schema); err != nil {
			return schemaError{err}
		}
	}
	for _, lack := range disabled {
		c.log.Warn("the database has no columns for a feature; it is off", "feature", lack.Feature, "lacks", lack.Error())
	}
	c.disabled = models.Features(disabled)
	c.schema, c.since = string(text), zeroUUID
	return nil
}
