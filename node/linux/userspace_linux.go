package linux

import (
	"errors"
	"fmt"
	"runtime"
	"unsafe"

	"github.com/google/nftables"
	"golang.org/x/sys/unix"
)

// What a device needs so that the userspace datapath can use it. The kernel datapath needs none of it.

// ingressTable holds a chain of the device's name for each device whose frames the host's stack
// must not see. OVS removes tc's ingress qdiscs from its ports, so tc cannot do this.
var ingressTable = &nftables.Table{Name: "weft", Family: nftables.TableFamilyNetdev}

func dropIngress(device string) error {
	conn, err := nftables.New()
	if err != nil {
		return err
	}
	drop := nftables.ChainPolicyDrop
	conn.AddTable(ingressTable)
	conn.AddChain(&nftables.Chain{
		Name: device, Table: ingressTable, Type: nftables.ChainTypeFilter, Hooknum: nftables.ChainHookIngress,
		Priority: nftables.ChainPriorityFilter, Policy: &drop, Device: device,
	})
	return conn.Flush()
}

func dropsIngress(device string) bool {
	conn, err := nftables.New()
	if err != nil {
		return false
	}
	chain, err := conn.ListChain(ingressTable, device)
	return err == nil && chain.Policy != nil && *chain.Policy == nftables.ChainPolicyDrop
}

// passIngress undoes dropIngress. Some kernels have done so when the device went.
func passIngress(device string) error {
	conn, err := nftables.New()
	if err != nil {
		return err
	}
	conn.DelChain(&nftables.Chain{Name: device, Table: ingressTable})
	if err := conn.Flush(); err != nil && !errors.Is(err, unix.ENOENT) {
		return err
	}
	return nil
}

// checksumInSoftware makes the stack of the thread's namespace finish every checksum of a device
// itself (ethtool -K DEVICE tx off): a frame that leaves by a packet socket keeps a partial one.
func checksumInSoftware(device string) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("switch off checksum offload of %s: %w", device, err)
	}
	defer unix.Close(fd)
	value := struct{ command, data uint32 }{command: unix.ETHTOOL_STXCSUM}
	request := struct {
		name [unix.IFNAMSIZ]byte
		data unsafe.Pointer
		_    [16]byte // the rest of struct ifreq
	}{data: unsafe.Pointer(&value)}
	copy(request.name[:unix.IFNAMSIZ-1], device)
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.SIOCETHTOOL, uintptr(unsafe.Pointer(&request)))
	runtime.KeepAlive(&value)
	if errno != 0 {
		return fmt.Errorf("switch off checksum offload of %s: %w", device, errno)
	}
	return nil
}
