package ovsdb

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"

	"github.com/ovn-kubernetes/libovsdb/model"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/weftnet/weft/models"
	"github.com/weftnet/weft/ovsdb/certificates"
)

// Config says which database to keep a replica of.
type Config struct {
	// Endpoints lists the servers as OVN writes them, separated by commas. Of a cluster's
	// members the leader is used.
	Endpoints string
	// AnyMember of a cluster will do. One that is not the leader passes on to it what this client writes, and the answer
	// may come before the replica has it.
	AnyMember bool
	// Model is the generated model of the database.
	Model model.ClientDBModel
	// Tables are what is needed of it.
	Tables []Table
	// Requirements say which of the columns a server may lack; models.Requirements when nil.
	Requirements []models.Requirement
	// TLS is needed for ssl endpoints.
	TLS *TLS
	// Probe is the time of silence after which the server is asked for a sign of life; 5 s
	// when zero. It becomes longer, up to 10 s, if it takes longer to read the replica.
	Probe time.Duration
	// LookInterval is how often the certificate of a server is looked at again, by a connection of its own; 1 h when zero.
	LookInterval time.Duration
	// Dial replaces the connection itself, where unix sockets are something else.
	Dial func(context.Context, Endpoint) (net.Conn, error)
	// Logger is slog.Default when nil.
	Logger *slog.Logger
	// Metrics is where those of the client are registered before there is a connection: a server that was never there
	// is told, too. Nowhere when nil.
	Metrics prometheus.Registerer
	// Pipeline is how many transactions an engine has in flight; 3 when zero.
	Pipeline int
}

// TLS names PEM files; they are read again for each connection, so that certificates may be
// renewed under a running client.
type TLS struct {
	CertFile, KeyFile, CAFile string
}

func (t *TLS) config() (*tls.Config, error) {
	if t == nil {
		return nil, errors.New("an ssl endpoint needs a certificate, a private key and a CA certificate")
	}
	set, err := certificates.Files{Certificate: t.CertFile, Key: t.KeyFile, Authorities: t.CAFile}.Read()
	if err != nil {
		return nil, fmt.Errorf("load the client's certificate %s: %w", t.CertFile, err)
	}
	return &tls.Config{
		Certificates: []tls.Certificate{*set.Own},
		RootCAs:      set.Authorities,
		MinVersion:   tls.VersionTLS12,
		// OVN's own certificates carry no host names: what counts, there as here, is that
		// the cluster's authority has signed the peer's certificate.
		InsecureSkipVerify: true,
		VerifyConnection:   func(state tls.ConnectionState) error { return set.Signed(state.PeerCertificates) },
	}, nil
}

func (c *Config) dial(ctx context.Context, endpoint Endpoint) (net.Conn, error) {
	if c.Dial != nil {
		return c.Dial(ctx, endpoint)
	}
	var dialer net.Dialer
	switch endpoint.Scheme {
	case "unix":
		return dialer.DialContext(ctx, "unix", endpoint.Address)
	case "tcp":
		return dialer.DialContext(ctx, "tcp", endpoint.Address)
	}
	config, err := c.TLS.config()
	if err != nil {
		return nil, err
	}
	return (&tls.Dialer{NetDialer: &dialer, Config: config}).DialContext(ctx, "tcp", endpoint.Address)
}
