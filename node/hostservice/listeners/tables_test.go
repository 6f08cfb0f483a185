package listeners

import (
	"encoding/binary"
	"net/netip"
	"slices"
	"testing"
)

// row is one of a Windows table.
func (t table) makeRow(at netip.AddrPort, process uint32) []byte {
	row := make([]byte, t.row)
	copy(row[t.addr:], at.Addr().AsSlice())
	binary.BigEndian.PutUint16(row[t.port:], at.Port())
	binary.LittleEndian.PutUint32(row[t.process:], process)
	return row
}

func TestTablesOfWindows(t *testing.T) {
	for _, c := range []struct {
		table
		at string
	}{{tcp4Table, "192.0.2.1:445"}, {tcp6Table, "[2001:db8::1]:445"}, {udp4Table, "0.0.0.0:53"}, {udp6Table, "[::]:53"}} {
		at := netip.MustParseAddrPort(c.at)
		content := slices.Concat([]byte{2, 0, 0, 0}, c.makeRow(at, 4), c.makeRow(at, 77), make([]byte, 100))
		got, err := c.parse(content, 77)
		if err != nil || !slices.Equal(got, []Socket{{c.protocol, at}}) {
			t.Errorf("%s: %v, %v", c.at, got, err)
		}
		if got, err := c.parse(content[:4+2*c.row-1], 77); err == nil {
			t.Errorf("%s: a table that is cut off has %v", c.at, got)
		}
	}
}

func FuzzTablesOfWindows(f *testing.F) {
	tables := []table{tcp4Table, tcp6Table, udp4Table, udp6Table}
	f.Add(uint8(0), slices.Concat([]byte{1, 0, 0, 0}, tcp4Table.makeRow(netip.MustParseAddrPort("192.0.2.1:1"), 1)))
	f.Add(uint8(3), []byte{255, 255, 255, 255})
	f.Fuzz(func(t *testing.T, which uint8, content []byte) {
		one := tables[int(which)%len(tables)]
		list, err := one.parse(content, 4)
		if err == nil && len(list)*one.row > len(content) {
			t.Errorf("%d listeners in %d bytes", len(list), len(content))
		}
	})
}
