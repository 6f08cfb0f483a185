package node

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"sync"
	"time"

	systemd "github.com/coreos/go-systemd/v22/daemon"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/weftnet/weft/models/signal"
	"github.com/weftnet/weft/models/telemetry"
	"github.com/weftnet/weft/node/encryption"
	"github.com/weftnet/weft/node/nodeconfig"
	"github.com/weftnet/weft/node/openvswitch"
	"github.com/weftnet/weft/node/platform"
)

// ownPlatform is the system's own [platform.Platform].
type ownPlatform interface {
	platform.Platform
	io.Closer
}

// releaseConnectTime is how long Open vSwitch's database may take to answer an operator.
const releaseConnectTime = 10 * time.Second

// Run keeps the node fit for pods and serves its CNI plugin, until ctx ends. It waits for whatever
// is not there yet; an error means that waiting would not help.
func Run(ctx context.Context, config nodeconfig.Config) error {
	if err := config.Validate(); err != nil {
		return err
	}
	crypt, err := encryption.Guarded(config)
	if err != nil {
		return err
	}
	if crypt != nil {
		defer crypt.Close()
	}
	// From here on ovn-controller, which systemd starts after the agent, may have tunnels. Before it starts, systemd runs
	// "weft node guard", should the agent have failed.
	if _, err := systemd.SdNotify(false, systemd.SdNotifyReady); err != nil {
		slog.WarnContext(ctx, "systemd is not told that the agent has started", "error", err)
	}
	client, own, server, err := newKubernetes(config.Kubeconfig)
	if err != nil {
		return err
	}
	var a *agent
	measured := prometheus.NewRegistry()
	system, err := newPlatform(config, func() []netip.Prefix { return a.podSubnets() }, measured)
	if err != nil {
		return err
	}
	defer system.Close()
	tools, err := serveWeb(ctx, config)
	if err != nil {
		return err
	}
	defer tools.close()
	ovs, err := connectDatabase(ctx, config, system, openvswitch.TakeUpTime)
	if err != nil {
		return err
	}
	defer ovs.Close()
	if a, err = newAgent(config, system, ovs, client, own); err != nil {
		return fmt.Errorf("start the node's agent: %w", err)
	}
	a.services.apiServer = server
	a.registry.MustRegister(certificatesOf(config, server.tls))
	if crypt != nil {
		a.encrypt(crypt)
	}
	if err := a.watchNames(own); err != nil {
		return fmt.Errorf("start the node's agent: %w", err)
	}
	a.registry.MustRegister(measured)
	listener, err := listenForPlugin(ctx, config)
	if err != nil {
		return err
	}
	slog.InfoContext(ctx, "agent started", telemetry.Object("Node", "", config.NodeName),
		"datapath", config.DatapathType, "socket", config.CNISocket)
	return a.run(ctx, listener, tools)
}

// connectDatabase returns when Open vSwitch's database answers. As long as it does not, there are no bridges to be
// made: each time that it was silent for the limit, the host gets what an earlier process has left it without.
func connectDatabase(
	ctx context.Context, config nodeconfig.Config, system platform.Uplinks, limit time.Duration,
) (*openvswitch.Database, error) {
	if !config.SharesAdapter() {
		return openvswitch.Connect(ctx, config.OVSDatabase)
	}
	waiting, answered := context.WithCancel(ctx)
	var restoring sync.WaitGroup
	restoring.Go(func() {
		for signal.Sleep(waiting, limit); waiting.Err() == nil; signal.Sleep(waiting, limit) {
			if err := system.RestoreHost(waiting); err != nil {
				slog.ErrorContext(ctx, "the host may be unreachable while Open vSwitch's database is silent", "database",
					config.OVSDatabase, "error", err)
			}
		}
	})
	ovs, err := openvswitch.Connect(ctx, config.OVSDatabase)
	answered()
	restoring.Wait()
	return ovs, err
}
