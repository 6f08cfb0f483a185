package pcapng

import (
	"bufio"
	"encoding/binary"
	"io"
	"time"
)

// Section says what has written a file.
type Section struct {
	OS, Hardware, Application, Comment string
}

// Interface is where packets are captured.
type Interface struct {
	Name, Comment, OS string
	// Filter is what packets are asked for, in the words of libpcap; empty: all.
	Filter string
	// SnapLength is how many bytes of a packet are in the file at most.
	SnapLength int
}

// Packet is a frame of Ethernet.
type Packet struct {
	Data     []byte
	Length   int // in bytes, of which Data has the first
	At       time.Time
	Outgoing bool // of what is written, whether the host sends it by the interface
	Link     int  // of what is read, the link type of its interface
}

// Statistics are those of an interface at the end.
type Statistics struct {
	Start, End        time.Time
	Received, Dropped uint64
}

// Writer writes a file of one section and one interface. What it has written is in the file after Flush.
type Writer struct {
	out   *bufio.Writer
	block []byte
}

// NewWriter begins a file.
func NewWriter(w io.Writer, s Section, i Interface) (*Writer, error) {
	f := &Writer{out: bufio.NewWriter(w)}
	f.begin(SectionHeader)
	f.word(byteOrder)
	f.short(1) // the format's version: 1.0
	f.short(0)
	f.long(^uint64(0)) // the section's length is not known
	f.text(sectionHardware, s.Hardware)
	f.text(sectionOS, s.OS)
	f.text(sectionApplication, s.Application)
	f.text(comment, s.Comment)
	if err := f.end(); err != nil {
		return nil, err
	}
	f.begin(InterfaceDescription)
	f.short(LinkEthernet)
	f.short(0)
	f.word(uint32(i.SnapLength))
	f.text(interfaceName, i.Name)
	f.text(comment, i.Comment)
	f.text(interfaceOS, i.OS)
	if i.Filter != "" {
		f.text(interfaceFilter, "\x00"+i.Filter) // 0: words of libpcap
	}
	f.option(interfaceResolution, []byte{9}) // nanoseconds
	return f, f.end()
}

// Packet adds a packet.
func (f *Writer) Packet(p Packet) error {
	f.begin(EnhancedPacket)
	f.word(0) // the interface
	f.time(p.At)
	f.word(uint32(len(p.Data)))
	f.word(uint32(p.Length))
	f.bytes(p.Data)
	direction := uint32(1)
	if p.Outgoing {
		direction = 2
	}
	f.option(packetFlags, binary.LittleEndian.AppendUint32(nil, direction))
	return f.end()
}

// Statistics adds those of the interface.
func (f *Writer) Statistics(s Statistics) error {
	f.begin(InterfaceStatistics)
	f.word(0) // the interface
	f.time(s.End)
	f.option(statisticsStart, appendTime(nil, s.Start))
	f.option(statisticsEnd, appendTime(nil, s.End))
	f.option(statisticsReceived, binary.LittleEndian.AppendUint64(nil, s.Received))
	f.option(statisticsDropped, binary.LittleEndian.AppendUint64(nil, s.Dropped))
	return f.end()
}

// Flush gives the file what was written.
func (f *Writer) Flush() error { return f.out.Flush() }

// begin begins a block, whose length is not known before its end.
func (f *Writer) begin(k Kind) {
	f.block = f.block[:0]
	f.word(uint32(k))
	f.word(0)
}

// end writes the block, all of which end in options.
func (f *Writer) end() error {
	f.option(endOfOptions, nil)
	length := uint32(len(f.block) + trailer)
	f.word(length)
	binary.LittleEndian.PutUint32(f.block[4:], length)
	_, err := f.out.Write(f.block)
	return err
}

func (f *Writer) short(n uint16) { f.block = binary.LittleEndian.AppendUint16(f.block, n) }
func (f *Writer) word(n uint32)  { f.block = binary.LittleEndian.AppendUint32(f.block, n) }
func (f *Writer) long(n uint64)  { f.block = binary.LittleEndian.AppendUint64(f.block, n) }

func (f *Writer) time(t time.Time) { f.block = appendTime(f.block, t) }

// appendTime adds a time as two words, of which the higher one comes first.
func appendTime(b []byte, t time.Time) []byte {
	n := uint64(t.UnixNano())
	return binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(b, uint32(n>>32)), uint32(n))
}

// bytes adds bytes, and those that make them whole words.
func (f *Writer) bytes(b []byte) {
	f.block = append(append(f.block, b...), make([]byte, padded(len(b))-len(b))...)
}

func (f *Writer) option(code int, value []byte) {
	f.short(uint16(code))
	f.short(uint16(len(value)))
	f.bytes(value)
}

// text adds an option unless it is empty.
func (f *Writer) text(code int, value string) {
	if value != "" {
		f.option(code, []byte(value))
	}
}
