package main

import (
	"errors"
	"fmt"
	"io"

	"github.com/weftnet/weft/models/pcapng"
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

// copyPackets copies pcapng. What it has written can be read, also after an error: blocks are written whole or not at
// all.
func copyPackets(w io.Writer, r io.Reader) (file packetFile, err error) {
	block := make(pcapng.Block, 0, 1<<16)
	for {
		block, err = pcapng.ReadBlock(r, block)
		switch {
		case errors.Is(err, io.EOF) && file.whole:
			return file, nil
		case err == io.EOF, err == io.ErrUnexpectedEOF:
			return file, errBrokenOff
		case errors.Is(err, io.ErrUnexpectedEOF):
			return file, fmt.Errorf("%w (%w)", errBrokenOff, err)
		case err != nil:
			return file, err
		}
		if file.bytes == 0 && block.Kind() != pcapng.SectionHeader {
			return file, errors.New("the API server answers with something that is no pcapng; weft observe is of another " +
				"version")
		}
		if _, err := w.Write(block); err != nil {
			return file, fmt.Errorf("write packets: %w", err)
		}
		file.bytes += int64(len(block))
		switch block.Kind() {
		case pcapng.EnhancedPacket:
			file.packets++
		case pcapng.InterfaceStatistics:
			file.dropped, file.whole = block.Dropped(), true
		}
	}
}
