package listeners

import (
	"context"
	"fmt"
	"iter"
	"log/slog"
	"maps"
	"net/netip"
	"time"

	"github.com/weftnet/weft/models/contract"
)

// Period is how often an agent looks at who listens.
const Period = 10 * time.Second

const (
	// steadyLooks in a row are what makes a listener one to remember: who has a port for a moment is no daemon.
	steadyLooks = 2
	// mostMissed looks in a row without a listener, ten minutes of the agent's own time, and it is forgotten.
	mostMissed = int(10 * time.Minute / Period)
	// mostRemembered bounds the file: whoever may run programs on the host may have them listen at any number of ports.
	mostRemembered = 4096
)

// Daemons are the other programs of the host, by the sockets at which they listen. One goroutine uses them.
type Daemons struct {
	file   string // that outlives the agent; "": none
	period time.Duration
	next   time.Time // of the next look
	// listening finds the listeners of all processes but this one.
	listening func() (Set, error)

	known    map[Socket]*daemon
	unsaved  bool              // the file is another one
	facts    facts             // what the cluster is told of them
	problems map[string]string // the last one of each kind, which the log has
}

// daemon is one listener.
type daemon struct {
	seen   int // looks, up to steadyLooks; 0: it has been so by the file, and was not there yet in this run
	missed int // looks in a row
	steady bool
}

// NewDaemons are none until they are loaded and looked for. The file keeps them for the next run of the agent; without
// a name nothing is kept. [Daemons.Await] looks once in each period, however often it is called.
func NewDaemons(file string, period time.Duration) *Daemons {
	return &Daemons{file: file, period: period, listening: listening, known: map[Socket]*daemon{},
		problems: map[string]string{}}
}

// Scan takes in who listens now. It says whether anything is, or is not any more, in the way of the agent, or to be
// told. Where the system does not say who listens, everything stays. The agent's own sockets are no daemon's, even if
// the system names another process: Wine does so for TCP.
func (d *Daemons) Scan(own func(Socket) bool) (changed bool) {
	d.next = time.Now().Add(d.period)
	now, err := d.listening()
	d.report("look", "cannot see who listens on the host; daemons that start later than the agent may find their "+
		"ports taken", err)
	if err == nil {
		maps.DeleteFunc(now, func(at Socket, _ struct{}) bool { return own(at) })
		changed = d.count(now)
		changed = d.facts.update(d.steady()) || changed
	}
	d.save()
	return changed
}

// count takes one look into account.
func (d *Daemons) count(now Set) (changed bool) {
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

// steady are those to remember.
func (d *Daemons) steady() iter.Seq[Socket] {
	return func(yield func(Socket) bool) {
		for at, one := range d.known {
			if one.steady && !yield(at) {
				return
			}
		}
	}
}

// Facts are what the cluster is told of the daemons of a host with these addresses: those at the addresses, without the
// ports that are hosts' own always. They change once a minute at most. Known is false before the second look.
func (d *Daemons) Facts(own contract.HostPorts, addresses []netip.Addr) (list contract.Listeners, known bool) {
	if !d.facts.known() {
		return nil, false
	}
	list, left := d.facts.list(own, addresses)
	d.report("told", "the host has more listeners than the cluster is told of; pods and Services may have the ports of "+
		"the others",
		bound(left, contract.MostOfFacts))
	return list, true
}

func bound(left, most int) error {
	if left == 0 {
		return nil
	}
	return fmt.Errorf("%d are left out, beyond %d", left, most)
}

// InTheWay are the listeners of the last look, and those that are remembered.
func (d *Daemons) InTheWay() Set {
	all := make(Set, len(d.known))
	for at := range d.known {
		all.Add(at)
	}
	return all
}

// Awaits says whether a daemon that had a port before this agent began has not come yet.
func (d *Daemons) Awaits(protocol string, port uint16) bool {
	for at, one := range d.known {
		if one.seen == 0 && at.Protocol == protocol && at.At.Port() == port {
			return true
		}
	}
	return false
}

// report logs what has become wrong, once.
func (d *Daemons) report(kind, message string, err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	if text != "" && text != d.problems[kind] {
		slog.Warn(message, "file", d.file, "error", err)
	}
	d.problems[kind] = text
}

// Await scans whenever a period is over, until something else is to be done: a scan has changed something, changed is
// full, the time to retry has come, or ctx has ended.
func (d *Daemons) Await(ctx context.Context, own func(Socket) bool, changed <-chan struct{}, retry <-chan time.Time) {
	for {
		if !time.Now().Before(d.next) && d.Scan(own) {
			return
		}
		select {
		case <-time.After(time.Until(d.next)):
		case <-changed:
			return
		case <-retry:
			return
		case <-ctx.Done():
			return
		}
	}
}
