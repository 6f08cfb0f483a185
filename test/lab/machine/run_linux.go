package machine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"

	"github.com/vishvananda/netlink"
)

// Run sets the machine up and runs its components until ctx ends.
func Run(ctx context.Context, dir, name string) error {
	spec, err := Read(dir, name)
	if err != nil {
		return err
	}
	for _, variable := range spec.Env {
		key, value, _ := strings.Cut(variable, "=")
		if err := os.Setenv(key, value); err != nil {
			return err
		}
	}
	if err := setUp(ctx, spec); err != nil {
		return fmt.Errorf("set up machine %s: %w", name, err)
	}
	supervisor := NewSupervisor(spec)
	ended := make(chan error, 1)
	go func() { ended <- supervisor.ServeControl(ctx) }()
	go func() {
		err := supervisor.awaitReboot(ctx)
		if errors.Is(err, errReboot) {
			unplug(spec)
		}
		ended <- err
	}()
	go supervisor.Run(ctx)
	return <-ended
}

func setUp(ctx context.Context, spec *Spec) error {
	for _, setting := range spec.Sysctls {
		if err := sysctl(setting); err != nil {
			return err
		}
	}
	if err := configureInterfaces(ctx, spec); err != nil {
		return err
	}
	for _, r := range spec.Routes {
		if err := addRoute(r); err != nil {
			return err
		}
	}
	for _, f := range spec.Files {
		if err := f.write("/"); err != nil {
			return err
		}
	}
	for _, argv := range spec.Setup {
		if err := runLogged(ctx, spec, argv); err != nil {
			return err
		}
	}
	return nil
}

// write the file below root.
func (f File) write(root string) error {
	content, mode, path := []byte(f.Content), f.Mode, filepath.Join(root, f.Path)
	if mode == 0 {
		mode = 0o644
	}
	if f.Source != "" {
		var err error
		if content, err = os.ReadFile(f.Source); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	// What is there may be a link to somewhere else, as /etc/resolv.conf often is.
	if err := os.Remove(path); err != nil && !os.IsNotExist(err) {
		return err
	}
	if mode&os.ModeSymlink != 0 {
		return os.Symlink(string(content), path)
	}
	return os.WriteFile(path, content, mode)
}

func runLogged(ctx context.Context, spec *Spec, argv []string) error {
	out := &strings.Builder{}
	if err := command(ctx, spec, argv, out).Run(); err != nil {
		return fmt.Errorf("%s: %w: %s", strings.Join(argv, " "), err, out)
	}
	return nil
}

func sysctl(setting string) error {
	key, value, _ := strings.Cut(setting, "=")
	path := "/proc/sys/" + strings.ReplaceAll(key, ".", "/")
	if err := os.WriteFile(path, []byte(value), 0); err != nil {
		return fmt.Errorf("set %s: %w", setting, err)
	}
	return nil
}

func configureInterfaces(ctx context.Context, spec *Spec) error {
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return err
	}
	if err := netlink.LinkSetUp(lo); err != nil {
		return err
	}
	for _, i := range spec.Interfaces {
		link, err := netlink.LinkByName(i.Name)
		if err != nil {
			return fmt.Errorf("interface %s: %w", i.Name, err)
		}
		for _, address := range i.Addresses {
			parsed, err := netlink.ParseAddr(address)
			if err != nil {
				return err
			}
			if err := netlink.AddrAdd(link, parsed); err != nil {
				return fmt.Errorf("give %s the address %s: %w", i.Name, address, err)
			}
		}
		if err := prepareForOVS(ctx, spec, i); err != nil {
			return err
		}
		if err := netlink.LinkSetUp(link); err != nil {
			return err
		}
	}
	return nil
}

// unplug lets nobody hear that the machine ends: a host without power closes no connection.
func unplug(spec *Spec) {
	for _, i := range spec.Interfaces {
		link, err := netlink.LinkByName(i.Name)
		if err == nil {
			err = netlink.LinkSetDown(link)
		}
		if err != nil {
			slog.Error("take an interface down", "machine", spec.Name, "interface", i.Name, "err", err)
		}
	}
}

// prepareForOVS makes up for what a userspace datapath does not do with the interfaces it reads:
// it takes frames without completing their checksums, and it takes copies of them. So does a kernel in userspace.
func prepareForOVS(ctx context.Context, spec *Spec, i Interface) error {
	if err := runLogged(ctx, spec, []string{"ethtool", "-K", i.Name, "tx", "off"}); err != nil || !i.Switched {
		return err
	}
	if err := sysctl("net.ipv6.conf." + i.Name + ".disable_ipv6=1"); err != nil {
		return err
	}
	return runLogged(ctx, spec, []string{"nft", fmt.Sprintf(
		"add table netdev weftlab; add chain netdev weftlab %s { type filter hook ingress device %s priority 0; "+
			"policy drop; }", i.Name, i.Name)})
}

func addRoute(r Route) error {
	_, destination, err := net.ParseCIDR(r.Destination)
	if err != nil {
		return err
	}
	via := net.ParseIP(r.Via)
	if err := netlink.RouteReplace(&netlink.Route{Dst: destination, Gw: via}); err != nil {
		return fmt.Errorf("route %s via %s: %w", r.Destination, r.Via, err)
	}
	return nil
}

// wire joins a machine's interfaces to the lab's bridges. It runs in the lab's own network
// namespace, where the bridges are; pid is the machine's init.
func wire(spec *Spec, pid int) error {
	for _, i := range spec.Interfaces {
		bridge, err := ensureBridge(i.Bridge)
		if err != nil {
			return err
		}
		attrs := netlink.NewLinkAttrs()
		attrs.Name = PortName(spec.Name, i.Bridge)
		attrs.MTU = i.MTU
		// The end that a dead machine left here goes away with the machine's namespace, some time.
		if old, err := netlink.LinkByName(attrs.Name); err == nil {
			if err := netlink.LinkDel(old); err != nil {
				return err
			}
		}
		veth := &netlink.Veth{LinkAttrs: attrs, PeerName: i.Name, PeerNamespace: netlink.NsPid(pid), PeerMTU: uint32(i.MTU)}
		if i.MAC != "" {
			if veth.PeerHardwareAddr, err = net.ParseMAC(i.MAC); err != nil {
				return fmt.Errorf("MAC address of %s of %s: %w", i.Name, spec.Name, err)
			}
		}
		if err := netlink.LinkAdd(veth); err != nil {
			return fmt.Errorf("make interface %s of %s: %w", i.Name, spec.Name, err)
		}
		port, err := netlink.LinkByName(attrs.Name)
		if err != nil {
			return err
		}
		if err := netlink.LinkSetMaster(port, bridge); err != nil {
			return err
		}
		if err := netlink.LinkSetUp(port); err != nil {
			return err
		}
	}
	return nil
}

func ensureBridge(name string) (netlink.Link, error) {
	link, err := netlink.LinkByName(name)
	var missing netlink.LinkNotFoundError
	if err == nil || !errors.As(err, &missing) {
		return link, err
	}
	attrs := netlink.NewLinkAttrs()
	attrs.Name = name
	snooping := false // there is no querier
	bridge := &netlink.Bridge{LinkAttrs: attrs, MulticastSnooping: &snooping}
	if err := netlink.LinkAdd(bridge); err != nil {
		return nil, fmt.Errorf("make bridge %s: %w", name, err)
	}
	return bridge, netlink.LinkSetUp(bridge)
}
