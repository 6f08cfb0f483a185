package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// Types of blocks and options of pcapng (draft-ietf-opsawg-pcapng, sections 4 and 10.1). Agents write them in the order
// of little-endian machines.
const (
	sectionHeader       = 0x0a0d0d0a
	enhancedPacket      = 6
	interfaceStatistics = 5
	packetsDropped      = 5 // isb_ifdrop
)

const (
	blockHeader = 8 // type and length, in bytes
	blockMeta   = blockHeader + 4
	// statisticsHeader is what stands before the options: the interface, and the time.
	statisticsHeader = blockHeader + 12
	maxBlock         = 1 << 20
)

// packetFile is what a file of packets has.
type packetFile struct {
	packets int
	bytes   int64
	dropped uint64 // by the node
	whole   bool   // the statistics are there, which come last
}

var errBrokenOff = errors.New("the capture broke off before its end: the connection to weft observe was lost, or " +
	"that from weft observe to the node's agent; their logs say why")

// brokenOff is the error of a stream that ends within a block.
func brokenOff(err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		return errBrokenOff
	}
	return fmt.Errorf("%w (%w)", errBrokenOff, err)
}

// copyPackets copies pcapng. What it has written can be read, also after an error: blocks are written whole or not at
// all.
func copyPackets(w io.Writer, r io.Reader) (file packetFile, err error) {
	block := make([]byte, 0, 1<<16)
	for {
		block, err = readBlock(r, block)
		switch {
		case errors.Is(err, io.EOF) && file.whole:
			return file, nil
		case errors.Is(err, io.EOF):
			return file, errBrokenOff
		case err != nil:
			return file, err
		}
		kind := binary.LittleEndian.Uint32(block)
		if file.bytes == 0 && kind != sectionHeader {
			return file, errors.New("the API server answers with something that is no pcapng; weft observe is of another " +
				"version")
		}
		if _, err := w.Write(block); err != nil {
			return file, fmt.Errorf("write packets: %w", err)
		}
		file.bytes += int64(len(block))
		switch kind {
		case enhancedPacket:
			file.packets++
		case interfaceStatistics:
			file.dropped, file.whole = droppedOf(block), true
		}
	}
}

// readBlock reads a block into a buffer, which it makes longer. io.EOF says that there is none.
func readBlock(r io.Reader, buffer []byte) ([]byte, error) {
	buffer = append(buffer[:0], make([]byte, blockHeader)...)
	if _, err := io.ReadFull(r, buffer); errors.Is(err, io.EOF) {
		return buffer, io.EOF
	} else if err != nil {
		return buffer, brokenOff(err)
	}
	length := binary.LittleEndian.Uint32(buffer[4:])
	if length < blockMeta || length > maxBlock || length%4 != 0 {
		return buffer, fmt.Errorf("a block of the packets has %d bytes, which none has", length)
	}
	buffer = append(buffer, make([]byte, length-blockHeader)...)
	if _, err := io.ReadFull(r, buffer[blockHeader:]); err != nil {
		return buffer, brokenOff(err)
	}
	if again := binary.LittleEndian.Uint32(buffer[length-4:]); again != length {
		return buffer, fmt.Errorf("a block of the packets has %d bytes and says %d at its end", length, again)
	}
	return buffer, nil
}

// droppedOf reads how many packets were lost off a block of statistics; 0 if it does not say.
func droppedOf(block []byte) uint64 {
	options := block[min(statisticsHeader, len(block)-4) : len(block)-4]
	for len(options) >= 4 {
		code, length := binary.LittleEndian.Uint16(options), int(binary.LittleEndian.Uint16(options[2:]))
		value := options[4:]
		if length > len(value) {
			return 0
		}
		if code == packetsDropped && length == 8 {
			return binary.LittleEndian.Uint64(value)
		}
		options = value[min((length+3)/4*4, len(value)):]
	}
	return 0
}
