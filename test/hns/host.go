package hns

import (
	"cmp"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strconv"
	"strings"
)

// Host is the host's own IP configuration, as iphlpapi reads and changes it. Interfaces are named by
// their index. Errors are [Error]s where Windows has one for it.
type Host interface {
	Interfaces() ([]Interface, error)
	AddAddress(index int, address netip.Prefix) error
	DeleteAddress(index int, address netip.Addr) error
	Routes() ([]InterfaceRoute, error)
	AddRoute(r InterfaceRoute) error
	SetRoute(r InterfaceRoute) error
	DeleteRoute(r InterfaceRoute) error
	// AddNeighbour adds one that is not known yet, SetNeighbour changes one that is. Both last.
	AddNeighbour(n InterfaceNeighbour) error
	SetNeighbour(n InterfaceNeighbour) error
	SetMTU(index, mtu int) error
	SetUp(index int) error
	// Watch calls event with "ready" and then a line for each change (dll/ipnotify.c reads them), until ctx ends.
	Watch(ctx context.Context, event func(line string)) error
}

// Interface of the host.
type Interface struct {
	Index     int
	Name      string
	Hardware  bool // a physical adapter, and none that HNS made
	MAC       net.HardwareAddr
	MTU       int
	Connected bool
	// Endpoint: it is the vNIC of an endpoint, whose MTU is the endpoint's.
	Endpoint bool
}

// InterfaceRoute is a route and its interface.
type InterfaceRoute struct {
	Index int
	HostRoute
}

// InterfaceNeighbour is a neighbour on an interface.
type InterfaceNeighbour struct {
	Index   int
	Address netip.Addr
	MAC     net.HardwareAddr
}

// The calls that iphlpapi.dll forwards. notifyFunction keeps its connection: a line a change.
const notifyFunction = "NotifyChanges"

var hostFunctions = map[string]bool{
	"ListInterfaces": true, "ListIpForwardTable": true, "ListIpInterfaceTable": true,
	"CreateUnicastIpAddressEntry": true, "SetUnicastIpAddressEntry": true, "DeleteUnicastIpAddressEntry": true,
	"CreateIpForwardEntry2": true, "SetIpForwardEntry2": true, "DeleteIpForwardEntry2": true,
	"CreateIpNetEntry2": true, "SetIpNetEntry2": true,
	"SetIpInterfaceEntry": true, "SetInterfaceDnsSettings": true, "SetIfEntry": true,
}

// interfaceSettings are settings of an interface and family that Linux has no equal of: kept and shown.
type interfaceSettings struct {
	Metric               int
	AutomaticMetric      bool
	Forwarding           bool
	DisableDefaultRoutes bool
}

type interfaceFamily struct {
	index  int
	family int // AF_INET 2, AF_INET6 23 as Windows numbers them
}

// InterfaceDNS is what SetInterfaceDnsSettings has set.
type InterfaceDNS struct {
	Interface   string
	Family      int
	NameServers string
	SearchList  string
}

// ipHelper is iphlpapi: what Linux has too is a [Host]'s, and the other settings are remembered.
type ipHelper struct {
	system     *system
	interfaces map[interfaceFamily]interfaceSettings
	dns        map[interfaceFamily]InterfaceDNS
}

func newIPHelper(s *system) *ipHelper {
	return &ipHelper{system: s, interfaces: map[interfaceFamily]interfaceSettings{},
		dns: map[interfaceFamily]InterfaceDNS{}}
}

// call does what the function of that name does, and returns what it prints.
func (p *ipHelper) call(host Host, c call) (string, error) {
	if host == nil {
		return "", Win32NotSupported
	}
	fields := strings.Fields(c.body)
	switch c.function {
	case "ListInterfaces":
		return p.listInterfaces(host)
	case "ListIpForwardTable":
		return listRoutes(host)
	case "ListIpInterfaceTable":
		return p.listIPInterfaces(host)
	case "SetIpInterfaceEntry":
		return "", p.setIPInterface(host, fields)
	case "SetInterfaceDnsSettings":
		return "", p.setDNS(host, c.body)
	case "SetIfEntry": // an adapter is enabled
		n, err := numbers(fields, 1)
		if err != nil {
			return "", err
		}
		return "", host.SetUp(n[0])
	case "CreateUnicastIpAddressEntry", "SetUnicastIpAddressEntry", "DeleteUnicastIpAddressEntry":
		return "", changeAddress(host, c.function, fields)
	case "CreateIpNetEntry2", "SetIpNetEntry2":
		return "", changeNeighbour(host, c.function, fields)
	}
	return "", changeRoute(host, c.function, fields)
}

// hostCompartment is the compartment of the host itself.
const hostCompartment = 1

// listInterfaces writes a line an interface: INDEX HARDWARE COMPARTMENT MTU CONNECTED MAC NAME,
// the MAC as hexadecimal digits, "-" for none.
func (p *ipHelper) listInterfaces(host Host) (string, error) {
	list, err := host.Interfaces()
	var text strings.Builder
	for _, i := range list {
		compartment, mtu := p.place(i)
		mac := cmp.Or(hex.EncodeToString(i.MAC), "-")
		fmt.Fprintf(&text, "%d %d %d %d %d %s %s\n", i.Index, number(i.Hardware), compartment, mtu, number(i.Connected), mac,
			i.Name)
	}
	return text.String(), err
}

func number(b bool) int {
	if b {
		return 1
	}
	return 0
}

// ethernetMTU in bytes is that of a vNIC that has not been given another.
const ethernetMTU = 1500

// place returns an interface's compartment and MTU: of an endpoint's vNIC those of its end in there.
func (p *ipHelper) place(i Interface) (compartment uint32, mtu int) {
	if !i.Endpoint {
		return hostCompartment, i.MTU
	}
	p.system.mu.Lock()
	defer p.system.mu.Unlock()
	for _, e := range p.system.objects.Endpoints {
		space := p.system.objects.namespace(e.HostComputeNamespace)
		if e.device() != i.Name || space == nil {
			continue
		}
		if e.MTU > 0 {
			return space.NamespaceID, e.MTU
		}
		return space.NamespaceID, ethernetMTU // the tap may have another one, which Open vSwitch has given it
	}
	return hostCompartment, i.MTU
}

// listRoutes writes a line a route: INDEX DESTINATION NEXT-HOP METRIC.
func listRoutes(host Host) (string, error) {
	routes, err := host.Routes()
	var text strings.Builder
	for _, r := range routes {
		hop := r.NextHop
		if !hop.IsValid() { // on link: Windows writes the family's zero address
			hop = netip.IPv4Unspecified()
			if r.Destination.Addr().Is6() {
				hop = netip.IPv6Unspecified()
			}
		}
		fmt.Fprintf(&text, "%d %s %s %d\n", r.Index, r.Destination, hop, r.Metric)
	}
	return text.String(), err
}

// listIPInterfaces writes a line an interface and family:
// INDEX FAMILY MTU CONNECTED METRIC AUTOMATIC FORWARDING DISABLE-DEFAULT-ROUTES.
func (p *ipHelper) listIPInterfaces(host Host) (string, error) {
	list, err := host.Interfaces()
	var text strings.Builder
	for _, i := range list {
		_, mtu := p.place(i)
		for _, family := range []int{2, 23} {
			p.system.mu.Lock()
			set, known := p.interfaces[interfaceFamily{i.Index, family}]
			p.system.mu.Unlock()
			if !known {
				set = interfaceSettings{Metric: 25, AutomaticMetric: true}
			}
			fmt.Fprintf(&text, "%d %d %d %d %d %d %d %d\n", i.Index, family, mtu, number(i.Connected),
				set.Metric, number(set.AutomaticMetric), number(set.Forwarding), number(set.DisableDefaultRoutes))
		}
	}
	return text.String(), err
}

// setIPInterface takes INDEX FAMILY MTU METRIC AUTOMATIC FORWARDING DISABLE-DEFAULT-ROUTES; an MTU of
// 0 leaves it.
func (p *ipHelper) setIPInterface(host Host, fields []string) error {
	n, err := numbers(fields, 7)
	if err != nil {
		return err
	}
	one, err := interfaceOf(host, n[0])
	if err != nil {
		return err
	}
	p.system.mu.Lock()
	p.interfaces[interfaceFamily{n[0], n[1]}] = interfaceSettings{
		Metric: n[3], AutomaticMetric: n[4] != 0, Forwarding: n[5] != 0, DisableDefaultRoutes: n[6] != 0}
	p.system.mu.Unlock()
	if _, mtu := p.place(one); n[2] == 0 || n[2] == mtu {
		return nil
	}
	if !one.Endpoint {
		return host.SetMTU(n[0], n[2])
	}
	p.system.mu.Lock()
	defer p.system.mu.Unlock()
	for _, e := range p.system.objects.Endpoints {
		if e.device() == one.Name {
			e.MTU = n[2]
		}
	}
	p.system.keep()
	return nil
}

func (p *ipHelper) setDNS(host Host, body string) error {
	var d struct {
		Index int
		InterfaceDNS
	}
	if err := json.Unmarshal([]byte(body), &d); err != nil {
		return err
	}
	one, err := interfaceOf(host, d.Index)
	if err != nil {
		return err
	}
	d.Interface = one.Name
	p.system.mu.Lock()
	defer p.system.mu.Unlock()
	p.dns[interfaceFamily{d.Index, d.Family}] = d.InterfaceDNS
	return nil
}

func interfaceOf(host Host, index int) (Interface, error) {
	list, err := host.Interfaces()
	if err != nil {
		return Interface{}, err
	}
	for _, i := range list {
		if i.Index == index {
			return i, nil
		}
	}
	return Interface{}, Win32FileNotFound
}

func numbers(fields []string, want int) ([]int, error) {
	if len(fields) != want {
		return nil, Win32InvalidParameter
	}
	n := make([]int, want)
	for i, f := range fields {
		var err error
		if n[i], err = strconv.Atoi(f); err != nil {
			return nil, Win32InvalidParameter
		}
	}
	return n, nil
}

// changeAddress takes INDEX ADDRESS/LENGTH.
func changeAddress(host Host, function string, fields []string) error {
	if len(fields) != 2 {
		return Win32InvalidParameter
	}
	index, err := strconv.Atoi(fields[0])
	prefix, prefixErr := netip.ParsePrefix(fields[1])
	if err != nil || prefixErr != nil {
		return Win32InvalidParameter
	}
	switch function {
	case "DeleteUnicastIpAddressEntry":
		return host.DeleteAddress(index, prefix.Addr())
	case "SetUnicastIpAddressEntry":
		if err := host.DeleteAddress(index, prefix.Addr()); err != nil {
			return err
		}
	}
	return host.AddAddress(index, prefix)
}

// lasting is the state of a neighbour that was set for good, NlnsPermanent of NL_NEIGHBOR_STATE.
const lasting = 6

// changeNeighbour takes INDEX ADDRESS MAC STATE, the MAC as hexadecimal digits.
func changeNeighbour(host Host, function string, fields []string) error {
	if len(fields) != 4 {
		return Win32InvalidParameter
	}
	index, err := strconv.Atoi(fields[0])
	address, addressErr := netip.ParseAddr(fields[1])
	mac, macErr := hex.DecodeString(fields[2])
	if errors.Join(err, addressErr, macErr) != nil || len(mac) != 6 || fields[3] != strconv.Itoa(lasting) {
		return Win32InvalidParameter
	}
	n := InterfaceNeighbour{index, address, mac}
	if function == "SetIpNetEntry2" {
		return host.SetNeighbour(n)
	}
	return host.AddNeighbour(n)
}

// changeRoute takes INDEX DESTINATION NEXT-HOP METRIC.
func changeRoute(host Host, function string, fields []string) error {
	if len(fields) != 4 {
		return Win32InvalidParameter
	}
	index, err := strconv.Atoi(fields[0])
	destination, destinationErr := netip.ParsePrefix(fields[1])
	hop, hopErr := netip.ParseAddr(fields[2])
	metric, metricErr := strconv.Atoi(fields[3])
	if errors.Join(err, destinationErr, hopErr, metricErr) != nil {
		return Win32InvalidParameter
	}
	if hop.IsUnspecified() {
		hop = netip.Addr{}
	}
	r := InterfaceRoute{index, HostRoute{Destination: destination.Masked(), NextHop: hop, Metric: metric}}
	switch function {
	case "DeleteIpForwardEntry2":
		return host.DeleteRoute(r)
	case "SetIpForwardEntry2":
		return host.SetRoute(r)
	}
	return host.AddRoute(r)
}

// watch writes the host's changes to a caller until it goes.
func watch(ctx context.Context, conn io.ReadWriter, host Host) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() { // the caller never writes again: what ends the read is its going
		_, _ = conn.Read(make([]byte, 1))
		cancel()
	}()
	if host == nil { // nothing ever changes
		_, _ = io.WriteString(conn, "ready\n")
		<-ctx.Done()
		return
	}
	_ = host.Watch(ctx, func(line string) {
		if _, err := io.WriteString(conn, line+"\n"); err != nil {
			cancel()
		}
	})
}
