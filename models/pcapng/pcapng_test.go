package pcapng_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"

	"github.com/weftnet/weft/models/pcapng"
)

// TestNoProgramHasTheLibrary, which the tests read the files by.
func TestNoProgramHasTheLibrary(t *testing.T) {
	for _, system := range []string{"linux", "windows"} {
		list := exec.Command("go", "list", "-deps", "./cmd/weft", "./cmd/weft-cni")
		list.Dir, list.Env = "../..", append(os.Environ(), "GOOS="+system)
		text, err := list.Output()
		if err != nil {
			t.Fatal(err)
		}
		if packages := strings.Fields(string(text)); !slices.Contains(packages, "github.com/weftnet/weft/models/pcapng") ||
			slices.ContainsFunc(packages, func(name string) bool { return strings.HasPrefix(name, "github.com/gopacket/") }) {
			t.Errorf("on %s the programs have gopacket, or none has this package", system)
		}
	}
}

var noon = time.Date(2026, 11, 26, 12, 0, 0, 123456789, time.UTC)

// TestAnotherProgramReadsIt: all that is written is in the file, whatever the lengths.
func TestAnotherProgramReadsIt(t *testing.T) {
	var file bytes.Buffer
	w, err := pcapng.NewWriter(&file, pcapng.Section{OS: "linux", Hardware: "amd64", Application: "weft 1.2.3",
		Comment: "pod shop/web"}, pcapng.Interface{Name: "weft0", Comment: "pod shop/web", OS: "linux",
		Filter: "tcp and port 80", SnapLength: 96})
	for length := range 9 {
		err = errors.Join(err, w.Packet(pcapng.Packet{Data: make([]byte, length), Length: 1500, At: noon,
			Outgoing: length%2 == 1}))
	}
	err = errors.Join(err, w.Statistics(pcapng.Statistics{Start: noon, End: noon.Add(time.Hour), Received: 9,
		Dropped: 1 << 40}), w.Flush())
	if err != nil {
		t.Fatal(err)
	}
	reader, err := pcapgo.NewNgReader(&file, pcapgo.DefaultNgReaderOptions)
	if err != nil {
		t.Fatal(err)
	}
	for length := range 9 {
		data, info, options, err := reader.ReadPacketDataWithOptions()
		if err != nil {
			t.Fatalf("packet of %d bytes: %v", length, err)
		}
		direction := pcapgo.NgEpbFlagDirectionInbound
		if length%2 == 1 {
			direction = pcapgo.NgEpbFlagDirectionOutbound
		}
		if len(data) != length || info.Length != 1500 || !info.Timestamp.Equal(noon) || options.Flags == nil ||
			options.Flags.Direction != direction {
			t.Errorf("packet of %d bytes: %d bytes, %+v, %+v", length, len(data), info, options.Flags)
		}
	}
	if _, _, err := reader.ReadPacketData(); !errors.Is(err, io.EOF) {
		t.Errorf("after the packets: %v", err)
	}
	if got, want := reader.SectionInfo(), (pcapgo.NgSectionInfo{Hardware: "amd64", OS: "linux",
		Application: "weft 1.2.3", Comment: "pod shop/web"}); got != want {
		t.Errorf("the section is %+v, want %+v", got, want)
	}
	link, err := reader.Interface(0)
	if err != nil {
		t.Fatal(err)
	}
	if link.Name != "weft0" || link.Comment != "pod shop/web" || link.OS != "linux" || link.Filter != "tcp and port 80" ||
		link.SnapLength != 96 || link.LinkType != layers.LinkTypeEthernet {
		t.Errorf("the interface is %+v", link)
	}
	if s := link.Statistics; s.PacketsReceived != 9 || s.PacketsDropped != 1<<40 || !s.StartTime.Equal(noon) ||
		!s.EndTime.Equal(noon.Add(time.Hour)) || !s.LastUpdate.Equal(s.EndTime) {
		t.Errorf("the statistics are %+v", s)
	}
}

// read gives the packets of a file, and why there are no more.
func read(file []byte) (packets []pcapng.Packet, err error) {
	r := pcapng.NewReader(bytes.NewReader(file))
	for {
		p, err := r.Next()
		if err != nil {
			return packets, err
		}
		p.Data = bytes.Clone(p.Data)
		packets = append(packets, p)
	}
}

// TestItReadsAnotherProgramsFile: the packets of all interfaces, each with the link type of its own.
func TestItReadsAnotherProgramsFile(t *testing.T) {
	var file bytes.Buffer
	w, err := pcapgo.NewNgWriter(&file, layers.LinkTypeEthernet)
	if err == nil {
		_, err = w.AddInterface(pcapgo.NgInterface{Name: "wifi", LinkType: layers.LinkTypeIEEE802_11})
	}
	var want []pcapng.Packet
	for i := range 9 {
		p := pcapng.Packet{Data: bytes.Repeat([]byte{byte(i)}, i), Length: 100 + i, At: noon.Add(time.Duration(i)),
			Link: pcapng.LinkEthernet}
		if i%2 == 1 {
			p.Link = int(layers.LinkTypeIEEE802_11)
		}
		want = append(want, p)
		err = errors.Join(err, w.WritePacketWithOptions(gopacket.CaptureInfo{Timestamp: p.At, CaptureLength: i,
			Length: p.Length, InterfaceIndex: i % 2}, p.Data, pcapgo.NgPacketOptions{Comments: []string{"one of nine"}}))
	}
	err = errors.Join(err, w.WriteInterfaceStats(1, pcapgo.NgInterfaceStatistics{PacketsDropped: 3}), w.Flush())
	if err != nil {
		t.Fatal(err)
	}
	got, err := read(file.Bytes())
	if !errors.Is(err, io.EOF) || len(got) != len(want) {
		t.Fatalf("%d packets, then %v", len(got), err)
	}
	for i := range got {
		if !cmp.Equal(got[i], want[i]) {
			t.Errorf("packet %d is %+v, want %+v", i, got[i], want[i])
		}
	}
	whole := file.Bytes()
	for length := range whole {
		if packets, err := read(whole[:length]); !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("the first %d bytes: %d packets, then %v", length, len(packets), err)
		}
	}
	if _, err := read(nil); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("an empty file: %v", err)
	}
}

// block is a block of a file.
func block(kind pcapng.Kind, body ...byte) []byte {
	body = append(body, make([]byte, (4-len(body)%4)%4)...)
	length := uint32(len(body) + 12)
	text := binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(nil, uint32(kind)), length)
	return binary.LittleEndian.AppendUint32(append(text, body...), length)
}

// TestUnitsOfTime: the times of an interface have its units, and begin at its offset.
func TestUnitsOfTime(t *testing.T) {
	begin := block(pcapng.SectionHeader, 0x4d, 0x3c, 0x2b, 0x1a, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)
	packet := func(high, low uint32) []byte {
		body := binary.LittleEndian.AppendUint32(make([]byte, 4), high)
		return block(pcapng.EnhancedPacket, append(binary.LittleEndian.AppendUint32(body, low), make([]byte, 8)...)...)
	}
	at := func(units uint64) []byte { return packet(uint32(units>>32), uint32(units)) }
	for name, c := range map[string]struct {
		options []byte
		packet  []byte
		want    time.Time
	}{
		"microseconds, if it does not say": {nil, at(1_500_000), time.Unix(1, 5e8)},
		"nanoseconds":                      {[]byte{9, 0, 1, 0, 9, 0, 0, 0}, at(1_500_000_001), time.Unix(1, 500_000_001)},
		"100 nanoseconds":                  {[]byte{9, 0, 1, 0, 7, 0, 0, 0}, at(15_000_001), time.Unix(1, 500_000_100)},
		"powers of two":                    {[]byte{9, 0, 1, 0, 0x80 | 10, 0, 0, 0}, at(1536), time.Unix(1, 5e8)},
		"the smallest":                     {[]byte{9, 0, 1, 0, 0x80 | 63, 0, 0, 0}, at(3 << 62), time.Unix(1, 5e8)},
		"an offset":                        {[]byte{14, 0, 8, 0, 60, 0, 0, 0, 0, 0, 0, 0}, at(1_500_000), time.Unix(61, 5e8)},
	} {
		file := bytes.Join([][]byte{begin, block(pcapng.InterfaceDescription, append([]byte{1, 0, 0, 0, 0, 0, 0, 0},
			c.options...)...), c.packet}, nil)
		if packets, err := read(file); !errors.Is(err, io.EOF) || len(packets) != 1 || !packets[0].At.Equal(c.want) {
			t.Errorf("%s: %+v, %v, want %v", name, packets, err, c.want)
		}
	}
}

// TestBrokenFiles are refused.
func TestBrokenFiles(t *testing.T) {
	begin := block(pcapng.SectionHeader, 0x4d, 0x3c, 0x2b, 0x1a, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)
	described := append(bytes.Clone(begin), block(pcapng.InterfaceDescription, 1, 0, 0, 0, 0, 0, 0, 0)...)
	after := func(first []byte, more ...byte) []byte { return append(bytes.Clone(first), more...) }
	for name, file := range map[string][]byte{
		"another format":           []byte("{\"kind\": \"Status\"}"),
		"another block first":      block(pcapng.InterfaceDescription, 1, 0, 0, 0, 0, 0, 0, 0),
		"another order":            block(pcapng.SectionHeader, 0x1a, 0x2b, 0x3c, 0x4d, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0),
		"another version":          block(pcapng.SectionHeader, 0x4d, 0x3c, 0x2b, 0x1a, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0),
		"a section that is cut":    block(pcapng.SectionHeader, 0x4d, 0x3c, 0x2b, 0x1a),
		"an interface that is cut": after(begin, block(pcapng.InterfaceDescription, 1, 0)...),
		"units that are too small": after(begin, block(pcapng.InterfaceDescription, 1, 0, 0, 0, 0, 0, 0, 0, 9, 0, 1, 0,
			20)...),
		"a packet that is cut":       after(described, block(pcapng.EnhancedPacket, make([]byte, 16)...)...),
		"a packet without interface": after(begin, block(pcapng.EnhancedPacket, make([]byte, 20)...)...),
		"a packet that is too long": after(described, block(pcapng.EnhancedPacket, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
			0xff, 0xff, 0xff, 0xff, 1, 0, 0, 0)...),
		"two lengths": after(begin, 6, 0, 0, 0, 12, 0, 0, 0, 16, 0, 0, 0),
		"no length":   after(begin, 6, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0),
	} {
		if packets, err := read(file); err == nil || errors.Is(err, io.EOF) || len(packets) > 0 {
			t.Errorf("%s: %d packets, %v", name, len(packets), err)
		}
	}
}
