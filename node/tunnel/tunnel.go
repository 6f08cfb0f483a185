package tunnel

import (
	"context"
	"log/slog"
	"net"
	"time"

	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/ovsdb/certificates"
)

// Target is what a stream leads to, as the ALPN protocol names it.
type Target string

// What an agent serves.
const (
	OVSDB    Target = "weft-ovsdb/1"    // the node's Open_vSwitch database
	OpenFlow Target = "weft-openflow/1" // br-int's management connection
	// what br-int's flows have counted: contract.CountersRequest, contract.CountersReply
	Counters Target = "weft-counters/1"
	// the agent's metrics in Prometheus' text format, after which the stream ends
	Metrics Target = "weft-metrics/1"
	// packets of a pod or of the node: contract.CaptureRequest, contract.CaptureReply
	Capture Target = "weft-capture/1"
	// what the node's datapath remembers of connections: lines of contract.ConnectionRecord
	Connections Target = "weft-connections/1"
	// a connection from a pod's own network: contract.ProbeRequest, contract.ProbeReply
	Probe Target = "weft-probe/1"
)

// HostName is the DNS name in a chassis host's certificate.
const HostName = "chassis.weft.net"

// ObserverName is the DNS name in the certificate of `weft observe`.
const ObserverName = "observe.weft.net"

// AgentName is the DNS name in the certificate of a node's agent.
func AgentName(node string) string { return node + ".node.weft.net" }

// Port is where an agent takes streams unless it is told otherwise.
const Port = contract.AgentPort

// Credentials are asked anew for each connection, so that what they return may change at any time.
// Open streams go on with what they began with.
type Credentials func() (*certificates.Set, error)

// Files are credentials in PEM files. They are read again for each connection; files that cannot be
// read or do not fit each other, as in the middle of a renewal, leave the former ones in use.
func Files(ca, certificate, key string) Credentials {
	kept := new(certificates.Kept)
	return func() (*certificates.Set, error) {
		return kept.Read(certificates.Files{Certificate: certificate, Key: key, Authorities: ca})
	}
}

// Direction is where bytes went, as the agent's node sees it.
type Direction string

// Directions of a stream.
const (
	ToNode   Direction = "to-node"
	FromNode Direction = "from-node"
)

const (
	// handshakeTimeout is for everything between a TCP connection and the serving end's verdict.
	handshakeTimeout = 10 * time.Second
	// targetTimeout is within it, so that the verdict still arrives.
	targetTimeout = 5 * time.Second
)

// What a peer that vanished without a word costs: keepAlive tells it of an idle connection, and
// unansweredTimeout of one with bytes under way.
var keepAlive = net.KeepAliveConfig{Enable: true, Idle: 3 * time.Second, Interval: time.Second, Count: 3}

const unansweredTimeout = 6 * time.Second

// watchPeer makes a connection notice that its peer has vanished.
func watchPeer(conn net.Conn) error {
	tcp, ok := conn.(*net.TCPConn)
	if !ok {
		return nil // a test's own kind of connection
	}
	// Windows before 1709 and Wine lack the options for its periods, and keep their own: a peer that is
	// gone is then noticed by what goes unanswered.
	if err := tcp.SetKeepAliveConfig(keepAlive); err != nil {
		slog.Debug("the tunnel's connection keeps the system's periods of keep-alive", "error", err)
	}
	return limitUnanswered(tcp, unansweredTimeout)
}

// within ends a connection's reads and writes when ctx is done, until the function that it returns
// is called; that one returns false if they have been ended.
func within(ctx context.Context, conn net.Conn) (release func() bool) {
	return context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
}
