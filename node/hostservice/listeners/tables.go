package listeners

import (
	"encoding/binary"
	"fmt"
	"net/netip"
)

// table says where a row of a table of Windows has what, in bytes: MIB_TCPTABLE_OWNER_PID and its like, see tcpmib.h
// and udpmib.h. A table is the number of its rows and then those, little-endian; addresses and ports are big-endian.
type table struct {
	protocol          string
	row, addr, length int // length: of the address
	port, process     int
}

var (
	tcp4Table = table{protocol: TCP, row: 24, addr: 4, length: 4, port: 8, process: 20}
	tcp6Table = table{protocol: TCP, row: 56, addr: 0, length: 16, port: 20, process: 52}
	udp4Table = table{protocol: UDP, row: 12, addr: 0, length: 4, port: 4, process: 8}
	udp6Table = table{protocol: UDP, row: 28, addr: 0, length: 16, port: 20, process: 24}
)

// parse returns the listeners but those of a process. What follows the rows is not read.
func (t table) parse(content []byte, but uint32) ([]Socket, error) {
	if len(content) < 4 {
		return nil, fmt.Errorf("table of %s: %d bytes", t.protocol, len(content))
	}
	rows := uint64(binary.LittleEndian.Uint32(content))
	content = content[4:]
	if rows*uint64(t.row) > uint64(len(content)) {
		return nil, fmt.Errorf("table of %s: %d rows in %d bytes", t.protocol, rows, len(content))
	}
	var list []Socket
	for ; rows > 0; rows-- {
		row := content[:t.row]
		content = content[t.row:]
		if binary.LittleEndian.Uint32(row[t.process:]) == but {
			continue
		}
		addr, _ := netip.AddrFromSlice(row[t.addr : t.addr+t.length])
		list = append(list, Socket{t.protocol, netip.AddrPortFrom(addr.Unmap(), binary.BigEndian.Uint16(row[t.port:]))})
	}
	return list, nil
}
