package node

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"strings"
	"testing"

	"github.com/weftnet/weft/models/contract"
)

// connections are those that the agent tells, as "PROTOCOL SOURCE > DESTINATION < ANSWERER STATE", without the ports of
// sources.
func (c *cluster) connections() (told string, err error) {
	conn, err := c.agent.newConnections().Open(c.tb.Context())
	if err != nil {
		return "", err
	}
	defer conn.Close()
	var text strings.Builder
	for records := json.NewDecoder(conn); ; {
		var record contract.ConnectionRecord
		switch err := records.Decode(&record); {
		case errors.Is(err, io.EOF):
			return text.String(), errors.New("the answer has no end")
		case err != nil:
			return text.String(), err
		case record.End != nil && record.End.Error != "":
			return text.String(), errors.New(record.End.Error)
		case record.End != nil:
			return text.String(), nil
		}
		e := record.Connection
		fmt.Fprintf(&text, "%s %v > %v < %v %s\n", e.Protocol, e.Original.Source.Addr(), e.Original.Destination,
			e.Reply.Source, e.State)
	}
}

// TestConnectionsOfARealNode: the agent tells what a real datapath remembers of pods, also where the host's zone is a
// router's, and nothing of the host's own connections.
func TestConnectionsOfARealNode(t *testing.T) {
	g := newGatewayCluster(t)
	g.echo("", 22)
	g.echo(g.outside, 80)
	g.nodePort()
	g.decide()
	g.startAgent()
	g.awaitReady()
	var facts contract.NodeFacts
	g.eventually(func() (err error) { facts, err = g.facts(); return err })
	web := g.newPod("web", 3)
	g.allocate(web)
	g.mustAdd(web)
	g.echo(web.sandbox, 80)
	g.gateway(facts, web)
	g.ovn.NB("set", "logical_router", "gw-"+testNode, "options:snat-ct-zone=0")
	g.ovn.NB("--wait=hv", "sync")
	for _, talk := range []struct {
		ns   string
		to   netip.Addr
		port uint16
	}{{web.sandbox, outsideHost, 80}, {web.sandbox, outsideHost6, 80}, {g.outside, gatewayHost, 30080},
		{g.outside, gatewayHost, 22}, {"", outsideHost, 80}} {
		g.eventually(func() error {
			conn, err := open(talk.ns, talk.to, talk.port)
			if err == nil {
				t.Cleanup(func() { conn.Close() })
			}
			return err
		})
	}
	g.datagram(g.outside, netip.AddrPortFrom(gatewayHost, 9))
	at := func(addr netip.Addr, port uint16) string { return netip.AddrPortFrom(addr, port).String() }
	line := func(source netip.Addr, destination, answerer string) string {
		return fmt.Sprintf("tcp %v > %s < %s ESTABLISHED\n", source, destination, answerer)
	}
	g.eventually(func() error {
		told, err := g.connections()
		for _, want := range []string{
			line(web.address, at(outsideHost, 80), at(outsideHost, 80)),
			line(web.address6, at(outsideHost6, 80), at(outsideHost6, 80)),
			line(outsideHost, at(gatewayHost, 30080), at(web.address, 80)), // in the router's own zone
			line(outsideHost, at(web.address, 80), at(web.address, 80)),    // in that of the host
		} {
			if err == nil && !strings.Contains(told, want) {
				err = fmt.Errorf("no %sin\n%s", want, told)
			}
		}
		return err
	})
	told, err := g.connections()
	for _, own := range []string{at(gatewayHost, 22), "tcp " + gatewayHost.String() + " >", "udp "} {
		if err != nil || strings.Contains(told, own) {
			t.Errorf("%v: the host's own connection %q is told:\n%s", err, own, told)
		}
	}
	g.stop()
}
