package capture

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"strconv"
	"strings"

	"golang.org/x/net/bpf"

	api "github.com/weftnet/weft/models/api/observe/v1alpha1"
	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/models/pcapng"
	"github.com/weftnet/weft/node/pktmon"
)

// enoughForFilter is how much of a packet the filter may look at: the headers of a frame in a tunnel, of the longest
// options.
const enoughForFilter = 512

// PacketMonitor captures by Windows' Packet Monitor, which has packets when a capture has ended.
func PacketMonitor(m *pktmon.Monitor) Backend {
	open := func(ctx context.Context, d Device, spec api.CaptureSpec) (source, error) {
		return monitor(ctx, m, d, spec)
	}
	return Backend{open: open, late: true, reclaim: m.Reclaim}
}

// monitor begins to capture the packets of a device.
func monitor(ctx context.Context, m *pktmon.Monitor, d Device, spec api.CaptureSpec) (source, error) {
	program, err := bpf.NewVM(filter(spec, d.Tunnels))
	if err != nil {
		return nil, fmt.Errorf("make the filter of device %s: %w", d.Name, err)
	}
	session, err := m.Start(ctx, pktmon.Capture{Adapter: d.MAC[:], Filters: monitorFilters(spec.Filter, d.Tunnels),
		SnapLength: monitorLength(spec.SnapLength), Bytes: spec.Bytes})
	if err != nil {
		return nil, err
	}
	return &monitored{session: session, device: d, program: program}, nil
}

// monitorFilters let pass what the filter of a spec lets pass, and more: [monitored] goes by that one itself. Packet
// Monitor does not look into GENEVE.
func monitorFilters(f api.CaptureFilter, tunnels bool) []pktmon.Filter {
	if tunnels {
		return []pktmon.Filter{{Protocol: "UDP", Port: contract.TunnelPort}}
	}
	address, _ := netip.ParseAddr(f.Address) // it is checked, or empty
	switch f.Protocol {
	case "arp":
		return []pktmon.Filter{{EtherType: "ARP"}}
	case "icmp":
		return []pktmon.Filter{{Protocol: "ICMP", Address: address}, {Protocol: "ICMPv6", Address: address}}
	case "tcp", "udp":
		return []pktmon.Filter{{Protocol: strings.ToUpper(f.Protocol), Address: address, Port: f.Port}}
	case "sctp": // whose ports it is not said to know
		return []pktmon.Filter{{Protocol: strconv.Itoa(protocolSCTP), Address: address}}
	}
	return []pktmon.Filter{{Address: address}}
}

// monitorLength is how much Packet Monitor keeps of a packet of which so many bytes are wanted.
func monitorLength(snapLength int) int {
	if snapLength == contract.MaxSnapLength {
		return 0 // all
	}
	return max(snapLength, enoughForFilter)
}

// monitored has the packets of a session of Packet Monitor.
type monitored struct {
	session *pktmon.Session
	device  Device
	program *bpf.VM
	file    *os.File
	reader  *pcapng.Reader
	seen    uint64
	lost    uint64
}

func (m *monitored) finish(ctx context.Context) error {
	name, lost, err := m.session.Finish(ctx)
	if err != nil {
		return err
	}
	m.lost = lost
	if m.file, err = os.Open(name); err != nil {
		return err
	}
	m.reader = pcapng.NewReader(m.file)
	return nil
}

func (m *monitored) next(buffer []byte) (pcapng.Packet, error) {
	for {
		p, err := m.reader.Next()
		switch {
		case errors.Is(err, io.EOF):
			return p, errGone
		case err != nil:
			return p, fmt.Errorf("read what pktmon has made of its packets: %w", err)
		case p.Link != pcapng.LinkEthernet || !m.isOurs(p.Data):
			continue
		}
		length, err := m.program.Run(p.Data)
		if err != nil {
			return p, fmt.Errorf("filter the packets of device %s: %w", m.device.Name, err)
		}
		if length == dropped {
			continue
		}
		m.seen++
		// A pod's packets are seen from the host's side of its interface, those of the tunnels from the host.
		p.Outgoing = bytes.Equal(p.Data[6:12], m.device.MAC[:]) == m.device.Tunnels
		p.Data = buffer[:copy(buffer, p.Data[:min(length, len(p.Data))])]
		return p, nil
	}
}

// isOurs says whether a frame comes from or goes to the device. Packet Monitor's filters see to that, and a mistake
// there must not show the packets of others.
func (m *monitored) isOurs(frame []byte) bool {
	return len(frame) >= ethernetHeader &&
		(bytes.Equal(frame[:6], m.device.MAC[:]) || bytes.Equal(frame[6:12], m.device.MAC[:]))
}

func (m *monitored) counts() (seen, lost uint64, err error) { return m.seen + m.lost, m.lost, nil }

func (m *monitored) Close() error {
	if m.file != nil {
		m.file.Close()
	}
	return m.session.Close()
}
