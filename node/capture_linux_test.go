package node

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/weftnet/weft/models/api/observe/v1alpha1"
	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/node/nodeconfig"
	"github.com/weftnet/weft/node/nodetest"
	"github.com/weftnet/weft/node/tunnel"
	"github.com/weftnet/weft/test/freeport"
)

// askForPackets is what a door does. Without an error of the agent's, pcapng follows.
func askForPackets(t *testing.T, address string, door tunnel.Credentials, pod *contract.PodReference,
	spec api.CaptureSpec) (said contract.CaptureReply, packets *bufio.Reader) {
	t.Helper()
	var conn net.Conn
	nodetest.Eventually(t, nodetest.Patience, func() (err error) {
		conn, err = tunnel.Dial(t.Context(), address, tunnel.Capture, door, tunnel.AgentName(testNode))
		return err
	})
	t.Cleanup(func() { conn.Close() })
	packets = bufio.NewReader(conn)
	err := errors.Join(conn.SetDeadline(time.Now().Add(nodetest.Patience)),
		json.NewEncoder(conn).Encode(contract.CaptureRequest{Pod: pod, User: "carol", Spec: contract.CaptureDefaults(spec)}))
	line, unread := packets.ReadBytes('\n')
	if err = errors.Join(err, unread); err == nil {
		err = json.Unmarshal(line, &said)
	}
	if err != nil {
		t.Fatal(err)
	}
	return said, packets
}

// TestCapturesOfRealPods: a door gets the packets of the pod that it names, while that has an interface. Nobody else
// gets any.
func TestCapturesOfRealPods(t *testing.T) {
	c, ca := newCluster(t), newAuthority(t)
	c.config.TunnelAddress, c.config.Capture = freeport.Address(t), nodeconfig.CaptureAll
	c.config.TunnelCA, c.config.TunnelCertificate, c.config.TunnelPrivateKey = ca.issue(tunnel.AgentName(testNode),
		time.Now().Add(time.Hour))
	c.decide()
	c.startAgent()
	c.awaitReady()
	web, db, other := c.newPod("web", 3), c.newPod("db", 4), c.newPod("other", 5)
	for _, p := range []*pod{web, db, other} {
		c.allocate(p)
		c.mustAdd(p)
	}
	door := tunnel.Files(ca.issue(tunnel.ObserverName, time.Now().Add(time.Hour)))
	named := func(p *pod) *contract.PodReference {
		return &contract.PodReference{Namespace: p.Namespace, Name: p.Name, UID: p.UID}
	}
	said, packets := askForPackets(t, c.config.TunnelAddress, door, named(web),
		api.CaptureSpec{Packets: 4, Filter: api.CaptureFilter{Protocol: "icmp", Address: db.address.String()},
			Duration: metav1.Duration{Duration: time.Minute}})
	if said.Error != "" {
		t.Fatal(said.Error)
	}
	c.mustReach(other, db.address)
	c.mustReach(web, db.address)
	c.mustReach(db, web.address)
	reader, err := pcapgo.NewNgReader(packets, pcapgo.DefaultNgReaderOptions)
	if err != nil {
		t.Fatal(err)
	}
	pair := map[string]bool{web.address.String(): true, db.address.String(): true}
	for range 4 {
		data, _, err := reader.ReadPacketData()
		if err != nil {
			t.Fatal(err)
		}
		decoded := gopacket.NewPacket(data, layers.LayerTypeEthernet, gopacket.Default)
		ip, ok := decoded.Layer(layers.LayerTypeIPv4).(*layers.IPv4)
		if !ok || !pair[ip.SrcIP.String()] || !pair[ip.DstIP.String()] {
			t.Errorf("a packet of pod web is %v", ip)
		}
	}
	if want := fmt.Sprintf("pod shop/web on node %s", testNode); reader.SectionInfo().Comment != want {
		t.Errorf("the file says that it is of %q", reader.SectionInfo().Comment)
	}
	refusesOthers(t, c.config.TunnelAddress, ca, tunnel.Capture)

	said, packets = askForPackets(t, c.config.TunnelAddress, door, nil,
		api.CaptureSpec{Duration: metav1.Duration{Duration: time.Second}})
	if reader, err = pcapgo.NewNgReader(packets, pcapgo.DefaultNgReaderOptions); said.Error != "" || err != nil {
		t.Fatal(said.Error, err)
	}
	if link, err := reader.Interface(0); err != nil || link.Name != "ul0" {
		t.Errorf("the tunnels are on %q, %v", link.Name, err)
	}

	if err := c.del(web); err != nil {
		t.Fatal(err)
	}
	successor := *named(db)
	successor.Name = web.Name
	for about, pod := range map[string]*contract.PodReference{"a pod that has gone": named(web),
		"another pod's UID": &successor, "no UID": {Namespace: db.Namespace, Name: db.Name}} {
		if said, _ := askForPackets(t, c.config.TunnelAddress, door, pod, api.CaptureSpec{}); said.Error == "" {
			t.Errorf("%s is captured", about)
		}
	}
}
