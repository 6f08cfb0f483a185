package ipsec

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/strongswan/govici/vici"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/weftnet/weft/models/signal"
)

const (
	defaultRenewal = time.Hour
	// resync is how often there is a look though nothing has told of a change.
	resync = 2 * time.Second
	// exchangeTime is how long a peer may take to answer; charon goes on asking it for longer.
	exchangeTime = 10 * time.Second
	firstPause   = time.Second // after which a peer that has refused is asked again
	longestPause = 30 * time.Second
	// callTime bounds charon's answer to what it does at once.
	callTime = 5 * time.Second
	// openings is how many peers are asked at the same time.
	openings = 8
)

// Keeper keeps policies and SAs of one node as they must be.
type Keeper struct {
	config   Config
	policies policies
	slots    chan struct{}
	// attention is given when something may have changed.
	attention signal.Signal

	loaded map[string]connection // what charon has been told
	key    []byte                // the private key that it has
	keyID  string
	left   bool         // encryption is off, and nothing of it is left
	secure []netip.Addr // peers that have been found encrypted

	mu      sync.Mutex
	opening map[netip.Addr]*opening
}

// opening is what has become of asking a peer.
type opening struct {
	under   bool
	last    time.Time
	pause   time.Duration
	problem error
}

// New binds the keeper to a network namespace, the calling thread's where it is none.
func New(config Config, ns netns.NsHandle) (*Keeper, error) {
	handle, err := netlink.NewHandleAt(ns, unix.NETLINK_XFRM)
	if err != nil {
		return nil, fmt.Errorf("open a netlink socket for IPsec policies: %w; this needs a kernel with XFRM "+
			"(CONFIG_XFRM_USER)", err)
	}
	if config.Renewal == 0 {
		config.Renewal = defaultRenewal
	}
	return &Keeper{
		config: config, policies: policies{handle}, slots: make(chan struct{}, openings), attention: signal.New(),
		loaded: map[string]connection{}, opening: map[netip.Addr]*opening{},
	}, nil
}

// Close releases the keeper's sockets. What it made stays.
func (k *Keeper) Close() { k.policies.netlink.Close() }

// Guard makes the kernel's policies those of the mode. From then on nothing passes in the clear that must not.
func (k *Keeper) Guard() error { return k.policies.ensure(k.config.Mode, false) }

// Keep looks once at policies, charon and its SAs, and puts right what is not as it must be. It returns before peers
// have answered, and asks for another look then.
func (k *Keeper) Keep(ctx context.Context, peers []netip.Addr) (Status, error) {
	status := Status{Missing: peers}
	if err := k.Guard(); err != nil {
		return status, err
	}
	if k.config.Mode == Off {
		return Status{}, k.leave(ctx)
	}
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	secrets, err := k.config.Files.read(k.config.Address, time.Now())
	if err != nil {
		return status, err
	}
	session, err := k.dial()
	if err != nil {
		return status, err
	}
	defer session.Close()
	if err := k.load(ctx, session, peers, secrets); err != nil {
		return status, err
	}
	asked := k.asked() // of these there may be associations that are not found yet
	found, err := associations(ctx, session)
	if err != nil {
		return status, err
	}
	waiting := func(peer netip.Addr) bool { return slices.Contains(asked, peer) || k.pausing(peer, found) }
	steps := plan(peers, found, waiting, time.Since(secrets.changed), k.config.Renewal)
	for _, a := range steps.retire {
		if err := k.policies.withdraw(a); err != nil {
			return status, err
		}
	}
	if err := terminate(ctx, session, slices.Concat(steps.retire, steps.end)); err != nil {
		return status, err
	}
	for _, peer := range steps.initiate {
		k.open(peer)
	}
	status = Status{Encrypted: len(peers) - len(steps.missing), Missing: steps.missing}
	return status, k.welcome(peers, steps.missing)
}

// Problem is why no SA to a peer could be opened, nil if nothing is known.
func (k *Keeper) Problem(peer netip.Addr) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if o := k.opening[peer]; o != nil {
		return o.problem
	}
	return nil
}

// welcome writes the policies afresh when a peer has become encrypted. The kernel's tunnels remember a route that
// passes an optional policy in the clear, until a policy is written.
func (k *Keeper) welcome(peers, missing []netip.Addr) error {
	secure := slices.DeleteFunc(slices.Clone(peers), func(p netip.Addr) bool { return slices.Contains(missing, p) })
	isNew := slices.ContainsFunc(secure, func(p netip.Addr) bool { return !slices.Contains(k.secure, p) })
	k.secure = secure
	if k.config.Mode != Begin || !isNew {
		return nil
	}
	return k.policies.ensure(k.config.Mode, true)
}

// Enqueue asks for a look.
func (k *Keeper) Enqueue() { k.attention.Set() }

// Run calls look, which is to call Keep, whenever something may have changed, until ctx ends. Where encryption is
// off, it ends when nothing of it is left.
func (k *Keeper) Run(ctx context.Context, look func(context.Context)) {
	var watching sync.WaitGroup
	defer watching.Wait()
	if k.config.Mode != Off {
		watching.Go(func() { k.watchEvents(ctx) })
	}
	tick := time.NewTicker(resync)
	defer tick.Stop()
	for {
		look(ctx)
		if k.left {
			return
		}
		select {
		case <-k.attention:
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// watchEvents asks for a look at each of charon's events, and begins anew when charon does.
func (k *Keeper) watchEvents(ctx context.Context) {
	again := time.NewTicker(time.Second)
	defer again.Stop()
	for {
		if err := k.watchSession(ctx); err != nil {
			slog.DebugContext(ctx, "charon's events cannot be followed", "error", err)
		}
		k.Enqueue()
		select {
		case <-again.C:
		case <-ctx.Done():
			return
		}
	}
}

// watchSession returns when ctx or charon ends.
func (k *Keeper) watchSession(ctx context.Context) error {
	session, err := k.dial()
	if err != nil {
		return err
	}
	defer session.Close()
	events := make(chan vici.Event, 64) // one that does not fit has others before it
	session.NotifyEvents(events)
	// An IKE_SA that goes takes its children along. A second event would be one too many: govici waits for charon to
	// confirm it, with a lock that the first one needs to be heard (v0.8.0, clientConn.subscribe).
	if err := session.Subscribe("child-updown"); err != nil {
		return fmt.Errorf("subscribe to charon's events: %w", err)
	}
	for {
		k.Enqueue() // what has happened before is seen too
		select {
		case _, more := <-events:
			if !more {
				return errors.New("charon has ended")
			}
		case <-ctx.Done():
			return nil
		}
	}
}

func (k *Keeper) dial() (*vici.Session, error) {
	session, err := vici.NewSession(vici.WithAddr("unix", k.config.Charon))
	if err != nil {
		return nil, fmt.Errorf("encryption-charon: %w; install strongSwan (charon-systemd, strongswan-swanctl) and see "+
			"that its service strongswan runs", err)
	}
	return session, nil
}

// load gives charon the key and the connections of the peers, and takes away those of others.
func (k *Keeper) load(ctx context.Context, session *vici.Session, peers []netip.Addr, secrets credentials) error {
	before := k.keyID
	if err := k.loadPrivateKey(ctx, session, secrets.privateKey); err != nil {
		return err
	}
	there, err := connections(ctx, session)
	if err != nil {
		return err
	}
	for _, peer := range peers {
		name, want := connectionName(peer), newConnection(k.config.Address, peer, secrets)
		if slices.Contains(there, name) && reflect.DeepEqual(k.loaded[name], want) {
			continue
		}
		if err := call(ctx, session, "load-conn", map[string]connection{name: want}); err != nil {
			return fmt.Errorf("tell charon of peer %v: %w", peer, err)
		}
		k.loaded[name] = want
	}
	if err := k.forget(ctx, session, there, peers); err != nil {
		return err
	}
	if before != "" && before != k.keyID {
		if err := call(ctx, session, "unload-key", map[string]string{"id": before}); err != nil {
			slog.Warn("charon keeps a key that is of no use any more", "error", err)
		}
	}
	return nil
}

// loadPrivateKey gives charon the private key, if it has not got it.
func (k *Keeper) loadPrivateKey(ctx context.Context, session *vici.Session, pem []byte) error {
	there, err := keys(ctx, session)
	if err != nil || slices.Contains(there, k.keyID) && bytes.Equal(k.key, pem) {
		return err
	}
	if k.keyID, err = loadKey(ctx, session, pem); err != nil {
		return err
	}
	k.key = pem
	return nil
}

// forget takes the connections of all but the peers from charon.
func (k *Keeper) forget(ctx context.Context, session *vici.Session, there []string, peers []netip.Addr) error {
	for _, name := range there {
		peer, ours := peerOf(name)
		if !ours || slices.Contains(peers, peer) {
			continue
		}
		if err := call(ctx, session, "unload-conn", map[string]string{"name": name}); err != nil {
			return fmt.Errorf("take peer %v from charon: %w", peer, err)
		}
		delete(k.loaded, name)
	}
	return nil
}

// leave takes from charon what it has of the tunnels.
func (k *Keeper) leave(ctx context.Context) error {
	session, err := k.dial()
	if err != nil { // a host without charon has nothing
		k.left = true
		return nil
	}
	defer session.Close()
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	there, err := connections(ctx, session)
	if err != nil {
		return err
	}
	if err := k.forget(ctx, session, there, nil); err != nil {
		return err
	}
	found, err := associations(ctx, session)
	if err != nil {
		return err
	}
	k.left = len(found) == 0
	children, last := farewell(found)
	return errors.Join(terminateEach(ctx, session, "child-id", children), terminate(ctx, session, last))
}

// asked are the peers that are being asked for an association.
func (k *Keeper) asked() []netip.Addr {
	k.mu.Lock()
	defer k.mu.Unlock()
	var peers []netip.Addr
	for peer, o := range k.opening {
		if o.under {
			peers = append(peers, peer)
		}
	}
	return peers
}

// pausing says whether a peer is to be left alone for a while since it has refused. One that has asked itself
// meanwhile is not.
func (k *Keeper) pausing(peer netip.Addr, found []association) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	o := k.opening[peer]
	if o == nil {
		return false
	}
	established := slices.ContainsFunc(found, func(a association) bool {
		return a.peer == peer && !a.Initiator && a.State == stateEstablished && a.age() < time.Since(o.last)
	})
	return !established && time.Since(o.last) < o.pause
}

// open opens an IKE_SA to a peer with the child by which this node sends.
func (k *Keeper) open(peer netip.Addr) {
	k.mu.Lock()
	defer k.mu.Unlock()
	o := k.opening[peer]
	if o == nil {
		o = &opening{}
		k.opening[peer] = o
	}
	o.under = true
	go func() {
		k.slots <- struct{}{}
		defer func() { <-k.slots }()
		err := k.initiate(peer)
		k.mu.Lock()
		o.under, o.last, o.problem = false, time.Now(), err
		o.pause = min(max(2*o.pause, firstPause), longestPause)
		if err == nil {
			o.pause = 0
		}
		k.mu.Unlock()
		k.Enqueue()
	}()
}

func (k *Keeper) initiate(peer netip.Addr) error {
	session, err := k.dial()
	if err != nil {
		return err
	}
	defer session.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 2*exchangeTime)
	defer cancel()
	err = call(ctx, session, "initiate", map[string]string{
		"ike": connectionName(peer), "child": childOut, "timeout": fmt.Sprint(exchangeTime.Milliseconds()),
	})
	if err != nil {
		return fmt.Errorf("open an IKE_SA to %v: %w; charon's log says why", peer, err)
	}
	return nil
}
