package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weftnet/weft/node/ipsec"
	"github.com/weftnet/weft/node/nodeconfig"
)

// tunnelKeeper encrypts what the node's tunnels send, see [ipsec.Keeper].
type tunnelKeeper interface {
	// Guard: from now on nothing passes in the clear that shall not.
	Guard() error
	// Keep looks once whether peers are encrypted, and does what they lack.
	Keep(ctx context.Context, peers []netip.Addr) (ipsec.Status, error)
	// Problem is why a peer cannot be encrypted, as far as that is known.
	Problem(peer netip.Addr) error
	// Run calls look whenever Keep may have something to do, until ctx ends; Look has it do so soon.
	Run(ctx context.Context, look func(context.Context))
	Look()
	Close()
}

// peerPatience is how long a peer may go without encryption before it is told: it may just join or start anew.
const peerPatience = time.Minute

// guardedTunnels comes before all else: after a boot Open vSwitch has tunnels from before, and nothing waits for the
// agent before it sends by them. What fails here is told by the first look.
func guardedTunnels(config nodeconfig.Config) (tunnelKeeper, error) {
	crypt, err := newTunnelKeeper(config)
	if err != nil || crypt == nil || config.Encryption != ipsec.Enforce {
		return crypt, err
	}
	if err := crypt.Guard(); err != nil {
		slog.Warn("tunnels are not guarded yet", "error", err)
	}
	return crypt, nil
}

// keepEncrypted keeps the tunnels as the key encryption wants them.
func (a *agent) keepEncrypted(ctx context.Context) error {
	since := map[netip.Addr]time.Time{}
	a.crypt.Run(ctx, func(ctx context.Context) {
		a.rounds.do("encryption", func() { a.keepEncryptedOnce(ctx, since) })
	})
	return nil
}

// keepEncryptedOnce looks once; since is when a peer was first seen without encryption.
func (a *agent) keepEncryptedOnce(ctx context.Context, since map[netip.Addr]time.Time) {
	if !a.ovs.Connected() {
		return // and who the peers are is not known
	}
	status, err := a.crypt.Keep(ctx, a.ovs.TunnelPeers())
	if !a.config.Encrypts() {
		a.note(noteClear, "EncryptionLeft", err)
		return
	}
	err = errors.Join(a.offloaded(), err)
	if a.config.Encryption == ipsec.Enforce {
		a.health.set(conditionEncryption, err)
	}
	a.note(noteClear, "EncryptionImpossible", err)
	a.metrics.encrypted.Set(float64(status.Encrypted))
	a.metrics.unencrypted.Set(float64(len(status.Missing)))
	if err == nil {
		a.note(notePeers, "PeersNotEncrypted", a.unencrypted(status.Missing, since))
	}
}

// unencrypted tells of peers that have gone without encryption for long.
func (a *agent) unencrypted(missing []netip.Addr, since map[netip.Addr]time.Time) error {
	for peer := range since {
		if !slices.Contains(missing, peer) {
			delete(since, peer)
		}
	}
	var late []string
	var reason error
	for _, peer := range missing {
		if _, known := since[peer]; !known {
			since[peer] = time.Now()
		}
		if time.Since(since[peer]) > peerPatience {
			late = append(late, peer.String())
			if reason == nil {
				reason = a.crypt.Problem(peer)
			}
		}
	}
	if len(late) == 0 {
		return nil
	}
	consequence := "goes in the clear"
	if a.config.Encryption == ipsec.Enforce {
		consequence = "is dropped"
	}
	problem := fmt.Errorf("what this node sends to %s %s, since they and it have no IKE_SA", strings.Join(late, ", "), consequence)
	if reason != nil {
		problem = fmt.Errorf("%w: %w", problem, reason)
	}
	return problem
}

// guardTunnels keeps a node that must not send in the clear from joining before it cannot.
func (a *agent) guardTunnels() error {
	if a.crypt == nil || a.config.Encryption != ipsec.Enforce {
		return nil
	}
	if err := errors.Join(a.offloaded(), a.crypt.Guard()); err != nil {
		return fmt.Errorf("encryption: %w", err)
	}
	return nil
}

// offloaded says why the kernel's IPsec does not see all that the tunnels send.
func (a *agent) offloaded() error {
	root, err := a.ovs.Root()
	if err != nil || !a.config.Encrypts() || root.OtherConfig["hw-offload"] != "true" {
		return nil
	}
	return errors.New("other_config:hw-offload of Open vSwitch is true, and a device that encapsulates passes by the kernel's IPsec: remove it (ovs-vsctl remove Open_vSwitch . other_config hw-offload) and restart ovs-vswitchd, or set encryption to \"off\"")
}

func (a *agent) encryptionCollectors() []prometheus.Collector {
	return []prometheus.Collector{a.metrics.encrypted, a.metrics.unencrypted}
}
