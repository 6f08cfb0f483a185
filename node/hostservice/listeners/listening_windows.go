package listeners

import (
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/windows"
)

var (
	iphlpapi                = windows.NewLazySystemDLL("iphlpapi.dll")
	procGetExtendedTCPTable = iphlpapi.NewProc("GetExtendedTcpTable")
	procGetExtendedUDPTable = iphlpapi.NewProc("GetExtendedUdpTable")
)

// Classes of tables, see iprtrmib.h.
const (
	tcpTableOwnerPIDListener = 3
	udpTableOwnerPID         = 1
)

// listening asks Windows who listens, and leaves this process out.
func listening() (Set, error) { return listeningBut(uint32(os.Getpid())) }

func listeningBut(process uint32) (Set, error) {
	all := Set{}
	for _, one := range []struct {
		table  table
		call   *windows.LazyProc
		family uintptr
		class  uintptr
	}{
		{tcp4Table, procGetExtendedTCPTable, windows.AF_INET, tcpTableOwnerPIDListener},
		{tcp6Table, procGetExtendedTCPTable, windows.AF_INET6, tcpTableOwnerPIDListener},
		{udp4Table, procGetExtendedUDPTable, windows.AF_INET, udpTableOwnerPID},
		{udp6Table, procGetExtendedUDPTable, windows.AF_INET6, udpTableOwnerPID},
	} {
		content, err := extendedTable(one.call, one.family, one.class)
		if err != nil {
			return nil, err
		}
		sockets, err := one.table.parse(content, process)
		if err != nil {
			return nil, err
		}
		all.addDaemons(sockets)
	}
	return all, nil
}

// extendedTable calls until the table fits: it may grow between two calls.
func extendedTable(call *windows.LazyProc, family, class uintptr) ([]byte, error) {
	size := uint32(1 << 14)
	for range 8 {
		buffer := make([]byte, size)
		result, _, _ := call.Call(uintptr(unsafe.Pointer(&buffer[0])), uintptr(unsafe.Pointer(&size)), 0, family, class, 0)
		switch err := windows.Errno(result); err {
		case windows.ERROR_SUCCESS:
			return buffer, nil
		case windows.ERROR_INSUFFICIENT_BUFFER:
			size += size / 4
		default:
			return nil, fmt.Errorf("%s: %w", call.Name, err)
		}
	}
	return nil, fmt.Errorf("%s: the table grows faster than it can be read", call.Name)
}
