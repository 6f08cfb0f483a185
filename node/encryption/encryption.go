package encryption

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"strings"

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

// Guarded comes before all else: after a boot Open vSwitch has tunnels from before. What fails here is told by the
// first look. That ovn-controller does not start then is [Guard]'s.
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

// Guard writes the policies without which nothing drops what tunnels would send in the clear, and says why it cannot.
// It does nothing if encryption is not enforced.
func Guard(config nodeconfig.Config) error {
	if config.Encryption != ipsec.Enforce {
		return nil
	}
	crypt, err := newKeeper(config)
	if err != nil || crypt == nil {
		return err
	}
	defer crypt.Close() // the policies stay
	if err := crypt.Guard(); err != nil {
		return fmt.Errorf("encryption: write the kernel's IPsec policies: %w", err)
	}
	return nil
}

// Tunnels keeps the tunnels as the key encryption wants them.
type Tunnels struct {
	Keeper
	mode   ipsec.Mode
	ovs    *openvswitch.Database
	health *health.Tracker
	rounds *health.Rounds
	peers  *peers

	encrypted, unencrypted, windows prometheus.Gauge
}

func New(
	keeper Keeper, mode ipsec.Mode, ovs *openvswitch.Database, state *health.Tracker, rounds *health.Rounds,
	nodes WindowsNodes,
) *Tunnels {
	return &Tunnels{
		Keeper: keeper, mode: mode, ovs: ovs, health: state, rounds: rounds, peers: newPeers(nodes),
		encrypted: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "weft_encrypted_peers", Help: "Nodes to which this node sends by ESP.",
		}),
		unencrypted: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "weft_unencrypted_peers", Help: "Nodes to which this node should send by ESP, and does not. If encryption " +
				"is begin, a Windows node counts here only for its first minute. With hw-offload of Open vSwitch, all nodes " +
				"count that would otherwise count as encrypted.",
		}),
		windows: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "weft_unencrypted_windows_peers", Help: "Windows nodes to which this node sends without ESP, as encryption " +
				"begin has it.",
		}),
	}
}

func (e *Tunnels) Collectors() []prometheus.Collector {
	return []prometheus.Collector{e.encrypted, e.unencrypted, e.windows}
}

// wanted says whether tunnels are, or may be, encrypted.
func (e *Tunnels) wanted() bool { return e.mode == ipsec.Begin || e.mode == ipsec.Enforce }

// Reconcile keeps the tunnels until ctx ends.
func (e *Tunnels) Reconcile(ctx context.Context) error {
	e.Run(ctx, func(ctx context.Context) {
		e.rounds.Do("encryption", func() { e.reconcileOnce(ctx) })
	})
	return nil
}

func (e *Tunnels) reconcileOnce(ctx context.Context) {
	if !e.ovs.Connected() {
		return // and who the peers are is not known
	}
	peers := e.ovs.TunnelPeers()
	status, err := e.Keep(ctx, peers)
	if !e.wanted() {
		e.health.Note(health.ClearTunnels, encryptionLeft, err)
		return
	}
	if offloaded := e.offloaded(); offloaded != nil {
		// There may be SAs to all peers, and packets still pass by them.
		status, err = ipsec.Status{Missing: peers}, errors.Join(offloaded, err)
	}
	e.report(ctx, status, err)
}

// report tells that the node cannot encrypt, or, if it can, which peers have gone without encryption for long.
func (e *Tunnels) report(ctx context.Context, status ipsec.Status, err error) {
	if e.mode == ipsec.Enforce {
		e.health.Set(health.Encryption, err)
	}
	e.health.Note(health.ClearTunnels, encryptionImpossible, err)
	missing := e.judge(ctx, status.Missing)
	e.encrypted.Set(float64(status.Encrypted))
	e.unencrypted.Set(float64(len(missing)))
	var overdue error
	if err == nil {
		overdue = e.overdue(missing)
	}
	e.health.Note(health.EncryptedPeers, peersNotEncrypted, overdue)
}

// judge leaves out the Windows nodes, to which nothing is encrypted. If tunnels must be encrypted, they are cut off,
// and count as others.
func (e *Tunnels) judge(ctx context.Context, missing []netip.Addr) []netip.Addr {
	e.peers.observe(missing)
	windows := 0
	if e.mode == ipsec.Begin {
		missing, windows = e.peers.split(ctx, missing)
	}
	e.windows.Set(float64(windows))
	return missing
}

// overdue tells of peers that have gone without encryption for long.
func (e *Tunnels) overdue(missing []netip.Addr) error {
	var overdue []string
	var reason error
	for _, peer := range e.peers.overdue(missing) {
		overdue = append(overdue, peer.String())
		if reason == nil {
			reason = e.Problem(peer)
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
