package extbridge

import (
	"github.com/digitalocean/go-openvswitch/ovs"

	"github.com/weftnet/weft/node/ctlookup"
)

// A port whose packets Hyper-V's connection tracking reads, see package ctlookup.
type helped struct {
	proto ovs.Protocol
	port  ovs.Match
}

func (f family) helped() (all []helped) {
	for _, proto := range []ovs.Protocol{f.tcp, f.udp} {
		for _, port := range []uint16{ctlookup.FTP, ctlookup.TFTP} {
			all = append(all, helped{proto, ovs.TransportSourcePort(port)},
				helped{proto, ovs.TransportDestinationPort(port)})
		}
	}
	return all
}

// keepFromHelpers keeps packets of FTP and TFTP from connection tracking. The host's pass untracked: those from outside
// by the action that is given. The gateway router's are dropped. So are those, in the tables that commit, whose ports
// were hidden in fragments until a lookup put them together. Where no lookup comes first there is one that does so.
func (w *flows) keepFromHelpers(toHost ovs.Action, committing ...int) {
	if !w.HyperV || w.FTP {
		return
	}
	for _, f := range families {
		for _, h := range f.helped() {
			w.add(tableClassify, fromHost+90, ovs.Normal()).port(ovs.PortLOCAL).proto(h.proto).with(h.port)
			w.add(tableClassify, fromOutside+90, toHost).proto(h.proto).to(w.MAC).with(h.port)
			if w.HostAddresses {
				w.add(tableClassify, fromGateway+90, ovs.Drop()).from(w.MAC).proto(h.proto).with(h.port)
			}
			for _, table := range committing {
				w.add(table, 100, ovs.Drop()).proto(h.proto).with(h.port)
			}
		}
	}
}
