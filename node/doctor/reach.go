package doctor

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/ovsdb"
	"github.com/weftnet/weft/ovsdb/certificates"
)

// dialTime is how long a peer on the network may take.
const dialTime = 4 * time.Second

// checkSouthbound dials each server of the Southbound as ovn-controller does. Over TLS it shows the node's own
// certificate, if it is given one, and asks for a sign of life.
func checkSouthbound(ctx context.Context, config Config, files fileReader, ovs vswitchReader,
	daemons daemonControl) []Finding {
	const s = subject("ovn-southbound")
	if config.Hosted {
		return s.ok("%s is dialled by the chassis host, not by this node", config.OVNSouthbound)
	}
	endpoints, err := ovsdb.ParseEndpoints(config.OVNSouthbound)
	if err != nil {
		return s.unknown("", "it is not known where it is: %v", err)
	}
	own := ovnCertificates(ctx, files, ovs, daemons)
	var findings []Finding
	for _, endpoint := range endpoints {
		findings = append(findings, checkServer(ctx, s, endpoint, own)...)
	}
	return findings
}

// ovnCertificates are what ovn-controller shows and trusts; nil where that cannot be read, of which checkCertificates
// tells.
func ovnCertificates(ctx context.Context, files fileReader, ovs vswitchReader,
	daemons daemonControl) *certificates.Set {
	own, ok, _ := ovnPair(ctx, ovs, daemons)
	if !ok {
		return nil
	}
	read := func(name string) certificates.Text {
		text, _ := files.ReadFile(name) // nothing is no PEM
		return certificates.Text{From: name, PEM: text}
	}
	set, err := certificates.Texts{Certificate: read(own.Certificate), Key: read(own.Key),
		Authorities: read(own.CA)}.Parse()
	if err != nil {
		return nil
	}
	return set
}

func checkServer(ctx context.Context, s subject, endpoint ovsdb.Endpoint, own *certificates.Set) []Finding {
	ctx, cancel := context.WithTimeout(ctx, dialTime)
	defer cancel()
	network := map[string]string{"unix": "unix"}[endpoint.Scheme]
	if network == "" {
		network = "tcp"
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, network, endpoint.Address)
	if err != nil {
		return s.failed(connectRemedy(err), "%s: %v", endpoint, err)
	}
	defer conn.Close()
	if endpoint.Scheme != "ssl" {
		return s.ok("%s accepts connections", endpoint)
	}
	client, shown, err := shakeHands(ctx, conn, own)
	if shown == nil {
		return s.failed("see whether the server is set up for ssl on this port", "%s: no TLS there: %v", endpoint, err)
	}
	certificate := shown[0]
	if finding := assessValidity(s, fmt.Sprintf("the certificate of %s", endpoint), certificate,
		time.Now()); finding != nil {
		return finding
	}
	if own == nil { // which the server may mind
		return s.ok("%s answers, its certificate is valid until %s", endpoint, day(certificate.NotAfter))
	}
	if err := own.Signed(shown); err != nil {
		return s.failed(connectRemedy(err), "%s: %v", endpoint, err)
	}
	if err == nil {
		err = askForLife(ctx, client)
	}
	if err != nil {
		return s.failed("see its log; it takes certificates of nodes' authority alone",
			"%s does not take this node's certificate: %v", endpoint, err)
	}
	return s.ok("%s answers this node, its certificate is valid until %s", endpoint, day(certificate.NotAfter))
}

// shakeHands returns what the server has shown, also where it refuses us afterwards.
func shakeHands(ctx context.Context, conn net.Conn, own *certificates.Set) (client *tls.Conn, shown []*x509.Certificate,
	err error) {
	config := &tls.Config{
		InsecureSkipVerify: true, // names are none of OVN's; who has signed it is looked at afterwards
		VerifyConnection: func(state tls.ConnectionState) error {
			shown = state.PeerCertificates
			return nil
		},
	}
	if own != nil {
		config.Certificates = []tls.Certificate{*own.Own}
	}
	client = tls.Client(conn, config)
	err = client.HandshakeContext(ctx)
	return client, shown, err
}

// askForLife is RFC 7047's echo. A server of TLS 1.3 says that it does not take a certificate when its client reads.
func askForLife(ctx context.Context, conn net.Conn) error {
	if deadline, ok := ctx.Deadline(); ok {
		if err := conn.SetDeadline(deadline); err != nil {
			return err
		}
	}
	if _, err := io.WriteString(conn, `{"id":"weft doctor","method":"echo","params":[]}`); err != nil {
		return err
	}
	_, err := conn.Read(make([]byte, 1))
	return err
}

// readiness is the agent's answer to /readyz.
type readiness struct {
	Ready bool
	Text  string
}

var errNotRunning = errors.New("nothing answers")

// agentReader asks the agent on this machine. The error is errNotRunning where there is none.
type agentReader interface {
	Readiness(ctx context.Context) (readiness, error)
}

// localAgent is the one behind metrics-address.
type localAgent struct{ address string }

func (a localAgent) Readiness(ctx context.Context) (readiness, error) {
	response, err := a.get(ctx, "/readyz")
	if err != nil {
		return readiness{}, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, 64<<10))
	return readiness{response.StatusCode == http.StatusOK, strings.TrimSpace(string(text))}, err
}

// get asks by the loopback address where the agent listens on all.
func (a localAgent) get(ctx context.Context, path string) (*http.Response, error) {
	host, port, err := net.SplitHostPort(a.address)
	if err != nil {
		return nil, fmt.Errorf("%w: metrics-address: %w", errNotRunning, err)
	}
	if address, err := netip.ParseAddr(host); host == "" || err == nil && address.IsUnspecified() {
		host = "127.0.0.1"
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+net.JoinHostPort(host, port)+path, nil)
	if err != nil {
		return nil, err
	}
	transport := &http.Transport{DisableKeepAlives: true, ResponseHeaderTimeout: dialTime}
	response, err := transport.RoundTrip(request)
	if err != nil {
		return nil, fmt.Errorf("%w on %s (%v)", errNotRunning, request.URL.Host, plain(err))
	}
	return response, nil
}

// checkAgent: a running agent knows best what is missing.
func checkAgent(ctx context.Context, config Config, agent agentReader) []Finding {
	const s = subject("agent")
	if config.MetricsAddress == "" {
		return s.unknown("set metrics-address to have it asked", "metrics-address is empty: the agent cannot be asked")
	}
	answer, err := agent.Readiness(ctx)
	if errors.Is(err, errNotRunning) {
		return s.warning("start it when the other checks are well: `weft node`, on Windows `weft.exe service install`",
			"the agent does not run: %v", err)
	}
	if err != nil {
		return s.unknown("", "the agent's answer broke off: %v", err)
	}
	if answer.Ready {
		return append(s.ok("the agent runs, and can attach pods"), checkNotes(s, answer.Text)...)
	}
	var findings []Finding
	for line := range strings.Lines(answer.Text) {
		findings = append(findings, s.failed("see the agent's log, and the checks here that concern it", "%s",
			strings.TrimSpace(line))...)
	}
	return findings
}

// ownNotes are the notes for which the doctor has another remedy than others, as it has a check of its own. Those with
// none are not told: no connection fails by them.
var ownNotes = map[string]string{
	"next-hops": "", "external-networks": "",
	"conntrack-lookup": "see the check conntrack-lookup",
	"hns":              "see the check hns-calls",
	"mtu": "see the check mtu, and raise the MTU of the interface, or lower uplink-mtu and replace the node's " +
		"pods",
	"upcalls": "see the check upcalls",
}

// checkNotes tells the agent's notes that have a remedy. A note may go on for several lines.
func checkNotes(s subject, text string) (findings []Finding) {
	told := false
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		note, begins := contract.NoteOf(line)
		if own, ours := ownNotes[note.Name]; ours {
			note.Remedy = own
		}
		switch {
		case begins && note.Remedy != "":
			findings, told = append(findings, s.warning(note.Remedy, "%s", line)...), true
		case begins:
			told = false
		case told:
			findings[len(findings)-1].Detail += " " + line
		}
	}
	return findings
}

// installed says whether the agent runs, so that what it would have made by now may be demanded.
func installed(ctx context.Context, config Config, agent agentReader) bool {
	if config.MetricsAddress == "" {
		return false
	}
	_, err := agent.Readiness(ctx)
	return err == nil
}

// checkTunnelPort: the chassis host dials the agent, so the agent must listen, and before it runs
// nobody else may.
func checkTunnelPort(ctx context.Context, config Config, running bool, listen func(address string) error) []Finding {
	const s = subject("tunnel-port")
	if !config.Hosted {
		return s.ok("not used: the node runs its own ovn-controller")
	}
	err := listen(config.TunnelAddress)
	switch {
	case running && err == nil:
		return s.failed("see the agent's log", "the agent runs, but nothing listens on %s for the chassis host",
			config.TunnelAddress)
	case running:
		return s.ok("%s is taken, as it is while the agent runs; whether the chassis host reaches it, only its "+
			"connections tell", config.TunnelAddress)
	case err != nil:
		return s.failed("end the program that has the port, or choose another tunnel-address of this node",
			"the agent cannot listen on %s: %v", config.TunnelAddress, err)
	}
	return s.ok("%s is free for the agent", config.TunnelAddress)
}

// tryListen listens for a moment.
func tryListen(address string) error {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	return listener.Close()
}

func tryListenUDP(port int) error {
	conn, err := net.ListenUDP("udp", &net.UDPAddr{Port: port})
	if err != nil {
		return err
	}
	return conn.Close()
}
