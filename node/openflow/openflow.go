// Package openflow has those messages of OpenFlow 1.3 that the agent itself says to a switch, and reads. Open vSwitch's
// specification is the standard's; Nicira's extensions are in its include/openflow/nicira-ext.h.
//
// The connection of an ovn-controller, which speaks OpenFlow 1.5, is the business of package ctlookup.
package openflow

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// Versions, as the first byte of each message has them.
const (
	Version10 = 1
	Version13 = 4
)

// Types of messages; the first four are the same in all versions.
const (
	Hello            = 0
	Error            = 1
	EchoRequest      = 2
	EchoReply        = 3
	PacketOut        = 13
	FlowMod          = 14
	MultipartRequest = 18
	MultipartReply   = 19
	BarrierRequest   = 20
	BarrierReply     = 21
)

// HeaderSize is that of every message, in bytes: version, type, length, number (xid).
const HeaderSize = 8

// Message puts a header of OpenFlow 1.3 before a body, whose length is bounded by what a message may have.
func Message(kind byte, number uint32, body ...byte) []byte {
	m := make([]byte, HeaderSize, HeaderSize+len(body))
	m[0], m[1] = Version13, kind
	binary.BigEndian.PutUint16(m[2:], uint16(HeaderSize+len(body)))
	binary.BigEndian.PutUint32(m[4:], number)
	return append(m, body...)
}

// Number is the number (xid) of a message. An answer has that of its question.
func Number(message []byte) uint32 { return binary.BigEndian.Uint32(message[4:]) }

// Read reads a message, whose header says how long it is.
func Read(conn io.Reader) ([]byte, error) {
	var header [HeaderSize]byte
	if _, err := io.ReadFull(conn, header[:]); err != nil {
		if errors.Is(err, io.EOF) {
			err = errors.New("closed by the switch")
		}
		return nil, err
	}
	length := int(binary.BigEndian.Uint16(header[2:]))
	if length < HeaderSize {
		return nil, fmt.Errorf("a message of %d bytes is not OpenFlow's", length)
	}
	message := make([]byte, length)
	copy(message, header[:])
	_, err := io.ReadFull(conn, message[HeaderSize:])
	return message, err
}

// Refusal is what a message of type [Error] says.
func Refusal(message []byte) error {
	return fmt.Errorf("the switch answers with the error % x (ofp_error_msg)", message[HeaderSize:min(len(message), 64)])
}
