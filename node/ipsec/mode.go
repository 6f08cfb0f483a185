package ipsec

import (
	"fmt"
	"net/netip"
	"time"
)

// Mode is how a node treats its tunnels.
type Mode string

const (
	// Off sends and takes GENEVE in the clear.
	Off Mode = "off"
	// Begin encrypts what it sends to peers that can, and takes both.
	Begin Mode = "begin"
	// Enforce neither sends nor takes anything in the clear.
	Enforce Mode = "enforce"
)

// ParseMode reads the name of a mode.
func ParseMode(text string) (Mode, error) {
	switch m := Mode(text); m {
	case Off, Begin, Enforce:
		return m, nil
	}
	return "", fmt.Errorf("%q is neither %q, %q nor %q", text, Off, Begin, Enforce)
}

// ESP's own bytes in transport mode with AES-GCM and an ICV of 16 bytes: SPI and sequence number, IV, ICV. The
// trailer is padding, its length and the next header's number: what it protects ends at a multiple of four bytes.
const (
	espHeader  = 8
	espIV      = 8
	espICV     = 16
	espTrailer = 2
	espAlign   = 4
)

// Payload is how much of an IP packet ESP leaves for what is behind the IP header: it takes 34 bytes where mtu is a
// multiple of four, and up to three more where it is not.
func Payload(mtu, ipHeader int) int {
	ciphertext := mtu - ipHeader - espHeader - espIV - espICV
	return ciphertext - ciphertext%espAlign - espTrailer
}

// Files are PEM files: the authorities that sign nodes' certificates, this node's certificate and its key.
type Files struct{ CA, Certificate, PrivateKey string }

// Config is what a keeper is told.
type Config struct {
	Mode Mode
	// Address is where this node's tunnels end.
	Address netip.Addr
	// Charon is the path of charon's vici socket.
	Charon string
	Files  Files
	// Renewal is how old an IKE_SA gets before another one takes its place; an hour if 0.
	Renewal time.Duration
}

// Status is what a look has found.
type Status struct {
	// Encrypted is the number of peers to which the node sends by ESP, and Missing are the others, sorted.
	Encrypted int
	Missing   []netip.Addr
}
