package hns

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// Config of a [Client].
type Config struct {
	// Deadline of one call; default 10 s.
	Deadline time.Duration
	// NetworkDeadline of the creation and removal of a network, which take Windows up to a quarter
	// of a minute (antrea issue 1644 shows 13 s); default 1 min.
	NetworkDeadline time.Duration
	// MaxHung is how many calls may be unanswered before no further one is made; default 8.
	MaxHung int
}

func (c Config) withDefaults() Config {
	if c.Deadline == 0 {
		c.Deadline = 10 * time.Second
	}
	if c.NetworkDeadline == 0 {
		c.NetworkDeadline = max(time.Minute, c.Deadline)
	}
	if c.MaxHung == 0 {
		c.MaxHung = 8
	}
	return c
}

// Client calls HNS by a [Worker]. Its methods may be called again with the same arguments: they then
// find what they are to make and change nothing.
type Client struct {
	service Service
	worker  *Worker
	config  Config

	mu     sync.Mutex
	wanted map[string]bool // endpoints by name: made, and not removed again
}

// NewClient calls the service.
func NewClient(service Service, config Config) *Client {
	config = config.withDefaults()
	return &Client{service: service, worker: NewWorker(config.Deadline, config.MaxHung), config: config,
		wanted: map[string]bool{}}
}

// Worker of the client, for its metrics.
func (c *Client) Worker() *Worker { return c.worker }

// Version of HNS.
func (c *Client) Version(ctx context.Context) (Version, error) {
	return do(ctx, c.worker, operation{"Version", ""}, 0, c.service.Version, nil)
}

// Network returns the network of that name; [ErrNotFound].
func (c *Client) Network(ctx context.Context, name string) (Network, error) {
	networks, err := c.Networks(ctx)
	if err != nil {
		return Network{}, err
	}
	for _, network := range networks {
		if network.Name == name {
			return network, nil
		}
	}
	return Network{}, fmt.Errorf("HNS network %s: %w", name, ErrNotFound)
}

// Networks lists all networks.
func (c *Client) Networks(ctx context.Context) ([]Network, error) {
	networks, err := do(ctx, c.worker, operation{"Networks", ""}, 0, c.service.Networks, nil)
	if err != nil {
		return nil, fmt.Errorf("list the HNS networks: %w", err)
	}
	return networks, nil
}

// CreateNetwork makes a network. One whose creation ends after its deadline is found by its name.
func (c *Client) CreateNetwork(ctx context.Context, network Network) (Network, error) {
	created, err := do(ctx, c.worker, operation{"CreateNetwork", network.Name}, c.config.NetworkDeadline,
		func() (Network, error) { return c.service.CreateNetwork(network) }, nil)
	if err != nil {
		return Network{}, fmt.Errorf("create HNS network %s on adapter %s: %w", network.Name, network.Adapter, err)
	}
	return created, nil
}

// DeleteNetwork removes a network, which may be gone already.
func (c *Client) DeleteNetwork(ctx context.Context, network Network) error {
	_, err := do(ctx, c.worker, operation{"DeleteNetwork", network.Name}, c.config.NetworkDeadline,
		func() (struct{}, error) { return struct{}{}, c.service.DeleteNetwork(network.ID) }, nil)
	if err != nil && !errors.Is(err, ErrNotFound) {
		return fmt.Errorf("remove HNS network %s: %w", network.Name, err)
	}
	return nil
}

// Switch of a network.
func (c *Client) Switch(ctx context.Context, network Network) (Switch, error) {
	s, err := do(ctx, c.worker, operation{"Switch", network.Name}, 0,
		func() (Switch, error) { return c.service.Switch(network.ID) }, nil)
	if err != nil {
		return Switch{}, fmt.Errorf("read the switch of HNS network %s: %w", network.Name, err)
	}
	return s, nil
}

// EnsureExtension: the extension is enabled on the network's switch, which was read back. It says
// whether it had to be enabled. [ErrNoExtension] where its driver is not installed.
func (c *Client) EnsureExtension(ctx context.Context, network Network, extension string) (bool, error) {
	for attempt := 0; ; attempt++ {
		s, err := c.Switch(ctx, network)
		if err != nil {
			return false, err
		}
		found, installed := s.Extension(extension)
		switch {
		case !installed:
			return false, fmt.Errorf("switch of HNS network %s, extension %s: %w", network.Name, extension, ErrNoExtension)
		case found.Enabled:
			return attempt > 0, nil
		case attempt > 0:
			return false, fmt.Errorf("switch of HNS network %s: HNS says that it has enabled extension %s, but the extension "+
				"stays disabled", network.Name, extension)
		}
		_, err = do(ctx, c.worker, operation{"EnableExtension", network.Name}, 0,
			func() (struct{}, error) { return struct{}{}, c.service.EnableExtension(network.ID, extension) }, nil)
		if err != nil {
			return false, fmt.Errorf("enable extension %s on the switch of HNS network %s: %w", extension, network.Name, err)
		}
	}
}

// Namespace by its ID; [ErrNotFound].
func (c *Client) Namespace(ctx context.Context, id string) (Namespace, error) {
	namespace, err := do(ctx, c.worker, operation{"Namespace", id}, 0,
		func() (Namespace, error) { return c.service.Namespace(id) }, nil)
	if err != nil {
		return Namespace{}, fmt.Errorf("look up HCN namespace %s: %w", id, err)
	}
	return namespace, nil
}

// Endpoints of all networks.
func (c *Client) Endpoints(ctx context.Context) ([]Endpoint, error) {
	endpoints, err := do(ctx, c.worker, operation{"Endpoints", ""}, 0, c.service.Endpoints, nil)
	if err != nil {
		return nil, fmt.Errorf("list the HNS endpoints: %w", err)
	}
	return endpoints, nil
}
