package encryption

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

	"github.com/weftnet/weft/node/health"
	"github.com/weftnet/weft/node/ipsec"
	"github.com/weftnet/weft/node/nodeconfig"
	"github.com/weftnet/weft/node/openvswitch"
)

// Keeper encrypts what the node's tunnels send, see [ipsec.Keeper].
type Keeper interface {
	// Guard: from now on nothing passes in the clear that must not.
	Guard() error
	// Keep looks once whether peers are encrypted, and does what they lack.
	Keep(ctx context.Context, peers []netip.Addr) (ipsec.Status, error)
	// Problem is why a peer cannot be encrypted, as far as that is known.
	Problem(peer netip.Addr) error
	// Run calls look whenever Keep may have something to do, until ctx ends; Enqueue has it do so soon.
	Run(ctx context.Context, look func(context.Context))
	Enqueue()
	Close()
}

// peerPatience is how long a peer may go without encryption before it is told: it may just join or start anew.
const peerPatience = time.Minute

// Guarded comes before all else: after a boot Open vSwitch has tunnels from before, and nothing waits for the
// agent before it sends by them. What fails here is told by the first look.
func Guarded(config nodeconfig.Config) (Keeper, error) {
	crypt, err := newKeeper(config)
	if err != nil || crypt == nil || config.Encryption != ipsec.Enforce {
		return crypt, err
	}
	if err := crypt.Guard(); err != nil {
		slog.Warn("tunnels are not guarded yet", "error", err)
	}
	return crypt, nil
}

// Tunnels keeps the tunnels as the key encryption wants them.
type Tunnels struct {
	Keeper
	mode   ipsec.Mode
	ovs    *openvswitch.Database
	health *health.Tracker
	rounds *health.Rounds

	encrypted, unencrypted prometheus.Gauge
}

func New(
	keeper Keeper, mode ipsec.Mode, ovs *openvswitch.Database, state *health.Tracker, rounds *health.Rounds,
) *Tunnels {
	return &Tunnels{
		Keeper: keeper, mode: mode, ovs: ovs, health: state, rounds: rounds,
		encrypted: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "weft_encrypted_peers", Help: "Nodes to which this node sends by ESP.",
		}),
		unencrypted: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "weft_unencrypted_peers", Help: "Nodes to which this node should send by ESP, and cannot.",
		}),
	}
}

func (e *Tunnels) Collectors() []prometheus.Collector {
	return []prometheus.Collector{e.encrypted, e.unencrypted}
}

// wanted says whether tunnels are, or may be, encrypted.
func (e *Tunnels) wanted() bool { return e.mode == ipsec.Begin || e.mode == ipsec.Enforce }

// Reconcile keeps the tunnels until ctx ends.
func (e *Tunnels) Reconcile(ctx context.Context) error {
	since := map[netip.Addr]time.Time{}
	e.Run(ctx, func(ctx context.Context) {
		e.rounds.Do("encryption", func() { e.reconcileOnce(ctx, since) })
	})
	return nil
}

// reconcileOnce looks once; since is when a peer was first seen without encryption.
func (e *Tunnels) reconcileOnce(ctx context.Context, since map[netip.Addr]time.Time) {
	if !e.ovs.Connected() {
		return // and who the peers are is not known
	}
	status, err := e.Keep(ctx, e.ovs.TunnelPeers())
	if !e.wanted() {
		e.health.Note(health.ClearTunnels, encryptionLeft, err)
		return
	}
	err = errors.Join(e.offloaded(), err)
	if e.mode == ipsec.Enforce {
		e.health.Set(health.Encryption, err)
	}
	e.health.Note(health.ClearTunnels, encryptionImpossible, err)
	e.encrypted.Set(float64(status.Encrypted))
	e.unencrypted.Set(float64(len(status.Missing)))
	if err == nil {
		e.health.Note(health.EncryptedPeers, peersNotEncrypted, e.overdue(status.Missing, since))
	}
}

// overdue tells of peers that have gone without encryption for long.
func (e *Tunnels) overdue(missing []netip.Addr, since map[netip.Addr]time.Time) error {
	for peer := range since {
		if !slices.Contains(missing, peer) {
			delete(since, peer)
		}
	}
	var overdue []string
	var reason error
	for _, peer := range missing {
		if _, known := since[peer]; !known {
			since[peer] = time.Now()
		}
		if time.Since(since[peer]) > peerPatience {
			overdue = append(overdue, peer.String())
			if reason == nil {
				reason = e.Problem(peer)
			}
		}
	}
	if len(overdue) == 0 {
		return nil
	}
	consequence := "goes in the clear"
	if e.mode == ipsec.Enforce {
		consequence = "is dropped"
	}
	problem := fmt.Errorf("what this node sends to %s %s, since they and it have no IKE_SA", strings.Join(overdue, ", "),
		consequence)
	if reason != nil {
		problem = fmt.Errorf("%w: %w", problem, reason)
	}
	return problem
}

// Ready says why a node that must not send in the clear has to wait before it joins.
func (e *Tunnels) Ready() error {
	if e.mode != ipsec.Enforce {
		return nil
	}
	if err := errors.Join(e.offloaded(), e.Guard()); err != nil {
		return fmt.Errorf("encryption: %w", err)
	}
	return nil
}

// offloaded says why the kernel's IPsec does not see all that the tunnels send.
func (e *Tunnels) offloaded() error {
	root, err := e.ovs.Root()
	if err != nil || !e.wanted() || root.OtherConfig["hw-offload"] != "true" {
		return nil
	}
	return errors.New("other_config:hw-offload of Open vSwitch is true, and a device that encapsulates passes by the " +
		"kernel's IPsec: remove it (ovs-vsctl remove Open_vSwitch . other_config hw-offload) and restart ovs-vswitchd, or " +
		"set encryption to \"off\"")
}
