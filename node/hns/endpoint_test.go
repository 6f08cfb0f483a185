package hns_test

import (
	"errors"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weftnet/weft/node/hns"
	"github.com/weftnet/weft/node/hns/hnstest"
	"github.com/weftnet/weft/node/hostnet"
)

// bench is a machine with a network, and a client of its HNS.
type bench struct {
	*testing.T
	*hnstest.Machine
	client  *hns.Client
	network hns.Network
}

func newBench(t *testing.T) *bench {
	m := hnstest.New()
	m.AddAdapter(hostnet.Adapter{Alias: "Ethernet", Kind: hostnet.Physical, MAC: hnstest.MAC("02:00:00:00:00:01"),
		Addresses: []hostnet.Address{hnstest.LocalAddress("172.30.0.3/24")}})
	b := &bench{T: t, Machine: m, client: hns.NewClient(m, hns.Config{})}
	var err error
	b.network, err = b.client.CreateNetwork(t.Context(), hns.Network{Name: "weft", Type: hns.Transparent,
		Adapter: "Ethernet", Subnets: []hns.Subnet{
			{Prefix: netip.MustParsePrefix("10.244.3.0/24"), Gateway: netip.MustParseAddr("10.244.3.1")},
			{Prefix: netip.MustParsePrefix("fd00:3::/64"), Gateway: netip.MustParseAddr("fd00:3::1")},
		}})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func (b *bench) endpoint(name, namespace string) hns.Endpoint {
	return hns.Endpoint{
		Name: name, Network: b.network.ID, Namespace: namespace, MAC: hnstest.MAC("0a:58:0a:f4:03:03"),
		Addresses: []netip.Prefix{netip.MustParsePrefix("10.244.3.3/24"), netip.MustParsePrefix("fd00:3::3/64")},
		Gateways:  []netip.Addr{netip.MustParseAddr("10.244.3.1"), netip.MustParseAddr("fd00:3::1")},
	}
}

func never(hns.Endpoint) bool  { return false }
func always(hns.Endpoint) bool { return true }

// found returns the endpoints of that name, without a client.
func (b *bench) found(name string) []hns.Endpoint {
	b.Helper()
	found, err := b.EndpointsNamed(name)
	if err != nil {
		b.Fatal(err)
	}
	return found
}

func TestEndpointIsMadeOnceAndRepaired(t *testing.T) {
	other := func(change func(*hns.Endpoint)) func(b *bench, e hns.Endpoint) {
		return func(b *bench, e hns.Endpoint) { change(&e); b.AddForeignEndpoint(e) }
	}
	for name, test := range map[string]struct {
		before func(b *bench, want hns.Endpoint)
		kept   bool // the endpoint that was there before is the one that is there after
	}{
		"nothing there": {before: func(*bench, hns.Endpoint) {}},
		"half made":     {before: other(func(e *hns.Endpoint) { e.Namespace = "" }), kept: true},
		"detached, with zeros": {before: other(func(e *hns.Endpoint) {
			e.Namespace = "00000000-0000-0000-0000-000000000000"
		}), kept: true},
		"other address": {before: other(func(e *hns.Endpoint) { e.Namespace, e.Addresses = "", e.Addresses[:1] })},
		"other MAC": {before: other(func(e *hns.Endpoint) {
			e.Namespace, e.MAC = "", hnstest.MAC("02:00:00:00:00:99")
		})},
		"on a network that was": {before: other(func(e *hns.Endpoint) { e.Namespace, e.Network = "", "DEAD" })},
		"attached elsewhere": {before: func(b *bench, e hns.Endpoint) {
			e.Namespace = b.AddNamespace()
			b.attachForeign(e)
		}},
		"attached to one that was": {before: other(func(e *hns.Endpoint) {
			e.Namespace = "00000099-0000-4000-8000-000000000000"
		})},
		"twice": {before: func(b *bench, e hns.Endpoint) {
			e.Namespace = ""
			b.AddForeignEndpoint(e)
			b.AddForeignEndpoint(e)
		}, kept: true},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			want := b.endpoint("weft01", b.AddNamespace())
			test.before(b, want)
			before := b.found("weft01")
			for attempt := range 2 {
				made, err := b.client.EnsureEndpoint(t.Context(), want, never)
				if err != nil {
					t.Fatalf("attempt %d: %v\n%s", attempt, err, b.Dump())
				}
				found := b.found("weft01")
				if len(found) != 1 || found[0].ID != made.ID || !hns.SameID(found[0].Namespace, want.Namespace) ||
					len(found[0].Addresses) != 2 {
					t.Fatalf("attempt %d:\n%s", attempt, b.Dump())
				}
				if test.kept && found[0].ID != before[0].ID {
					t.Errorf("a good endpoint was made again")
				}
			}
			b.Calls()
			if _, err := b.client.EnsureEndpoint(t.Context(), want, never); err != nil {
				t.Fatal(err)
			}
			if calls := strings.Join(b.Calls(), " "); strings.Contains(calls, "Create") || strings.Contains(calls, "Delete") ||
				strings.Contains(calls, "tach") {
				t.Errorf("an endpoint in order was changed: %s", calls)
			}
			for range 2 {
				if err := b.client.DeleteEndpoint(t.Context(), "weft01"); err != nil {
					t.Fatal(err)
				}
			}
			if found := b.found("weft01"); len(found) != 0 {
				t.Errorf("left:\n%s", b.Dump())
			}
		})
	}
}

// attachForeign makes an endpoint that HNS itself has attached.
func (b *bench) attachForeign(e hns.Endpoint) {
	b.Helper()
	namespace := e.Namespace
	e.Namespace = ""
	if err := b.Attach(namespace, b.AddForeignEndpoint(e)); err != nil {
		b.Fatal(err)
	}
}

func TestEndpointWithoutNamespaceLeavesNothing(t *testing.T) {
	t.Run("gone before", func(t *testing.T) {
		b := newBench(t)
		want := b.endpoint("weft01", b.AddNamespace())
		if _, err := b.client.EnsureEndpoint(t.Context(), want, never); err != nil {
			t.Fatal(err)
		}
		b.RemoveNamespace(want.Namespace)
		if _, err := b.client.EnsureEndpoint(t.Context(), want, never); !errors.Is(err, hns.ErrNotFound) ||
			len(b.found("weft01")) != 0 {
			t.Errorf("error %v\n%s", err, b.Dump())
		}
	})
	t.Run("gone between creation and attachment", func(t *testing.T) {
		b := newBench(t)
		want := b.endpoint("weft01", b.AddNamespace())
		b.Fail("Attach", func() error { b.RemoveNamespace(want.Namespace); return nil })
		if _, err := b.client.EnsureEndpoint(t.Context(), want, never); !errors.Is(err, hns.ErrNotFound) ||
			len(b.found("weft01")) != 0 {
			t.Errorf("error %v\n%s", err, b.Dump())
		}
	})
}

func TestEndpointInTheWay(t *testing.T) {
	stale := func(b *bench) hns.Endpoint {
		e := b.endpoint("weft02", "")
		e.MAC = hnstest.MAC("0a:58:0a:f4:03:04")
		return e
	}
	t.Run("of the same address, and stale", func(t *testing.T) {
		b := newBench(t)
		b.AddForeignEndpoint(stale(b))
		if _, err := b.client.EnsureEndpoint(t.Context(), b.endpoint("weft01", b.AddNamespace()), always); err != nil ||
			len(b.found("weft02")) != 0 {
			t.Errorf("error %v\n%s", err, b.Dump())
		}
	})
	t.Run("of the same address, and in use", func(t *testing.T) {
		b := newBench(t)
		b.AddForeignEndpoint(stale(b))
		_, err := b.client.EnsureEndpoint(t.Context(), b.endpoint("weft01", b.AddNamespace()), never)
		if !errors.Is(err, hns.ErrAddressTaken) || !strings.Contains(err.Error(), "weft02") || len(b.found("weft02")) != 1 {
			t.Errorf("error %v\n%s", err, b.Dump())
		}
	})
	t.Run("in the same namespace", func(t *testing.T) {
		b := newBench(t)
		first := b.endpoint("weft01", b.AddNamespace())
		if _, err := b.client.EnsureEndpoint(t.Context(), first, never); err != nil {
			t.Fatal(err)
		}
		second := stale(b)
		second.Namespace = first.Namespace
		if _, err := b.client.EnsureEndpoint(t.Context(), second, always); err == nil || !strings.Contains(err.Error(),
			"weft01") || len(b.found("weft01")) != 1 {
			t.Errorf("error %v\n%s", err, b.Dump())
		}
	})
}

// hang holds the next call of that name until it is released; further ones pass.
func (b *bench) hang(call string) (release func()) {
	held := make(chan struct{})
	b.Fail(call, func() error {
		b.Fail(call, nil)
		<-held
		return nil
	})
	return func() { close(held) }
}

func TestEndpointThatComesLate(t *testing.T) {
	for name, test := range map[string]struct {
		meanwhile func(b *bench, want hns.Endpoint) error
		left      int
	}{
		"ADD is repeated: one stays": {left: 1, meanwhile: func(b *bench, want hns.Endpoint) error {
			_, err := b.client.EnsureEndpoint(b.Context(), want, never)
			return err
		}},
		"nothing: the next ADD finds it": {left: 1, meanwhile: func(*bench, hns.Endpoint) error { return nil }},
		"DEL: it goes": {left: 0, meanwhile: func(b *bench, want hns.Endpoint) error {
			return b.client.DeleteEndpoint(b.Context(), want.Name)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t)
				want := b.endpoint("weft01", b.AddNamespace())
				release := b.hang("CreateEndpoint")
				var hung *hns.HungError
				if _, err := b.client.EnsureEndpoint(t.Context(), want, never); !errors.As(err, &hung) {
					t.Fatalf("the creation that hangs: %v", err)
				}
				if err := test.meanwhile(b, want); err != nil {
					t.Fatal(err)
				}
				release()
				synctest.Wait()
				if found := b.found("weft01"); len(found) != test.left {
					t.Errorf("%d endpoints instead of %d\n%s", len(found), test.left, b.Dump())
				}
				if test.left == 0 {
					return
				}
				if _, err := b.client.EnsureEndpoint(t.Context(), want, never); err != nil || len(b.found("weft01")) != 1 {
					t.Errorf("the next ADD: %v\n%s", err, b.Dump())
				}
			})
		})
	}
}

func TestHangOfADeletionDoesNotHoldUpAnotherPod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		first := b.endpoint("weft01", b.AddNamespace())
		if _, err := b.client.EnsureEndpoint(t.Context(), first, never); err != nil {
			t.Fatal(err)
		}
		release := b.hang("DeleteEndpoint")
		deleted := make(chan error, 1)
		go func() { deleted <- b.client.DeleteEndpoint(t.Context(), first.Name) }()
		synctest.Wait()
		second := b.endpoint("weft02", b.AddNamespace())
		second.Addresses, second.MAC = []netip.Prefix{netip.MustParsePrefix("10.244.3.4/24")},
			hnstest.MAC("0a:58:0a:f4:03:04")
		begin := time.Now()
		if _, err := b.client.EnsureEndpoint(t.Context(), second, never); err != nil || time.Since(begin) > 10*time.Second {
			t.Errorf("another pod: %v after %v", err, time.Since(begin))
		}
		if err := <-deleted; err == nil {
			t.Error("a deletion that hangs was a success")
		}
		release()
		synctest.Wait()
		if err := b.client.DeleteEndpoint(t.Context(), first.Name); err != nil || len(b.found("weft01")) != 0 {
			t.Errorf("the repeated DEL: %v\n%s", err, b.Dump())
		}
	})
}

func TestExtensionIsReadBack(t *testing.T) {
	b := newBench(t)
	b.Disobeys = true
	if _, err := b.client.EnsureExtension(t.Context(), b.network, hnstest.OVSExtension); err == nil ||
		!strings.Contains(err.Error(), "stays disabled") {
		t.Errorf("an extension that stays disabled: %v", err)
	}
	b.Disobeys = false
	for attempt, want := range []bool{true, false} {
		if enabled, err := b.client.EnsureExtension(t.Context(), b.network, hnstest.OVSExtension); enabled != want ||
			err != nil {
			t.Errorf("attempt %d: %v, %v", attempt, enabled, err)
		}
	}
	b.Driver = false
	if _, err := b.client.EnsureExtension(t.Context(), b.network, hnstest.OVSExtension); !errors.Is(err,
		hns.ErrNoExtension) {
		t.Errorf("without the driver: %v", err)
	}
}

func TestSameID(t *testing.T) {
	for _, test := range []struct {
		a, b string
		want bool
	}{
		{"{583cc151-73ec-4a6a-8b47-578297ad7623}", hnstest.OVSExtension, true},
		{"583CC151-73EC-4A6A-8B47-578297AD7623", hnstest.OVSExtension, true},
		{"", hnstest.OVSExtension, false},
	} {
		if got := hns.SameID(test.a, test.b); got != test.want {
			t.Errorf("%q and %q: %v", test.a, test.b, got)
		}
	}
}

func TestModelConforms(t *testing.T) {
	m := hnstest.NewNode(t).Machine
	hnstest.Conformance(t, hnstest.Subject{Service: m, Adapter: "Ethernet",
		Namespaces: [2]string{m.AddNamespace(), m.AddNamespace()}})
}
