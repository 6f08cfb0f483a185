package sctp

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
)

// Chunk types (RFC 9260, 3.2).
const (
	chunkData             = 0
	chunkInit             = 1
	chunkInitAck          = 2
	chunkSack             = 3
	chunkHeartbeat        = 4
	chunkHeartbeatAck     = 5
	chunkAbort            = 6
	chunkShutdown         = 7
	chunkShutdownAck      = 8
	chunkCookieEcho       = 10
	chunkCookieAck        = 11
	chunkShutdownComplete = 14
)

const (
	// flagWhole marks a DATA chunk that is both first and last of its message.
	flagWhole = 0x03
	// flagReflected marks a packet whose tag is the receiver's peer's: the sender knows no association.
	flagReflected = 0x01

	headerLength = 12
	dataLength   = 12 // of what is before a DATA chunk's text
	initLength   = 16 // of an INIT's fixed parameters
	stateCookie  = 7  // the parameter
)

// packet is one of SCTP: ports, the verification tag of its receiver, and chunks.
type packet struct {
	from, to uint16
	tag      uint32
	chunks   []chunk
}

type chunk struct {
	kind, flags byte
	body        []byte
}

var (
	castagnoli   = crc32.MakeTable(crc32.Castagnoli)
	errMalformed = errors.New("sctp: malformed packet")
)

// marshal returns the packet as it is sent, with its checksum.
func (p packet) marshal() []byte {
	b := make([]byte, headerLength)
	binary.BigEndian.PutUint16(b[0:], p.from)
	binary.BigEndian.PutUint16(b[2:], p.to)
	binary.BigEndian.PutUint32(b[4:], p.tag)
	for _, c := range p.chunks {
		b = append(b, c.kind, c.flags)
		b = binary.BigEndian.AppendUint16(b, uint16(4+len(c.body)))
		b = pad(append(b, c.body...))
	}
	binary.LittleEndian.PutUint32(b[8:], crc32.Checksum(b, castagnoli))
	return b
}

// unmarshal reads what was received; the packet's chunks keep nothing of b.
func unmarshal(b []byte) (packet, error) {
	if len(b) < headerLength {
		return packet{}, errMalformed
	}
	text := append([]byte(nil), b...)
	binary.LittleEndian.PutUint32(text[8:], 0)
	if crc32.Checksum(text, castagnoli) != binary.LittleEndian.Uint32(b[8:]) {
		return packet{}, errMalformed
	}
	p := packet{from: binary.BigEndian.Uint16(text[0:]), to: binary.BigEndian.Uint16(text[2:]),
		tag: binary.BigEndian.Uint32(text[4:])}
	for rest := text[headerLength:]; len(rest) > 0; {
		if len(rest) < 4 {
			return packet{}, errMalformed
		}
		length := int(binary.BigEndian.Uint16(rest[2:]))
		if length < 4 || length > len(rest) {
			return packet{}, errMalformed
		}
		p.chunks = append(p.chunks, chunk{rest[0], rest[1], rest[4:length]})
		rest = rest[min(padded(length), len(rest)):]
	}
	return p, nil
}

func padded(length int) int { return (length + 3) &^ 3 }

func pad(b []byte) []byte { return append(b, make([]byte, padded(len(b))-len(b))...) }

// greeting is what INIT and INIT ACK say.
type greeting struct {
	tag, window, tsn uint32
	cookie           []byte // INIT ACK alone has one
}

func (g greeting) chunk(kind byte) chunk {
	b := binary.BigEndian.AppendUint32(nil, g.tag)
	b = binary.BigEndian.AppendUint32(b, g.window)
	b = append(b, 0, 1, 0, 1) // one stream each way
	b = binary.BigEndian.AppendUint32(b, g.tsn)
	if g.cookie != nil {
		b = binary.BigEndian.AppendUint16(b, stateCookie)
		b = binary.BigEndian.AppendUint16(b, uint16(4+len(g.cookie)))
		b = append(b, g.cookie...)
	}
	return chunk{kind: kind, body: b}
}

func parseGreeting(c chunk) (greeting, error) {
	if len(c.body) < initLength {
		return greeting{}, errMalformed
	}
	g := greeting{tag: binary.BigEndian.Uint32(c.body[0:]), window: binary.BigEndian.Uint32(c.body[4:]),
		tsn: binary.BigEndian.Uint32(c.body[12:])}
	for rest := c.body[initLength:]; len(rest) >= 4; {
		length := int(binary.BigEndian.Uint16(rest[2:]))
		if length < 4 || length > len(rest) {
			return greeting{}, errMalformed
		}
		if binary.BigEndian.Uint16(rest) == stateCookie {
			g.cookie = rest[4:length]
		}
		rest = rest[min(padded(length), len(rest)):]
	}
	if g.tag == 0 || c.kind == chunkInitAck && g.cookie == nil {
		return greeting{}, errMalformed
	}
	return g, nil
}

func dataChunk(tsn uint32, sequence uint16, text []byte) chunk {
	b := binary.BigEndian.AppendUint32(nil, tsn)
	b = append(b, 0, 0) // the only stream
	b = binary.BigEndian.AppendUint16(b, sequence)
	b = append(b, 0, 0, 0, 0) // no payload protocol
	return chunk{kind: chunkData, flags: flagWhole, body: append(b, text...)}
}

func sackChunk(tsn uint32) chunk {
	b := binary.BigEndian.AppendUint32(nil, tsn)
	b = binary.BigEndian.AppendUint32(b, window)
	return chunk{kind: chunkSack, body: append(b, 0, 0, 0, 0)} // neither gaps nor duplicates
}

// number is the TSN that a SACK or SHUTDOWN begins with.
func (c chunk) number() (uint32, error) {
	if len(c.body) < 4 {
		return 0, errMalformed
	}
	return binary.BigEndian.Uint32(c.body), nil
}
