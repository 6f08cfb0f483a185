package hns

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
)

// EnsureEndpoint: the network has exactly one endpoint of that name, with that MAC and these
// addresses, attached to that namespace. What is there of it and differs is removed and made again;
// stale says of an endpoint in its way, with the same address, whether it may be removed. An error
// that is [ErrNotFound] says that the namespace does not exist; then no endpoint of the name does.
func (c *Client) EnsureEndpoint(ctx context.Context, want Endpoint, stale func(Endpoint) bool) (Endpoint, error) {
	c.want(want.Name, true)
	if err := c.ensureRoom(ctx, want); err != nil {
		return Endpoint{}, err
	}
	endpoint, err := c.keepOne(ctx, want)
	if err != nil {
		return Endpoint{}, err
	}
	if endpoint.ID == "" {
		if endpoint, err = c.create(ctx, want, stale); err != nil {
			return Endpoint{}, err
		}
	}
	if SameID(endpoint.Namespace, want.Namespace) {
		return endpoint, nil
	}
	_, err = do(ctx, c.worker, operation{"Attach", want.Name}, 0,
		func() (struct{}, error) { return struct{}{}, c.service.Attach(want.Namespace, endpoint.ID) }, nil)
	if errors.Is(err, ErrNotFound) {
		// HNS does not tell which of both it has not found, see HCN_E_ENDPOINT_NOT_FOUND and
		// ERROR_NOT_FOUND; without the namespace the endpoint is of no use.
		return Endpoint{}, errors.Join(fmt.Errorf("attach HNS endpoint %s to namespace %s: %w", want.Name, want.Namespace,
			err),
			c.DeleteEndpoint(context.WithoutCancel(ctx), want.Name))
	}
	if err != nil && !errors.Is(err, ErrExists) {
		return Endpoint{}, fmt.Errorf("attach HNS endpoint %s to namespace %s: %w", want.Name, want.Namespace, err)
	}
	endpoint.Namespace = want.Namespace
	return endpoint, nil
}

// ensureRoom: the namespace exists, and no other endpoint of the network is in it.
func (c *Client) ensureRoom(ctx context.Context, want Endpoint) error {
	namespace, err := c.Namespace(ctx, want.Namespace)
	if errors.Is(err, ErrNotFound) {
		return errors.Join(err, c.DeleteEndpoint(context.WithoutCancel(ctx), want.Name))
	}
	if err != nil || len(namespace.Endpoints) == 0 {
		return err
	}
	endpoints, err := c.Endpoints(ctx)
	if err != nil {
		return err
	}
	for _, e := range endpoints {
		inside := slices.ContainsFunc(namespace.Endpoints, func(id string) bool { return SameID(id, e.ID) })
		if inside && e.Name != want.Name && SameID(e.Network, want.Network) {
			return fmt.Errorf("namespace %s has HNS endpoint %s of the same network already: a pod has one interface on Windows",
				want.Namespace, e.Name)
		}
	}
	return nil
}

// keepOne removes all endpoints of the name but one that is as wanted; its ID is empty if none is.
func (c *Client) keepOne(ctx context.Context, want Endpoint) (Endpoint, error) {
	found, err := c.named(ctx, want.Name)
	if err != nil {
		return Endpoint{}, err
	}
	kept := Endpoint{}
	for _, e := range found {
		if kept.ID == "" && usable(e, want) {
			kept = e
			continue
		}
		slog.WarnContext(ctx, "an HNS endpoint is not as wanted and is made again", "endpoint", e.Name, "id", e.ID,
			"addresses", e.Addresses, "namespace", e.Namespace)
		if err := c.remove(ctx, e); err != nil {
			return Endpoint{}, err
		}
	}
	return kept, nil
}

// usable says whether an endpoint is as wanted, or is so once it is attached. What HNS may write in
// another way than it was told (DNS, policies) is no reason to take a pod's interface away.
func usable(e, want Endpoint) bool {
	return SameID(e.Network, want.Network) && bytes.Equal(e.MAC, want.MAC) && sameAddresses(e.Addresses, want.Addresses) &&
		(!attached(e.Namespace) || SameID(e.Namespace, want.Namespace))
}

func sameAddresses(a, b []netip.Prefix) bool {
	sorted := func(prefixes []netip.Prefix) []netip.Prefix {
		return slices.SortedFunc(slices.Values(prefixes), netip.Prefix.Compare)
	}
	return slices.Equal(sorted(a), sorted(b))
}

// create makes the endpoint; one that has its address and is stale is removed first.
func (c *Client) create(ctx context.Context, want Endpoint, stale func(Endpoint) bool) (Endpoint, error) {
	create := func() (Endpoint, error) {
		settings := want
		settings.Namespace = "" // read only: Attach sets it
		return do(ctx, c.worker, operation{"CreateEndpoint", want.Name}, 0,
			func() (Endpoint, error) { return c.service.CreateEndpoint(settings) }, c.adoptOrphan)
	}
	created, err := create()
	if errors.Is(err, ErrAddressTaken) {
		if err := c.evict(ctx, want, stale); err != nil {
			return Endpoint{}, fmt.Errorf("create HNS endpoint %s with %v: %w", want.Name, want.Addresses, err)
		}
		created, err = create()
	}
	if err != nil {
		return Endpoint{}, fmt.Errorf("create HNS endpoint %s with %v: %w", want.Name, want.Addresses, err)
	}
	return created, nil
}

// evict removes stale endpoints that have an address that want must have.
func (c *Client) evict(ctx context.Context, want Endpoint, stale func(Endpoint) bool) error {
	endpoints, err := c.Endpoints(ctx)
	if err != nil {
		return err
	}
	for _, e := range endpoints {
		if e.Name == want.Name || !SameID(e.Network, want.Network) || !shareAddress(e, want) {
			continue
		}
		if !stale(e) {
			return fmt.Errorf("HNS endpoint %s (namespace %q) has it: %w", e.Name, e.Namespace, ErrAddressTaken)
		}
		slog.WarnContext(ctx, "a stale HNS endpoint is in the way of another and is removed", "endpoint", e.Name, "for",
			want.Name)
		if err := c.remove(ctx, e); err != nil {
			return err
		}
	}
	return nil
}

func shareAddress(a, b Endpoint) bool {
	return slices.ContainsFunc(a.Addresses, func(p netip.Prefix) bool {
		return slices.ContainsFunc(b.Addresses, func(q netip.Prefix) bool { return p.Addr() == q.Addr() })
	})
}

// adoptOrphan looks at an endpoint whose creation ended after its caller had gone: it stays if nobody has
// made another of the name meanwhile and the name is still wanted; a repeated ADD then finds it.
func (c *Client) adoptOrphan(created Endpoint, err error) {
	if err != nil {
		return
	}
	ctx := context.Background()
	found, err := c.named(ctx, created.Name)
	if err == nil && c.isWanted(created.Name) && !slices.ContainsFunc(found, func(e Endpoint) bool {
		return !SameID(e.ID, created.ID)
	}) {
		return
	}
	if err == nil {
		err = c.remove(ctx, created)
	}
	if err != nil { // the sweep finds it
		slog.Error("an HNS endpoint that came too late stays behind", "endpoint", created.Name, "id", created.ID, "error",
			err)
	}
}

// DeleteEndpoint: no endpoint of that name exists.
func (c *Client) DeleteEndpoint(ctx context.Context, name string) error {
	c.want(name, false)
	found, err := c.named(ctx, name)
	if err != nil {
		return err
	}
	for _, e := range found {
		if err := c.remove(ctx, e); err != nil {
			return err
		}
	}
	return nil
}

// EndpointNamed returns the endpoint of that name; [ErrNotFound].
func (c *Client) EndpointNamed(ctx context.Context, name string) (Endpoint, error) {
	found, err := c.named(ctx, name)
	if err != nil {
		return Endpoint{}, err
	}
	if len(found) == 0 {
		return Endpoint{}, fmt.Errorf("HNS endpoint %s: %w", name, ErrNotFound)
	}
	return found[0], nil
}

func (c *Client) named(ctx context.Context, name string) ([]Endpoint, error) {
	found, err := do(ctx, c.worker, operation{"EndpointsNamed", name}, 0,
		func() ([]Endpoint, error) { return c.service.EndpointsNamed(name) }, nil)
	if err != nil {
		return nil, fmt.Errorf("look up HNS endpoint %s: %w", name, err)
	}
	return found, nil
}

// remove detaches an endpoint and deletes it. An endpoint that is deleted while it is attached is one
// way to make HNS hang (antrea issue 4702).
func (c *Client) remove(ctx context.Context, e Endpoint) error {
	if attached(e.Namespace) {
		_, err := do(ctx, c.worker, operation{"Detach", e.Name}, 0,
			func() (struct{}, error) { return struct{}{}, c.service.Detach(e.Namespace, e.ID) }, nil)
		if err != nil && !errors.Is(err, ErrNotFound) {
			return fmt.Errorf("detach HNS endpoint %s from namespace %s: %w", e.Name, e.Namespace, err)
		}
	}
	_, err := do(ctx, c.worker, operation{"DeleteEndpoint", e.Name}, 0,
		func() (struct{}, error) { return struct{}{}, c.service.DeleteEndpoint(e.ID) }, nil)
	if err != nil && !errors.Is(err, ErrNotFound) {
		return fmt.Errorf("remove HNS endpoint %s: %w", e.Name, err)
	}
	return nil
}

func (c *Client) want(name string, wanted bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if wanted {
		c.wanted[name] = true
	} else {
		delete(c.wanted, name)
	}
}

func (c *Client) isWanted(name string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.wanted[name]
}
