package conntrack

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/node/nodetest"
)

func TestMain(m *testing.M) { nodetest.Main(m) }

// vswitchd answers every question with a list of entries, or refuses.
func vswitchd(t *testing.T, entries string) (socket string) {
	t.Helper()
	socket = filepath.Join(t.TempDir(), "ovs-vswitchd.1.ctl")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			var request struct {
				Method string
				Params []string
			}
			reply := map[string]any{"id": 0, "result": entries, "error": nil}
			if json.NewDecoder(conn).Decode(&request) != nil || request.Method != "dpctl/dump-conntrack" ||
				strings.Join(request.Params, " ") != "-s" {
				reply = map[string]any{"id": 0, "result": nil, "error": fmt.Sprintf("asked for %+v", request)}
			}
			_ = json.NewEncoder(conn).Encode(reply) // who asked may have had enough
			conn.Close()
		}
	}()
	return socket
}

// answer is what a source tells, as "PROTOCOL SOURCE STATE" of each connection, and the end.
func answer(t *testing.T, s *Source) (told []string, end *contract.ConnectionsEnd) {
	t.Helper()
	conn, err := s.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for lines := json.NewDecoder(conn); ; {
		var record contract.ConnectionRecord
		switch err := lines.Decode(&record); {
		case errors.Is(err, io.EOF):
			return told, end
		case err != nil:
			t.Fatal(err)
		case end != nil:
			t.Fatalf("after its end it says %+v", record)
		}
		if c := record.Connection; c != nil {
			told = append(told, strings.TrimSpace(fmt.Sprintf("%s %v %s", c.Protocol, c.Original.Source, c.State)))
		}
		end = record.End
	}
}

func entry(protocol, source, destination, more string) string {
	return fmt.Sprintf("%[1]s,orig=(src=%[2]s,dst=%[3]s,sport=1000,dport=80),reply=(src=%[3]s,dst=%[2]s,sport=80,"+
		"dport=1000)%[4]s\n", protocol, source, destination, more)
}

// TestOnlyConnectionsOfPodsAreTold: what the host, other programs and the external bridge remember stays on the node.
func TestOnlyConnectionsOfPodsAreTold(t *testing.T) {
	socket := vswitchd(t, entry("tcp", "10.244.0.3", "10.244.0.4", ",zone=5,protoinfo=(state=FIN_WAIT_1)")+
		entry("udp", "10.244.0.5", "10.244.0.4", ",zone=5,timeout=59")+
		entry("tcp", "10.244.0.6", "10.244.0.4", ",zone=32773,protoinfo=(state=SYN_RECV)")+
		entry("tcp", "192.0.2.1", "192.0.2.2", ",protoinfo=(state=ESTABLISHED)")+ // the host's ssh
		entry("tcp", "198.51.100.9", "10.244.0.4", ",protoinfo=(state=ESTABLISHED)")+
		entry("tcp", "172.17.0.2", "172.17.0.3", ",zone=9")+
		entry("tcp", "192.0.2.1", "192.0.2.3", ",zone=64000")+
		"an entry of a later release\n")
	ids := map[string]string{"ct-zone-shop_web": "5", "ct-zone-gw-n1_snat": "0", "ovn-nb-cfg": "9", "ct-zone-odd": "x"}
	inside := func() []netip.Prefix { return []netip.Prefix{netip.MustParsePrefix("10.244.0.0/16")} }
	config := Config{Sockets: func() []string { return []string{"/nowhere", socket} },
		BridgeIDs: func() map[string]string { return ids }, Inside: inside}
	for name, c := range map[string]struct {
		change func(*Config)
		want   []string
	}{
		"a node of Linux": {func(*Config) {}, []string{"tcp 10.244.0.3:1000 FIN_WAIT_1",
			"udp 10.244.0.5:1000", "tcp 198.51.100.9:1000 ESTABLISHED"}},
		"a node of Windows": {func(c *Config) { c.Twin = 1 << 15 }, []string{
			"tcp 10.244.0.3:1000 FIN_WAIT_1", "udp 10.244.0.5:1000", "tcp 10.244.0.6:1000 SYN_RECV",
			"tcp 198.51.100.9:1000 ESTABLISHED"}},
		"a node whose networks are not known": {func(c *Config) { c.Inside = func() []netip.Prefix { return nil } },
			[]string{"tcp 10.244.0.3:1000 FIN_WAIT_1", "udp 10.244.0.5:1000"}},
		"a node without OVN": {func(c *Config) { c.BridgeIDs = func() map[string]string { return nil } }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			config := config
			c.change(&config)
			told, end := answer(t, New(config))
			if !reflect.DeepEqual(told, c.want) {
				t.Errorf("told\n%s\nwant\n%s", strings.Join(told, "\n"), strings.Join(c.want, "\n"))
			}
			if end == nil || end.Error != "" || end.Omitted != 1 {
				t.Errorf("the end is %+v", end)
			}
		})
	}
}

// TestManyConnections: the rest is counted, and the next who asks is answered, too.
func TestManyConnections(t *testing.T) {
	socket := vswitchd(t, strings.Repeat(entry("udp", "10.244.0.3", "10.244.0.4", ",zone=5"), 2007))
	s := New(Config{Sockets: func() []string { return []string{socket} },
		BridgeIDs: func() map[string]string { return map[string]string{"ct-zone-shop_web": "5"} },
		Inside:    func() []netip.Prefix { return nil }})
	s.most = 2000
	impatient, err := s.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	impatient.Close()
	if told, end := answer(t, s); len(told) != s.most || end == nil || end.Omitted != 7 {
		t.Errorf("%d are told, and the end is %+v", len(told), end)
	}
}

// TestNoVswitchd: whoever asks is told why there is nothing.
func TestNoVswitchd(t *testing.T) {
	for want, sockets := range map[string][]string{"no control socket": nil, "no such file": {"/nowhere"}} {
		s := New(Config{Sockets: func() []string { return sockets },
			BridgeIDs: func() map[string]string { return nil }, Inside: func() []netip.Prefix { return nil }})
		if told, end := answer(t, s); len(told) != 0 || end == nil || !strings.Contains(end.Error, want) {
			t.Errorf("told %v, the end is %+v", told, end)
		}
	}
}

// TestOneIsAnsweredAtATime: another question waits for its turn, and no longer than it has.
func TestOneIsAnsweredAtATime(t *testing.T) {
	s := New(Config{})
	s.busy <- struct{}{}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.tell(ctx, io.Discard); !errors.Is(err, context.Canceled) {
		t.Errorf("it ends with %v", err)
	}
}
