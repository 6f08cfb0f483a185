package hostservice

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"net/netip"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/node/statefile"
)

// A daemon of the host that starts later than the agent, as after a boot, or that starts anew, finds its port as it has
// left it: the agent remembers where other programs listen, and stays away from there.
const (
	// lookPeriod is how often the agent looks at who listens.
	lookPeriod = 10 * time.Second
	// steadyLooks in a row are what makes a listener one to remember: who has a port for a moment is no daemon.
	steadyLooks = 2
	// mostMissed looks in a row without a listener, ten minutes of the agent's own time, and it is forgotten.
	mostMissed = int(10 * time.Minute / lookPeriod)
	// tellLooks are between two changes of what the cluster is told, a minute: each is a write to the Node, which all
	// nodes read.
	tellLooks = int(time.Minute / lookPeriod)
	// mostRemembered bounds the file: whoever may run programs on the host may have them listen at any number of ports.
	mostRemembered = 4096
)

// errDaemon is why the agent does not listen where a program does, or did.
var errDaemon = errors.New("another program has the port, or had it")

// listeners are where programs listen. At the unspecified address of a family it is all of that family's.
type listeners map[socket]struct{}

// has says whether a program that listens is in the way of a socket.
func (l listeners) has(at socket) bool {
	every := netip.IPv6Unspecified()
	if at.at.Addr().Is4() {
		every = netip.IPv4Unspecified()
	}
	_, one := l[at]
	_, all := l[socket{at.protocol, netip.AddrPortFrom(every, at.at.Port())}]
	return one || all
}

// daemons are the other programs of the host, by where they listen.
type daemons struct {
	path   string // of the file that outlives the agent; "": none
	period time.Duration
	// listening finds the listeners of all processes but this one; nil: nobody looks.
	listening func() (listeners, error)

	known    map[socket]*daemon
	unsaved  bool
	problems map[string]string // the last one of each kind, which the log has

	told   []socket // the steady ones, as the cluster is to be told of them, sorted; nil: nobody knows yet
	looks  int      // of this run, up to steadyLooks
	silent int      // looks since told has changed
}

// daemon is one listener.
type daemon struct {
	seen   int // looks, up to steadyLooks; 0: it has been so by the file, and was not there yet in this run
	missed int // looks in a row
	steady bool
}

func newDaemons(path string, listening func() (listeners, error)) *daemons {
	return &daemons{path: path, period: lookPeriod, listening: listening, known: map[socket]*daemon{},
		problems: map[string]string{}}
}

// remembered is the file.
type remembered struct {
	// Listeners are written as "tcp 192.0.2.1:53", sorted.
	Listeners []string `json:"listeners"`
}

// load reads what was remembered. A file that cannot be read is told of, and made anew.
func (d *daemons) load() {
	if d.path == "" {
		return
	}
	content, err := os.ReadFile(d.path)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	var list []socket
	if err == nil {
		list, err = parseRemembered(content)
	}
	if err != nil {
		slog.Warn("the agent does not know any more which ports daemons of the host had before; it makes the file anew, "+
			"and until a daemon listens its port may be a Service's or a pod's",
			"file", d.path, "error", err)
		d.unsaved = true
		return
	}
	for _, at := range list {
		d.known[at] = &daemon{steady: true}
	}
}

func parseRemembered(content []byte) ([]socket, error) {
	var file remembered
	if err := json.Unmarshal(content, &file); err != nil {
		return nil, err
	}
	if len(file.Listeners) > mostRemembered {
		return nil, fmt.Errorf("%d listeners, and at most %d are written", len(file.Listeners), mostRemembered)
	}
	var list []socket
	for _, text := range file.Listeners {
		protocol, address, _ := strings.Cut(text, " ")
		at, err := netip.ParseAddrPort(address)
		if err != nil || protocol != tcp && protocol != udp || at.Port() == 0 || at.Addr().Zone() != "" ||
			at.Addr().Is4In6() {
			return nil, fmt.Errorf("%q is no listener", text)
		}
		list = append(list, socket{protocol, at})
	}
	return list, nil
}

// scan takes in who listens now. It says whether anything is, or is not any more, in the way of the agent, or to be
// told. Where the system does not say who listens, everything stays. What the agent has opened for Services and pods is
// no daemon's, whosever the system says that it is: Wine gives other processes for sockets of TCP.
func (d *daemons) scan(own func(socket) bool) (changed bool) {
	if d.listening == nil {
		return false
	}
	now, err := d.listening()
	d.report("look", "cannot see who listens on the host; daemons that start later than the agent may find their "+
		"ports taken", err)
	if err == nil {
		maps.DeleteFunc(now, func(at socket, _ struct{}) bool { return own(at) })
		changed = d.count(now)
		changed = d.publish() || changed
	}
	d.save()
	return changed
}

// count takes one look into account.
func (d *daemons) count(now listeners) (changed bool) {
	for at, one := range d.known {
		if _, there := now[at]; there {
			continue
		}
		one.missed++
		if !one.steady || one.missed >= mostMissed {
			d.unsaved = d.unsaved || one.steady
			delete(d.known, at)
			changed = true
		}
	}
	left := 0
	for at := range now {
		one := d.known[at]
		if one == nil {
			if len(d.known) >= mostRemembered {
				left++
				continue
			}
			one = &daemon{}
			d.known[at], changed = one, true
		}
		one.seen, one.missed = min(one.seen+1, steadyLooks), 0
		if !one.steady && one.seen == steadyLooks {
			one.steady, d.unsaved = true, true
		}
	}
	d.report("bound", "the host has more listeners than the agent remembers", bound(left, mostRemembered))
	return changed
}

// publish takes the steady listeners over into what the cluster is told: from the second look of a run on, since the
// first one does not know yet who was there before.
func (d *daemons) publish() (changed bool) {
	d.looks, d.silent = min(d.looks+1, steadyLooks), d.silent+1
	if d.looks < steadyLooks || d.told != nil && d.silent < tellLooks {
		return false
	}
	now := []socket{}
	for at, one := range d.known {
		if one.steady {
			now = append(now, at)
		}
	}
	slices.SortFunc(now, compareSockets)
	if d.told != nil && slices.Equal(now, d.told) {
		return false
	}
	if d.silent = 0; d.told == nil { // daemons that have begun with the agent follow at once
		d.silent = tellLooks
	}
	d.told = now
	return true
}

// compareSockets puts those first that clients know: of low ports.
func compareSockets(a, b socket) int {
	return cmp.Or(cmp.Compare(a.at.Port(), b.at.Port()), cmp.Compare(a.protocol, b.protocol),
		a.at.Addr().Compare(b.at.Addr()))
}

// facts are what the cluster is told of them: those at the host's addresses, without the ports that are always hosts'
// own.
func (d *daemons) facts(host Host) contract.Listeners {
	var list contract.Listeners
	own, left := host.Network.OwnPorts(), 0
	every := func(at socket, addr netip.Addr) bool {
		one := socket{at.protocol, netip.AddrPortFrom(addr, at.at.Port())}
		_, found := slices.BinarySearchFunc(d.told, one, compareSockets)
		return found
	}
	for _, at := range d.told {
		one := contract.Listener{Protocol: at.protocol, Addr: at.at.Addr(), Port: at.at.Port()}
		four, six := every(at, netip.IPv4Unspecified()), every(at, netip.IPv6Unspecified())
		switch {
		case own.Has(at.protocol, one.Port):
			continue
		case !one.Addr.IsUnspecified():
			if one.Addr.Is4() && four || one.Addr.Is6() && six || !slices.Contains(host.Addresses, one.Addr) {
				continue
			}
		case four && six:
			if one.Addr.Is6() {
				continue
			}
			one.Addr = netip.Addr{}
		}
		if len(list) < contract.MostOfFacts {
			list = append(list, one)
		} else {
			left++
		}
	}
	d.report("told", "the host has more listeners than the cluster is told of; pods and Services may have the ports of "+
		"the others",
		bound(left, contract.MostOfFacts))
	return list
}

func bound(left, most int) error {
	if left == 0 {
		return nil
	}
	return fmt.Errorf("%d are left out, beyond %d", left, most)
}

// inTheWay are the listeners of the last look, and those that are remembered.
func (d *daemons) inTheWay() listeners {
	all := make(listeners, len(d.known))
	for at := range d.known {
		all[at] = struct{}{}
	}
	return all
}

// awaits says whether a daemon that had a port before this agent began has not come yet.
func (d *daemons) awaits(protocol string, port uint16) bool {
	for at, one := range d.known {
		if one.seen == 0 && at.protocol == protocol && at.at.Port() == port {
			return true
		}
	}
	return false
}

// save writes what is to be remembered, where that has changed.
func (d *daemons) save() {
	if !d.unsaved || d.path == "" {
		return
	}
	file := remembered{Listeners: []string{}}
	for at, one := range d.known {
		if one.steady {
			file.Listeners = append(file.Listeners, at.String())
		}
	}
	slices.Sort(file.Listeners)
	content, err := json.MarshalIndent(file, "", "  ")
	if err == nil {
		err = statefile.Replace(d.path, content)
	}
	d.report("save", "cannot write where daemons of the host listen; after a boot their ports may be taken before they "+
		"start: make the folder writable for the agent", err)
	d.unsaved = err != nil
}

// report logs what has become wrong, once.
func (d *daemons) report(kind, message string, err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	if text != "" && text != d.problems[kind] {
		slog.Warn(message, "file", d.path, "error", err)
	}
	d.problems[kind] = text
}

// await looks again and again, until something else is to be done: changed is full, the time to retry has come, or ctx
// has ended.
func (d *daemons) await(ctx context.Context, own func(socket) bool, changed <-chan struct{}, retry <-chan time.Time) {
	looks := time.NewTicker(d.period)
	defer looks.Stop()
	for {
		select {
		case <-looks.C:
			if d.scan(own) {
				return
			}
		case <-changed:
			return
		case <-retry:
			return
		case <-ctx.Done():
			return
		}
	}
}
