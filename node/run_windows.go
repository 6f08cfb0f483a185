package node

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weftnet/weft/cni"
	"github.com/weftnet/weft/models/hostfile"
	"github.com/weftnet/weft/node/capture"
	"github.com/weftnet/weft/node/nodeconfig"
	"github.com/weftnet/weft/node/pktmon"
	"github.com/weftnet/weft/node/statefile"
	"github.com/weftnet/weft/node/windows"
)

var hostFile = &hostfile.File{
	Path: "{state-dir}/host.json", Mode: statefile.Mode,
	Content: "The adapter that pods share, and the addresses, routes and DNS servers that the host gets back on it " +
		"when they no longer do (Windows). Also the ID of Weft's HNS network, and whether a bridge has worked on it.",
	Loss: "Nothing as long as the host has its addresses and the bridge works, since the agent finds all of it again at " +
		"its next start. Until then the network counts as not Weft's, so `weft node release` fails. Until a bridge works, " +
		"a start that fails may remove the network.",
}

func listenForPlugin(ctx context.Context, c nodeconfig.Config) (net.Listener, error) {
	listener, err := cni.Listen(c.CNISocket)
	if err != nil || !c.PrimeSocket {
		return listener, err
	}
	if err := cni.Prime(ctx, c.CNISocket); err != nil {
		listener.Close()
		return nil, err
	}
	return listener, nil
}

func captureBackend(c nodeconfig.Config) capture.Backend {
	return capture.PacketMonitor(pktmon.New(pktmon.Program(), filepath.Join(c.StateDir, "capture")))
}

// windowsPlatform is this process's alone until it is closed. HNS keeps no connections.
type windowsPlatform struct {
	*windows.Platform
	lock *os.File
}

func (w windowsPlatform) Close() error { return w.lock.Close() }

func newPlatform(
	c nodeconfig.Config, podSubnets func() []netip.Prefix, metrics prometheus.Registerer,
) (ownPlatform, error) {
	if err := SecureFolder(c.StateDir); err != nil {
		return nil, fmt.Errorf("state-dir: %w", err)
	}
	lock, err := lockState(c.StateDir)
	if err != nil {
		return nil, fmt.Errorf("state-dir: %w", err)
	}
	system, err := windows.New(windows.Config{
		Adapter: c.Adapter, Network: c.HNSNetwork, Driver: c.OVSDriver, EncapAddress: c.EncapAddress,
		StateFile:  hostFile.In(c.StateDir),
		PodSubnets: podSubnets, Metrics: metrics,
	})
	if err != nil {
		lock.Close()
		return nil, err
	}
	return windowsPlatform{system, lock}, nil
}
