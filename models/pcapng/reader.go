package pcapng

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"math/bits"
	"time"
)

// Reader reads the packets of a file. It passes over blocks of other kinds.
type Reader struct {
	in         *bufio.Reader
	block      Block
	interfaces []link
	begun      bool
}

// link is what an interface's packets need to be read.
type link struct {
	kind   int
	second uint64 // in units of its times
	offset int64  // of its times, in seconds
}

// NewReader reads from the beginning of a file.
func NewReader(r io.Reader) *Reader { return &Reader{in: bufio.NewReader(r)} }

var errCut = errors.New("a block of the packets has fewer bytes than its kind")

// Next is the next packet, whose data is valid until the next call. io.EOF says that there are no more.
func (r *Reader) Next() (Packet, error) {
	for {
		var err error
		r.block, err = ReadBlock(r.in, r.block)
		if errors.Is(err, io.EOF) && !r.begun {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return Packet{}, err
		}
		if !r.begun && r.block.Kind() != SectionHeader {
			return Packet{}, errors.New("it does not begin as pcapng")
		}
		switch r.block.Kind() {
		case SectionHeader:
			err = r.section()
		case InterfaceDescription:
			err = r.describe()
		case EnhancedPacket:
			return r.packet()
		}
		if err != nil {
			return Packet{}, err
		}
	}
}

func (r *Reader) section() error {
	fixed, _, ok := r.block.parts(sectionFixed)
	if !ok {
		return errCut
	}
	if binary.LittleEndian.Uint32(fixed) != byteOrder {
		return errors.New("its numbers are not in the order of little-endian machines")
	}
	if major := binary.LittleEndian.Uint16(fixed[4:]); major != 1 {
		return fmt.Errorf("it is pcapng of version %d, and only version 1 is known", major)
	}
	r.begun, r.interfaces = true, nil
	return nil
}

func (r *Reader) describe() error {
	fixed, rest, ok := r.block.parts(interfaceFixed)
	if !ok {
		return errCut
	}
	i := link{kind: int(binary.LittleEndian.Uint16(fixed)), second: 1e6}
	for code, value := range options(rest) {
		switch {
		case code == interfaceResolution && len(value) == 1:
			base, exponent := uint64(10), value[0]&0x7f
			if value[0]&0x80 != 0 {
				base = 2
			}
			i.second = 1
			for range exponent {
				if i.second > math.MaxUint64/base {
					return fmt.Errorf("its times are in units of %d to the power of -%d s, which are too small", base, exponent)
				}
				i.second *= base
			}
		case code == interfaceOffset && len(value) == 8:
			i.offset = int64(binary.LittleEndian.Uint64(value))
		}
	}
	r.interfaces = append(r.interfaces, i)
	return nil
}

func (r *Reader) packet() (Packet, error) {
	fixed, rest, ok := r.block.parts(packetFixed)
	if !ok {
		return Packet{}, errCut
	}
	var words [5]uint32
	for i := range words {
		words[i] = binary.LittleEndian.Uint32(fixed[4*i:])
	}
	at, length := words[0], words[3]
	if uint64(at) >= uint64(len(r.interfaces)) {
		return Packet{}, fmt.Errorf("a packet is of interface %d, and there are %d", at, len(r.interfaces))
	}
	if uint64(length) > uint64(len(rest)) {
		return Packet{}, errCut
	}
	i := r.interfaces[at]
	return Packet{Data: rest[:length], Length: int(words[4]), At: i.time(uint64(words[1])<<32 | uint64(words[2])),
		Link: i.kind}, nil
}

// time is the time of so many units.
func (i link) time(units uint64) time.Time {
	high, low := bits.Mul64(units%i.second, 1e9)
	nanoseconds, _ := bits.Div64(high, low, i.second)
	return time.Unix(i.offset+int64(units/i.second), int64(nanoseconds))
}
