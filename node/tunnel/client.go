package tunnel

import (
	"context"
	"crypto/tls"
	"net"
	"time"

	"github.com/weftnet/weft/ovsdb/certificates"
)

// Dial opens a stream to a target of the agent at address (HOST:PORT), whose certificate must have
// the name peer. It returns when the agent has accepted and the target has answered there. An error
// of the connection or of a refusal by either end is an [*Error].
func Dial(ctx context.Context, address string, target Target, credentials Credentials, peer string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, handshakeTimeout)
	defer cancel()
	own, err := current(credentials)
	if err != nil {
		return nil, err
	}
	dialer := net.Dialer{Timeout: handshakeTimeout / 2, KeepAliveConfig: keepAlive}
	plain, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, refusal(Unreachable, "%w; see whether the node is up, its agent runs and a firewall lets %s through", err,
			address)
	}
	if err := watchPeer(plain); err != nil {
		plain.Close()
		return nil, err
	}
	conn := tls.Client(plain, &tls.Config{
		MinVersion:             tls.VersionTLS13,
		NextProtos:             []string{string(target)},
		ServerName:             peer,
		RootCAs:                own.Authorities,
		SessionTicketsDisabled: true,
		GetClientCertificate:   func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return own.Own, nil },
		VerifyConnection: func(state tls.ConnectionState) error {
			if state.NegotiatedProtocol != string(target) {
				return refusal(NoTarget, "the peer does not serve %s", target)
			}
			return checkName(state.PeerCertificates[0], peer)
		},
	})
	if err := greet(ctx, conn); err != nil {
		plain.Close()
		return nil, explainHandshake(err, peer, own.Own, time.Now())
	}
	return conn, nil
}

// greet is the dialling end's part until the stream may begin.
func greet(ctx context.Context, conn *tls.Conn) error {
	if err := conn.HandshakeContext(ctx); err != nil {
		return err
	}
	release := within(ctx, conn)
	err := readVerdict(conn)
	if !release() && err == nil {
		return ctx.Err()
	}
	return err
}

// current is what this end shows and trusts now.
func current(credentials Credentials) (*certificates.Set, error) {
	own, err := credentials()
	if err != nil {
		return nil, refusal(NoCredentials, "this end has no credentials: %w", err)
	}
	return own, nil
}
