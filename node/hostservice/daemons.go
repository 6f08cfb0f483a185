package hostservice

import (
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

	"github.com/weftnet/weft/node/statefile"
)

// A daemon of the host that starts later than the agent, as after a boot, or that starts anew, finds its port as it has left
// it: the agent remembers where other programs listen, and stays away from there.
const (
	// lookPeriod is how often the agent looks at who listens.
	lookPeriod = 10 * time.Second
	// steadyLooks in a row are what makes a listener one to remember: who has a port for a moment is no daemon.
	steadyLooks = 2
	// mostMissed looks in a row without a listener, ten minutes of the agent's own time, and it is forgotten.
	mostMissed = int(10 * time.Minute / lookPeriod)
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
}

// daemon is one listener.
type daemon struct {
	seen   int // looks, up to steadyLooks; 0: it has been so by the file, and was not there yet in this run
	missed int // looks in a row
	steady bool
}

func newDaemons(path string, listening func() (listeners, error)) *daemons {
	return &daemons{path: path, period: lookPeriod, listening: listening, known: map[socket]*daemon{}, problems: map[string]string{}}
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
		slog.Warn("the agent does not know any more which ports daemons of the host had before; it makes the file anew, and until a daemon listens its port may be a Service's or a pod's",
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
		if err != nil || protocol != tcp && protocol != udp || at.Port() == 0 || at.Addr().Zone() != "" || at.Addr().Is4In6() {
			return nil, fmt.Errorf("%q is no listener", text)
		}
		list = append(list, socket{protocol, at})
	}
	return list, nil
}

// look takes in who listens now. It says whether anything is, or is not any more, in the way of the agent. Where the system
// does not say who listens, everything stays. What the agent has opened for Services and pods is no daemon's, whosever the
// system says that it is: Wine gives other processes for sockets of TCP.
func (d *daemons) look(own func(socket) bool) (changed bool) {
	if d.listening == nil {
		return false
	}
	now, err := d.listening()
	d.report("look", "cannot see who listens on the host; daemons that start later than the agent may find their ports taken", err)
	if err == nil {
		maps.DeleteFunc(now, func(at socket, _ struct{}) bool { return own(at) })
		changed = d.take(now)
	}
	d.save()
	return changed
}

// take counts a look.
func (d *daemons) take(now listeners) (changed bool) {
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
	d.report("bound", "the host has more listeners than the agent remembers", bound(left))
	return changed
}

func bound(left int) error {
	if left == 0 {
		return nil
	}
	return fmt.Errorf("%d are left out, beyond %d", left, mostRemembered)
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
	d.report("save", "cannot write where daemons of the host listen; after a boot their ports may be taken before they start: make the folder writable for the agent", err)
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

// await looks again and again, until something else is to be done: changed is full, the time to retry has come, or ctx has
// ended.
func (d *daemons) await(ctx context.Context, own func(socket) bool, changed <-chan struct{}, retry <-chan time.Time) {
	looks := time.NewTicker(d.period)
	defer looks.Stop()
	for {
		select {
		case <-looks.C:
			if d.look(own) {
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
