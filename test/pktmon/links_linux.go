package pktmon

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"time"

	"github.com/mdlayher/socket"
	"golang.org/x/sys/unix"
)

// Links are the devices of the process's own network namespace. Those that HNS's emulator has made stand for the
// adapters of a Windows host and for the vNICs of its pods, with their addresses.
type Links struct{}

// Components are the Ethernet devices.
func (Links) Components() (list []Component, err error) {
	links, err := net.Interfaces()
	for _, l := range links {
		if len(l.HardwareAddr) == 6 && l.Flags&net.FlagLoopback == 0 {
			list = append(list, Component{ID: l.Index, Name: l.Name, MAC: l.HardwareAddr})
		}
	}
	return list, err
}

// Watch shows what passes a device, both ways.
func (Links) Watch(ctx context.Context, c Component, see func(Frame)) (<-chan struct{}, error) {
	conn, err := socket.Socket(unix.AF_PACKET, unix.SOCK_RAW, 0, "pktmon", nil)
	if err != nil {
		return nil, err
	}
	every := binary.NativeEndian.Uint16(binary.BigEndian.AppendUint16(nil, unix.ETH_P_ALL))
	if err := conn.Bind(&unix.SockaddrLinklayer{Protocol: every, Ifindex: c.ID}); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer conn.Close()
		for buffer := make([]byte, 1<<16); ; {
			n, _, err := conn.Recvfrom(ctx, buffer, 0)
			if err != nil {
				return // ctx ends, or the device is gone
			}
			see(Frame{At: time.Now(), Data: buffer[:n]})
		}
	}()
	return done, nil
}
