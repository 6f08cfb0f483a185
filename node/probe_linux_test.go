package node

import (
	"encoding/json"
	"errors"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	api "github.com/weftnet/weft/models/api/observe/v1alpha1"
	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/node/nodetest"
	"github.com/weftnet/weft/node/tunnel"
	"github.com/weftnet/weft/test/freeport"
)

// askForProbe is what a door does.
func askForProbe(t *testing.T, address string, door tunnel.Credentials, request contract.ProbeRequest) (
	said contract.ProbeReply) {
	t.Helper()
	var conn net.Conn
	nodetest.Eventually(t, nodetest.Patience, func() (err error) {
		conn, err = tunnel.Dial(t.Context(), address, tunnel.Probe, door, tunnel.AgentName(testNode))
		return err
	})
	defer conn.Close()
	if err := errors.Join(conn.SetDeadline(time.Now().Add(nodetest.Patience)), json.NewEncoder(conn).Encode(request),
		json.NewDecoder(conn).Decode(&said)); err != nil {
		t.Fatal(err)
	}
	return said
}

// TestProbesOfRealPods: a door has a pod send to another one, by OVN, as long as it is there. Nobody else has.
func TestProbesOfRealPods(t *testing.T) {
	c, ca := newCluster(t), newAuthority(t)
	c.config.TunnelAddress = freeport.Address(t)
	c.config.TunnelCA, c.config.TunnelCertificate, c.config.TunnelPrivateKey = ca.issue(tunnel.AgentName(testNode),
		time.Now().Add(time.Hour))
	c.decide()
	c.startAgent()
	c.awaitReady()
	web, db := c.newPod("web", 3), c.newPod("db", 4)
	for _, p := range []*pod{web, db} {
		c.allocate(p)
		c.mustAdd(p)
	}
	c.mustReach(web, db.address)
	var listener net.Listener
	if err := nodetest.Inside(db.sandbox, func() (err error) {
		listener, err = net.Listen("tcp", net.JoinHostPort(db.address.String(), "3307"))
		return err
	}); err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	door := tunnel.Files(ca.issue(tunnel.ObserverName, time.Now().Add(time.Hour)))
	from := func(p *pod, port uint16) contract.ProbeRequest {
		return contract.ProbeRequest{Pod: contract.PodReference(p.Pod), User: "carol", Protocol: "tcp", Source: p.address,
			Destination: netip.AddrPortFrom(db.address, port)}
	}
	for port, want := range map[uint16]string{3307: api.ProbeAnswered, 3308: api.ProbeRefused} {
		if said := askForProbe(t, c.config.TunnelAddress, door, from(web, port)); said.Result != want {
			t.Errorf("port %d: %+v, want %s", port, said, want)
		}
	}
	refusesOthers(t, c.config.TunnelAddress, ca, tunnel.Probe)

	successor := from(db, 3307)
	successor.Pod.Name = web.Name
	if err := c.del(web); err != nil {
		t.Fatal(err)
	}
	for about, ask := range map[string]struct {
		request contract.ProbeRequest
		want    string
	}{
		"a pod that has gone":        {from(web, 3307), "has no interface"},
		"another pod's UID":          {successor, "has no interface"},
		"an address of another pod":  {withSource(from(db, 3307), web.address), "does not have the address"},
		"an address of the host":     {withSource(from(db, 3307), nth(testSubnet, 2)), "does not have the address"},
		"a destination on the host":  {withDestination(from(db, 3307), "127.0.0.1:22"), "destination: "},
		"a destination of the cloud": {withDestination(from(db, 3307), "169.254.169.254:80"), "destination: "},
	} {
		if said := askForProbe(t, c.config.TunnelAddress, door, ask.request); said.Result != "" ||
			!strings.Contains(said.Error, ask.want) {
			t.Errorf("%s: %+v, want %q", about, said, ask.want)
		}
	}
}

func withSource(r contract.ProbeRequest, source netip.Addr) contract.ProbeRequest {
	r.Source = source
	return r
}

func withDestination(r contract.ProbeRequest, destination string) contract.ProbeRequest {
	r.Destination = netip.MustParseAddrPort(destination)
	return r
}
