package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/nftables"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/weftnet/weft/node/local"
	"github.com/weftnet/weft/node/unixctl"
)

// systemChecks are those of a Linux node.
func systemChecks(config Config) []check {
	host := linuxHost{config}
	root := os.DirFS("/")
	agent := sharedAgent{share(localAgent{config.MetricsAddress}.Readiness)}
	before, after := commonChecks(config, readers{
		api: apiServer{config.Kubeconfig}, server: apiServerName(config.Kubeconfig),
		vswitch: vswitchDatabase{config.OVSDatabase, local.Dial}, daemons: host, openFlow: host.openFlow,
		agent: agent, metrics: localAgent{config.MetricsAddress}, files: osFiles{}, disk: host, names: net.DefaultResolver,
		conflist: os.DirFS(config.CNIConfDir), listen: tryListen,
	})
	checks := append(before, []check{
		{"datapath", func(context.Context) []Finding { return checkDatapath(root, host, config) }},
		{"encap-address", func(context.Context) []Finding { return checkEncapAddress(host, config) }},
		{"mtu", func(context.Context) []Finding { return checkDeviceMTU(host, config) }},
		{"geneve-port", func(context.Context) []Finding { return checkGenevePort(root, config) }},
		{"reverse-path", func(context.Context) []Finding { return checkReversePath(root) }},
		{"leftovers", func(context.Context) []Finding { return checkLeftovers(root, host) }},
	}...)
	checks = append(checks, after...)
	checks = append(checks, check{"cni-socket", func(ctx context.Context) []Finding {
		return checkSocket(root, config, installed(ctx, config, agent))
	}})
	if !config.Hosted {
		checks = append(checks, check{"ovn-controller", func(ctx context.Context) []Finding {
			return checkOVNController(ctx, host)
		}})
	}
	return checks
}

// linuxHost reads this machine.
type linuxHost struct{ config Config }

func (h linuxHost) Families() ([]string, error) {
	var names []string
	families, err := netlink.GenlFamilyList()
	for _, family := range families {
		names = append(names, family.Name)
	}
	return names, err
}

func (h linuxHost) openFlow(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, dialTime)
	defer cancel()
	endpoint, err := openFlowEndpoint(h.config)
	if err != nil {
		return err
	}
	conn, err := local.Dial(ctx, endpoint)
	if err != nil {
		return err
	}
	return helloOpenFlow(ctx, conn)
}

func (linuxHost) Devices() ([]device, error) {
	interfaces, err := net.Interfaces()
	if err != nil {
		return nil, err
	}
	var devices []device
	for _, i := range interfaces {
		addresses, err := i.Addrs()
		if err != nil {
			return nil, fmt.Errorf("addresses of %s: %w", i.Name, err)
		}
		d := device{Name: i.Name, MTU: i.MTU, Up: i.Flags&net.FlagUp != 0, Loopback: i.Flags&net.FlagLoopback != 0}
		for _, a := range addresses {
			if prefix, err := netip.ParsePrefix(a.String()); err == nil {
				d.Addresses = append(d.Addresses, netip.PrefixFrom(prefix.Addr().Unmap(), prefix.Bits()))
			}
		}
		devices = append(devices, d)
	}
	return devices, nil
}

// FreeSpace measures the file system that the folder is on, or will be.
func (linuxHost) FreeSpace(folder string) (free, total uint64, err error) {
	existing, err := existingFolder(folder)
	if err != nil {
		return 0, 0, err
	}
	var stat unix.Statfs_t
	if err := unix.Statfs(existing, &stat); err != nil {
		return 0, 0, err
	}
	return stat.Bavail * uint64(stat.Bsize), stat.Blocks * uint64(stat.Bsize), nil
}

// Chains of iptables in its newer form and of nftables, which the kernel keeps in one place.
func (linuxHost) Chains() ([]string, bool, error) {
	conn, err := nftables.New()
	if err != nil {
		return nil, false, err
	}
	chains, err := conn.ListChains()
	if err != nil {
		return nil, false, err
	}
	var names []string
	for _, c := range chains {
		names = append(names, fmt.Sprintf("%s %s", c.Table.Name, c.Name))
	}
	legacy := false
	for _, table := range []string{"/proc/net/ip_tables_names", "/proc/net/ip6_tables_names"} {
		text, err := os.ReadFile(table)
		legacy = legacy || err == nil && strings.TrimSpace(string(text)) != ""
	}
	return names, legacy, nil
}

// Control asks the newest control socket of a daemon that answers.
func (h linuxHost) Control(ctx context.Context, daemon, command string) (string, error) {
	folders := controlFolders(h.config, daemon)
	problem := fmt.Errorf("no control socket of %s answers in %s: %w", daemon, strings.Join(folders, " or "), errAbsent)
	for _, socket := range unixctl.Sockets(folders, daemon) {
		answer, err := control(ctx, socket, command)
		if err == nil {
			return answer, nil
		}
		if errors.Is(err, fs.ErrPermission) {
			problem = err
		}
	}
	return "", problem
}

// Arguments are read from the process whose number its newest control socket that answers has in its name.
func (h linuxHost) Arguments(ctx context.Context, daemon string) ([]string, error) {
	folders := controlFolders(h.config, daemon)
	problem := fmt.Errorf("no control socket of %s answers in %s: %w", daemon, strings.Join(folders, " or "), errAbsent)
	for _, socket := range unixctl.Sockets(folders, daemon) {
		_, err := control(ctx, socket, "version")
		switch {
		case err == nil:
			return unixctl.Arguments(socket, daemon)
		case errors.Is(err, fs.ErrPermission):
			problem = err
		}
	}
	return nil, problem
}

// controlFolders are where a daemon may have its control socket: ovs-vswitchd beside the database, and ovn-controller
// where the agent looks for it, too.
func controlFolders(config Config, daemon string) []string {
	first, _, _ := strings.Cut(config.OVSDatabase, ",")
	path, isUnix := strings.CutPrefix(first, "unix:")
	folder := filepath.Dir(path)
	switch {
	case isUnix && daemon == "ovs-vswitchd":
		return []string{folder}
	case config.OVNRunDir != "":
		return []string{config.OVNRunDir}
	case !isUnix:
		return []string{"/var/run/ovn"}
	}
	return []string{folder, filepath.Join(filepath.Dir(folder), "ovn")}
}

// control asks a daemon by its socket.
func control(ctx context.Context, socket, command string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTime)
	defer cancel()
	return unixctl.Call(ctx, socket, command)
}
