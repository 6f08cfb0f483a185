package pktmon

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
)

// filter lets packets pass that are as all its fields say.
type filter struct {
	name      string
	macs      []net.HardwareAddr
	etherType layers.EthernetType // 0: any
	transport int                 // -1: any
	addresses []netip.Prefix
	ports     []uint16
}

var (
	etherTypes = map[string]layers.EthernetType{"IPV4": layers.EthernetTypeIPv4, "IPV6": layers.EthernetTypeIPv6,
		"ARP": layers.EthernetTypeARP}
	transports = map[string]int{"TCP": int(layers.IPProtocolTCP), "UDP": int(layers.IPProtocolUDP),
		"ICMP": int(layers.IPProtocolICMPv4), "ICMPV6": int(layers.IPProtocolICMPv6)}
)

// parseFilter reads what is behind `filter add`.
func parseFilter(words []string) (f filter, err error) {
	names, o, err := parse(words, filterParameters)
	switch {
	case err != nil:
		return f, err
	case len(names) > 1:
		return f, fmt.Errorf("unexpected '%s'", names[1])
	case len(o) == 0:
		return f, errors.New("a filter needs a condition")
	}
	f = filter{name: strings.Join(names, ""), transport: -1}
	for _, text := range o["--mac-address"] {
		mac, err := net.ParseMAC(text)
		if err != nil {
			return f, fmt.Errorf("invalid MAC address '%s'", text)
		}
		f.macs = append(f.macs, mac)
	}
	if text := o.first("--data-link"); text != "" {
		if f.etherType = etherTypes[strings.ToUpper(text)]; f.etherType == 0 {
			return f, fmt.Errorf("invalid data link protocol '%s'", text)
		}
	}
	if text := o.first("--transport-protocol"); text != "" {
		if f.transport, err = parseTransport(text); err != nil {
			return f, err
		}
	}
	for _, text := range o["--ip-address"] {
		address, err := netip.ParseAddr(text)
		if err != nil {
			return f, fmt.Errorf("invalid IP address '%s'", text)
		}
		f.addresses = append(f.addresses, netip.PrefixFrom(address, address.BitLen()))
	}
	for _, text := range o["--port"] {
		port, err := strconv.ParseUint(text, 10, 16)
		if err != nil || port == 0 {
			return f, fmt.Errorf("invalid port '%s'", text)
		}
		f.ports = append(f.ports, uint16(port))
	}
	return f, nil
}

func parseTransport(text string) (int, error) {
	if number, known := transports[strings.ToUpper(text)]; known {
		return number, nil
	}
	number, err := strconv.ParseUint(text, 10, 8)
	if err != nil {
		return 0, fmt.Errorf("invalid transport protocol '%s'", text)
	}
	return int(number), nil
}

// fits says whether a frame has all that the filter asks for.
func (f filter) fits(frame []byte) bool {
	if len(frame) < 14 {
		return false
	}
	for _, mac := range f.macs {
		if !bytes.Equal(mac, frame[:6]) && !bytes.Equal(mac, frame[6:12]) {
			return false
		}
	}
	p := gopacket.NewPacket(frame, layers.LayerTypeEthernet, gopacket.DecodeOptions{Lazy: true, NoCopy: true})
	if e, is := p.LinkLayer().(*layers.Ethernet); f.etherType != 0 && (!is || e.EthernetType != f.etherType) {
		return false
	}
	return f.fitsAddresses(p) && f.fitsTransport(p)
}

func (f filter) fitsAddresses(p gopacket.Packet) bool {
	if len(f.addresses) == 0 {
		return true
	}
	network := p.NetworkLayer()
	if network == nil {
		return false
	}
	source, destination := network.NetworkFlow().Endpoints()
	return !slices.ContainsFunc(f.addresses, func(wanted netip.Prefix) bool {
		from, _ := netip.AddrFromSlice(source.Raw())
		to, _ := netip.AddrFromSlice(destination.Raw())
		return !wanted.Contains(from) && !wanted.Contains(to)
	})
}

func (f filter) fitsTransport(p gopacket.Packet) bool {
	protocol := -1
	switch ip := p.NetworkLayer().(type) {
	case *layers.IPv4:
		protocol = int(ip.Protocol)
	case *layers.IPv6:
		protocol = int(ip.NextHeader)
	}
	if f.transport >= 0 && protocol != f.transport {
		return false
	}
	var source, destination uint16
	switch t := p.TransportLayer().(type) {
	case *layers.TCP:
		source, destination = uint16(t.SrcPort), uint16(t.DstPort)
	case *layers.UDP:
		source, destination = uint16(t.SrcPort), uint16(t.DstPort)
	}
	return !slices.ContainsFunc(f.ports, func(wanted uint16) bool { return wanted != source && wanted != destination })
}

// table is what `filter list` prints of filters.
func table(filters []filter) string {
	if len(filters) == 0 {
		return "Packet Filters:\n    None\n"
	}
	var text strings.Builder
	text.WriteString("Packet Filters:\n     # Name    MAC Address       Protocol IP Address      Port\n" +
		"     - ----    -----------       -------- ----------      ----\n")
	for i, f := range filters {
		name := f.name
		if name == "" {
			name = "<empty>"
		}
		fmt.Fprintf(&text, "%6d %-7s %-17s %-8s %-15s %s\n", i+1, name, joined(f.macs, hyphens), of(f.transport),
			joined(f.addresses, netip.Prefix.String), joined(f.ports, func(p uint16) string { return strconv.Itoa(int(p)) }))
	}
	return text.String()
}

func of(transport int) string {
	if transport < 0 {
		return ""
	}
	return strconv.Itoa(transport)
}

func joined[T any](list []T, text func(T) string) string {
	var words []string
	for _, one := range list {
		words = append(words, text(one))
	}
	return strings.Join(words, " ")
}

// hyphens is a MAC address as Windows writes it.
func hyphens(mac net.HardwareAddr) string {
	return strings.ToUpper(strings.ReplaceAll(mac.String(), ":", "-"))
}
