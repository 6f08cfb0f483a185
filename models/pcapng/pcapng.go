// Package pcapng writes and reads files of packets (draft-ietf-opsawg-pcapng), as far as captures need it: Ethernet, in
// the order of little-endian machines.
//
// A library with this format has tables of all protocols, of 5 MB. They would be in every process of Weft, and Go's
// garbage collector would look through them.
package pcapng

import (
	"encoding/binary"
	"fmt"
	"io"
	"iter"
)

// Kind is the type of a block.
type Kind uint32

// The blocks that are written, and read.
const (
	SectionHeader        Kind = 0x0a0d0d0a
	InterfaceDescription Kind = 1
	InterfaceStatistics  Kind = 5
	EnhancedPacket       Kind = 6
)

// LinkEthernet is the link type of Ethernet.
const LinkEthernet = 1

const byteOrder = 0x1a2b3c4d

// Codes of options.
const (
	endOfOptions = 0
	comment      = 1

	sectionHardware    = 2
	sectionOS          = 3
	sectionApplication = 4

	interfaceName       = 2
	interfaceResolution = 9
	interfaceFilter     = 11
	interfaceOS         = 12
	interfaceOffset     = 14

	packetFlags = 2

	statisticsStart    = 2
	statisticsEnd      = 3
	statisticsReceived = 4
	statisticsDropped  = 5
)

const (
	header  = 8 // type and length, in bytes
	trailer = 4 // the length again
	// fixed parts of blocks, before data and options
	sectionFixed    = 16
	interfaceFixed  = 8
	packetFixed     = 20
	statisticsFixed = 12

	maxBlock = 1 << 20
)

// Block is a block as it is in a file.
type Block []byte

// ReadBlock reads a block into a buffer, which it makes longer. io.EOF says that there is none, and
// io.ErrUnexpectedEOF that it is not whole.
func ReadBlock(r io.Reader, buffer []byte) (Block, error) {
	buffer = append(buffer[:0], make([]byte, header)...)
	if _, err := io.ReadFull(r, buffer); err == io.EOF {
		return buffer, io.EOF
	} else if err != nil {
		return buffer, cut(err)
	}
	length := binary.LittleEndian.Uint32(buffer[4:])
	if length < header+trailer || length > maxBlock || length%4 != 0 {
		return buffer, fmt.Errorf("a block of the packets has %d bytes, which none has", length)
	}
	buffer = append(buffer, make([]byte, length-header)...)
	if _, err := io.ReadFull(r, buffer[header:]); err != nil {
		return buffer, cut(err)
	}
	if again := binary.LittleEndian.Uint32(buffer[length-trailer:]); again != length {
		return buffer, fmt.Errorf("a block of the packets has %d bytes and says %d at its end", length, again)
	}
	return buffer, nil
}

// cut says that a block is not whole, and why, if it is not that the file ends.
func cut(err error) error {
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return io.ErrUnexpectedEOF
	}
	return fmt.Errorf("%w (%w)", io.ErrUnexpectedEOF, err)
}

// Kind is the type of a block.
func (b Block) Kind() Kind { return Kind(binary.LittleEndian.Uint32(b)) }

// Dropped is how many packets were lost, of a block of statistics; 0 if it does not say.
func (b Block) Dropped() uint64 {
	_, rest, _ := b.parts(statisticsFixed)
	for code, value := range options(rest) {
		if code == statisticsDropped && len(value) == 8 {
			return binary.LittleEndian.Uint64(value)
		}
	}
	return 0
}

// parts are the fixed part of a block, which has so many bytes, and what follows it. False means that it has fewer.
func (b Block) parts(fixed int) (first, rest []byte, ok bool) {
	body := b[header : len(b)-trailer]
	if len(body) < fixed {
		return nil, nil, false
	}
	return body[:fixed], body[fixed:], true
}

// options yields the code and value of each option.
func options(text []byte) iter.Seq2[int, []byte] {
	return func(yield func(int, []byte) bool) {
		for len(text) >= 4 {
			code, length := int(binary.LittleEndian.Uint16(text)), int(binary.LittleEndian.Uint16(text[2:]))
			text = text[4:]
			if code == endOfOptions || length > len(text) || !yield(code, text[:length]) {
				return
			}
			text = text[min(padded(length), len(text)):]
		}
	}
}

// padded is the length of so many bytes with those that make them whole words.
func padded(length int) int { return (length + 3) / 4 * 4 }
