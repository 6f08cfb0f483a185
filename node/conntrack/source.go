package conntrack

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/node/unixctl"
)

const (
	// answerTime bounds everything from the question to the end of the answer.
	answerTime = 10 * time.Second
	// maxDump bounds what ovs-vswitchd may list, in bytes: some 300,000 entries.
	maxDump = 64 << 20
)

// Config says where a node's connections are found.
type Config struct {
	// Sockets are those at which ovs-vswitchd may answer.
	Sockets func() []string
	// BridgeIDs are the external_ids of br-int, where ovn-controller notes its zones as ct-zone-NAME.
	BridgeIDs func() map[string]string
	// Twin is a bit that the numbers of further zones have, which are OVN's zones for other protocols; 0: there are none.
	Twin uint16
	// Inside are the networks of pods. Of what is in zone 0, which a router may share with the host, only connections
	// with such an end are told.
	Inside func() []netip.Prefix
}

// Source tells a node's connections, to one that asks at a time.
type Source struct {
	config Config
	most   int           // how many connections it tells
	busy   chan struct{} // has room for one
}

// New is a source of a node's connections.
func New(c Config) *Source {
	return &Source{config: c, most: contract.MaxConnections, busy: make(chan struct{}, 1)}
}

// Open gives a connection on which the node's connections are, as lines of JSON of [contract.ConnectionRecord], and
// which then ends.
func (s *Source) Open(context.Context) (net.Conn, error) {
	theirs, ours := net.Pipe()
	go func() {
		defer ours.Close()
		ctx, cancel := context.WithTimeout(context.Background(), answerTime)
		defer cancel()
		defer context.AfterFunc(ctx, func() { ours.Close() })()
		if err := s.tell(ctx, ours); err != nil {
			slog.Warn("connections are not told", "error", errors.Join(err, ctx.Err()))
		}
	}()
	return theirs, nil
}

// tell writes the answer. Its error is that of the writer: whatever else fails is told.
func (s *Source) tell(ctx context.Context, w io.Writer) error {
	select {
	case s.busy <- struct{}{}:
		defer func() { <-s.busy }()
	case <-ctx.Done():
		return ctx.Err()
	}
	out := bufio.NewWriter(w)
	encoder := json.NewEncoder(out)
	var end contract.ConnectionsEnd
	text, err := s.dump(ctx)
	if err != nil {
		end.Error = err.Error()
	}
	told := 0
	for c := range s.connections(text, &end) {
		if told++; told > s.most {
			end.Omitted++
			continue
		}
		if err := encoder.Encode(contract.ConnectionRecord{Connection: &c}); err != nil {
			return err
		}
	}
	return errors.Join(encoder.Encode(contract.ConnectionRecord{End: &end}), out.Flush())
}

// dump asks ovs-vswitchd for all entries. It answers other questions only after that.
func (s *Source) dump(ctx context.Context) (text string, err error) {
	err = errors.New("it has no control socket on this node: see ovs-database and ovs-control of weft node")
	for _, socket := range s.config.Sockets() {
		if text, err = unixctl.CallWithin(ctx, maxDump, socket, "dpctl/dump-conntrack", "-s"); err == nil {
			return text, nil
		}
	}
	return "", fmt.Errorf("ask ovs-vswitchd for its connections: %w", err)
}

// connections are those of a dump that are OVN's. Lines that cannot be read are counted as omitted.
func (s *Source) connections(text string, end *contract.ConnectionsEnd) iter.Seq[contract.Connection] {
	zones, inside := zonesOf(s.config.BridgeIDs(), s.config.Twin), s.config.Inside()
	return func(yield func(contract.Connection) bool) {
		var unread error
		for line := range strings.Lines(text) {
			c, zone, err := Parse(strings.TrimSpace(line))
			_, known := zones[zone]
			switch {
			case err != nil:
				unread = err
				end.Omitted++
				continue
			case !known || zone == 0 && !hasEnd(&c, inside):
				continue
			}
			if !yield(c) {
				return
			}
		}
		if unread != nil {
			slog.Warn("an entry of connection tracking cannot be read, and is not told; report it", "error", unread)
		}
	}
}

// zonesOf are the numbers of OVN's zones and of their twins.
func zonesOf(ids map[string]string, twin uint16) map[uint16]struct{} {
	zones := map[uint16]struct{}{}
	for key, value := range ids {
		number, err := strconv.ParseUint(value, 10, 16)
		if !strings.HasPrefix(key, "ct-zone-") || err != nil {
			continue
		}
		zones[uint16(number)] = struct{}{}
		if number != 0 {
			zones[uint16(number)|twin] = struct{}{}
		}
	}
	return zones
}

// hasEnd says whether one of the ends of a connection is in one of these networks.
func hasEnd(c *contract.Connection, networks []netip.Prefix) bool {
	for _, end := range []netip.AddrPort{c.Original.Source, c.Original.Destination, c.Reply.Source} {
		if slices.ContainsFunc(networks, func(p netip.Prefix) bool { return p.Contains(end.Addr()) }) {
			return true
		}
	}
	return false
}
