package hostnet

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"unsafe"

	"golang.org/x/sys/windows"
	"golang.zx2c4.com/wireguard/windows/tunnel/winipcfg"
)

// neighbourRow is MIB_IPNET_ROW2 of netioapi.h, 88 bytes.
type neighbourRow struct {
	address               winipcfg.RawSockaddrInet
	interfaceIndex        uint32
	interfaceLUID         uint64
	physicalAddress       [32]byte
	physicalAddressLength uint32
	state                 uint32
	flags                 uint32
	reachabilityTime      uint32
}

// permanent is NlnsPermanent of NL_NEIGHBOR_STATE.
const permanent = 6

var (
	iphlpapi          = windows.NewLazySystemDLL("iphlpapi.dll")
	createIPNetEntry2 = iphlpapi.NewProc("CreateIpNetEntry2")
	setIPNetEntry2    = iphlpapi.NewProc("SetIpNetEntry2")
)

// SetNeighbour creates the entry, or changes the one that Windows has learnt.
func (Native) SetNeighbour(a Adapter, address netip.Addr, mac net.HardwareAddr) error {
	row := neighbourRow{interfaceLUID: a.LUID, state: permanent, physicalAddressLength: uint32(len(mac))}
	if copy(row.physicalAddress[:], mac) != len(mac) {
		return fmt.Errorf("%v is too long for a MAC address", mac)
	}
	if err := row.address.SetAddr(address); err != nil {
		return err
	}
	err := callIPNet(createIPNetEntry2, &row)
	if errors.Is(err, windows.ERROR_OBJECT_ALREADY_EXISTS) {
		err = callIPNet(setIPNetEntry2, &row)
	}
	return err
}

func callIPNet(function *windows.LazyProc, row *neighbourRow) error {
	if err := function.Find(); err != nil {
		return err
	}
	code, _, _ := function.Call(uintptr(unsafe.Pointer(row)))
	if code != 0 {
		return fmt.Errorf("%s: %w", function.Name, windows.Errno(code))
	}
	return nil
}
