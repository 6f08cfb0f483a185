package machine

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"time"
)

const (
	probeInterval = 50 * time.Millisecond
	probeTimeout  = 3 * time.Second
)

// wait returns nil when the probe holds, and the last failure when ctx ends before.
func (p Probe) wait(ctx context.Context) error {
	for {
		err := p.check(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-time.After(probeInterval):
		case <-ctx.Done():
			return fmt.Errorf("%s: %w", p, err)
		}
	}
}

func (p Probe) check(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	switch {
	case p.Unix != "":
		return dial(ctx, "unix", p.Unix)
	case p.TCP != "":
		return dial(ctx, "tcp", p.TCP)
	case p.Path != "":
		_, err := os.Stat(p.Path)
		return err
	case p.URL != "":
		return p.get(ctx)
	}
	return nil
}

func dial(ctx context.Context, network, address string) error {
	conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
	if err != nil {
		return err
	}
	return conn.Close()
}

func (p Probe) get(ctx context.Context) error {
	transport := &http.Transport{DisableKeepAlives: true}
	if p.CA != "" {
		pem, err := os.ReadFile(p.CA)
		if err != nil {
			return err
		}
		transport.TLSClientConfig = &tls.Config{RootCAs: x509.NewCertPool()}
		transport.TLSClientConfig.RootCAs.AppendCertsFromPEM(pem)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, p.URL, nil)
	if err != nil {
		return err
	}
	response, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		body, _ := io.ReadAll(io.LimitReader(response.Body, 300))
		return fmt.Errorf("%s: %s", response.Status, body)
	}
	return nil
}
