package tunnel

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"time"
)

// Reason is the kind of an [Error], fit for a metric's label.
type Reason string

// Why there is no stream.
const (
	Unreachable    Reason = "unreachable"     // no TCP connection, or it was lost in the handshake
	NoCredentials  Reason = "no-credentials"  // this end has no certificate or no roots
	NoHandshake    Reason = "no-handshake"    // the peer does not speak TLS 1.3, or not in time
	NoCertificate  Reason = "no-certificate"  // the peer shows none
	WrongName      Reason = "wrong-name"      // its certificate has another name
	Expired        Reason = "expired"         //
	NotYetValid    Reason = "not-yet-valid"   // most often a clock is wrong
	UnknownCA      Reason = "unknown-ca"      //
	BadCertificate Reason = "bad-certificate" // any other fault
	NoTarget       Reason = "no-target"       // the agent does not serve what was asked for
	TargetDown     Reason = "target-down"     // what it leads to does not answer on the node
	TooMany        Reason = "too-many"        // the agent has as many streams as it will take
)

var reasons = []Reason{
	Unreachable, NoCredentials, NoHandshake, NoCertificate, WrongName, Expired, NotYetValid, UnknownCA, BadCertificate,
	NoTarget, TargetDown, TooMany,
}

// Error says why there is no stream.
type Error struct {
	Reason Reason
	// ByPeer: the other end has refused, and Text is what it said.
	ByPeer bool
	Text   string
	cause  error
}

func (e *Error) Error() string {
	if e.ByPeer {
		return "refused by the peer: " + e.Text
	}
	return e.Text
}

func (e *Error) Unwrap() error { return e.cause }

// reasonOf is an error's reason.
func reasonOf(err error) Reason {
	if known := new(Error); errors.As(err, &known) {
		return known.Reason
	}
	return NoHandshake
}

func refusal(reason Reason, format string, args ...any) *Error {
	err := fmt.Errorf(format, args...)
	return &Error{Reason: reason, Text: err.Error(), cause: errors.Unwrap(err)}
}

// explainHandshake says what a failed handshake means. own is this end's certificate, nil if unknown.
func explainHandshake(err error, peer string, own *tls.Certificate, now time.Time) *Error {
	var known *Error
	var invalid *tls.CertificateVerificationError
	var alert *net.OpError // crypto/tls wraps what the peer says in one, with Op "remote error"
	var timeout net.Error
	switch {
	case errors.As(err, &known):
		return known
	case errors.As(err, &invalid) && len(invalid.UnverifiedCertificates) > 0:
		return explainCertificate(invalid.Err, invalid.UnverifiedCertificates[0], peer, now)
	case errors.As(err, &alert) && alert.Op == "remote error":
		return explainAlert(alert, own)
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return refusal(NoHandshake, "the peer has not finished the handshake in time: %w", err)
	case errors.Is(err, io.EOF), errors.Is(err, net.ErrClosed), errors.As(err, new(*net.OpError)):
		return refusal(Unreachable, "the connection was lost in the handshake: %w", err)
	}
	if strings.Contains(err.Error(), "application protocols") { // crypto/tls has no type for it
		return refusal(NoTarget, "the peer asks for what is not served here: %w", err)
	}
	return refusal(NoHandshake, "the handshake failed: %w", err)
}

// explainAlert is for a peer that refused by a TLS alert, which has no text: the usual causes can be
// seen in this end's own certificate.
func explainAlert(alert *net.OpError, own *tls.Certificate) *Error {
	reason := NoHandshake
	switch text := alert.Err.Error(); {
	case strings.Contains(text, "application protocol"):
		reason = NoTarget
	case strings.Contains(text, "certificate expired"), strings.Contains(text, "expired certificate"):
		reason = Expired
	case strings.Contains(text, "unknown certificate authority"):
		reason = UnknownCA
	case strings.Contains(text, "certificate"):
		reason = BadCertificate
	}
	text := fmt.Sprintf("%v; its log has the reason", alert.Err)
	if own != nil && own.Leaf != nil && reason != NoTarget {
		text += "; the certificate it was shown is " + describe(own.Leaf)
	}
	return &Error{Reason: reason, ByPeer: true, Text: text, cause: alert}
}

// explainCertificate says why the peer's certificate does not verify.
func explainCertificate(err error, leaf *x509.Certificate, peer string, now time.Time) *Error {
	var invalid x509.CertificateInvalidError
	var unknown x509.UnknownAuthorityError
	var hostname x509.HostnameError
	clock := now.UTC().Format(time.RFC3339)
	switch {
	case errors.As(err, &hostname):
		return wrongName(leaf, peer)
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		bad := invalid.Cert
		if now.Before(bad.NotBefore) {
			return refusal(NotYetValid, "the peer's certificate is not yet valid, and it is %s by this end's clock: it is %s; "+
				"see which clock is wrong", clock, describe(bad))
		}
		return refusal(Expired, "the peer's certificate has expired, it is %s by this end's clock: it is %s; renew it", clock,
			describe(bad))
	case errors.As(err, &unknown):
		return refusal(UnknownCA, "the peer's certificate comes from an authority that is not in this end's CA file: it is "+
			"%s, issued by %s", describe(leaf), clip(leaf.Issuer.String()))
	}
	return refusal(BadCertificate, "the peer's certificate is not good for this: it is %s: %w", describe(leaf), err)
}

func wrongName(leaf *x509.Certificate, peer string) *Error {
	return refusal(WrongName, "the peer is not %s: its certificate is %s; issue one with that DNS name", peer,
		describe(leaf))
}

// checkName wants the name itself. Go's own check would take a wildcard for any node.
func checkName(leaf *x509.Certificate, peer string) error {
	for _, name := range leaf.DNSNames {
		if strings.EqualFold(name, peer) {
			return nil
		}
	}
	return wrongName(leaf, peer)
}

// describe gives a certificate's names and dates. It may be a stranger's: what it says is bounded
// and quoted.
func describe(leaf *x509.Certificate) string {
	names := slices.Clone(leaf.DNSNames[:min(len(leaf.DNSNames), 8)])
	for i, name := range names {
		names[i] = clip(name)
	}
	if len(leaf.DNSNames) > len(names) {
		names = append(names, "…")
	}
	who := "of DNS names [" + strings.Join(names, " ") + "]"
	if len(names) == 0 {
		who = "without DNS names, subject " + clip(leaf.Subject.String())
	}
	return fmt.Sprintf("%s, valid from %s to %s", who, leaf.NotBefore.UTC().Format(time.RFC3339),
		leaf.NotAfter.UTC().Format(time.RFC3339))
}

func clip(text string) string {
	if len(text) > 253 {
		text = text[:253] + "…"
	}
	return fmt.Sprintf("%q", text)
}
