package platformtest

import (
	"errors"
	"net/netip"
	"slices"
	"testing"

	"github.com/weftnet/weft/cni"
	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/node/platform"
)

// Story is an endpoint's life, with every step done twice: what a [platform.Platform] promises.
// make, remove and, where devices come late, start are the container runtime's work.
func Story(t *testing.T, p platform.Platform, makeSandbox func(name string) (path string),
	removeSandbox func(name string), startSandbox ...func(name string)) {
	t.Helper()
	ctx := t.Context()
	sandbox := makeSandbox("story")
	v4 := netip.MustParsePrefix("10.244.1.3/24")
	attachment := cni.Attachment{ContainerID: "story", IfName: "eth0"}
	e := platform.Endpoint{
		Attachment: attachment, Device: cni.HostInterface(attachment), Sandbox: sandbox, Label: "shop/story",
		MAC: contract.MAC(v4.Addr()), Addresses: []netip.Prefix{v4},
		Gateways: []netip.Addr{netip.MustParseAddr("10.244.1.1")}, MTU: 1400,
	}
	must := func(what string, err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
	}
	devices := func(want ...string) {
		t.Helper()
		got, err := p.Endpoints()
		if err != nil || !slices.Equal(got, append([]string{}, want...)) {
			t.Fatalf("devices %v, want %v, error %v", got, want, err)
		}
	}

	if err := p.ConfigureEndpoint(ctx, e); err == nil {
		t.Error("configured an endpoint that was not created")
	}
	if err := p.CheckEndpoint(ctx, e); err == nil {
		t.Error("nothing is missing before the endpoint was created")
	}
	for range 2 {
		must("create", p.CreateEndpoint(ctx, e))
		devices(e.Device)
	}
	for _, start := range startSandbox {
		if here, err := p.EndpointArrived(ctx, e); err != nil || here {
			t.Errorf("the device is on the host before its sandbox starts: %v, %v", here, err)
		}
		if err := p.ConfigureEndpoint(ctx, e); err == nil {
			t.Error("configured a device that has not come")
		}
		start("story")
		if here, err := p.EndpointArrived(ctx, e); err != nil || !here {
			t.Errorf("the device has not come with its sandbox: %v, %v", here, err)
		}
	}
	for range 2 {
		must("configure", p.ConfigureEndpoint(ctx, e))
		must("check", p.CheckEndpoint(ctx, e))
	}
	for range 2 {
		inside := errors.New("what is done inside has ended so")
		if err := p.InSandbox(ctx, sandbox, func() error { return inside }); !errors.Is(err, inside) {
			t.Errorf("in the sandbox: %v", err)
		}
	}
	second := e
	second.Attachment.ContainerID = "second"
	second.Device = cni.HostInterface(second.Attachment)
	if err := p.CreateEndpoint(ctx, second); err == nil {
		t.Error("two endpoints share an interface of a sandbox")
	}
	devices(e.Device)
	for range 2 {
		must("delete", p.DeleteEndpoint(ctx, e.Device))
		devices()
	}
	must("create again", p.CreateEndpoint(ctx, e))
	removeSandbox("story")
	if exists, err := p.SandboxExists(sandbox); exists || err != nil {
		t.Errorf("the sandbox that was removed exists: %v, %v", exists, err)
	}
	if err := p.CreateEndpoint(ctx, e); !errors.Is(err, platform.ErrNoSandbox) {
		t.Errorf("create in a sandbox that was removed: %v", err)
	}
	if err := p.ConfigureEndpoint(ctx, e); !errors.Is(err, platform.ErrNoSandbox) {
		t.Errorf("configure in a sandbox that was removed: %v", err)
	}
	if err := p.InSandbox(ctx, sandbox, func() error { return errors.New("nobody is inside") }); !errors.Is(err,
		platform.ErrNoSandbox) {
		t.Errorf("in a sandbox that was removed: %v", err)
	}
	must("delete after the sandbox", p.DeleteEndpoint(ctx, e.Device))
	devices()
}
