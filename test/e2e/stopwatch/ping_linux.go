package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/vishvananda/netns"
)

// pingInterval is how exactly a first answer is timed.
const pingInterval = 2 * time.Millisecond

const (
	echoReply   = 0
	echoRequest = 8
	echoLength  = 8
)

var echoes atomic.Uint32

// ping sends an echo request each interval, from a pod's network namespace, and returns when the first
// answer came. Requests that cannot be sent are those of a pod that has no route yet. It wants a
// goroutine of its own, which ends with it.
func ping(ctx context.Context, namespace, to string) (time.Time, error) {
	addr, err := netip.ParseAddr(to)
	if err != nil {
		return time.Time{}, err
	}
	if err := enter(namespace); err != nil {
		return time.Time{}, fmt.Errorf("enter %s: %w", namespace, err)
	}
	conn, err := net.ListenPacket("ip4:icmp", "0.0.0.0")
	if err != nil {
		return time.Time{}, fmt.Errorf("open an ICMP socket in %s: %w", namespace, err)
	}
	defer conn.Close()
	request := newEcho(uint16(os.Getpid()) ^ uint16(echoes.Add(1)<<12))
	answered := make(chan time.Time, 1)
	go awaitEcho(conn, addr, request, answered)
	ticker := time.NewTicker(pingInterval)
	defer ticker.Stop()
	for arrived := false; ; {
		if !arrived {
			err = askNeighboursOften()
			arrived = err == nil
		}
		if arrived {
			_, err = conn.WriteTo(request, &net.IPAddr{IP: addr.AsSlice()})
		}
		select {
		case at := <-answered:
			return at, nil
		case <-ctx.Done():
			return time.Time{}, fmt.Errorf("ping %s from %s: %w", to, namespace, errors.Join(ctx.Err(), err))
		case <-ticker.C:
		}
	}
}

// enter is for good: the thread ends with its goroutine, which has it for itself.
func enter(namespace string) error {
	target, err := netns.GetFromPath(namespace)
	if err != nil {
		return err
	}
	defer target.Close()
	runtime.LockOSThread()
	return netns.Set(target)
}

// askNeighboursOften in the thread's namespace; it fails as long as the pod's device is not there. A
// question that comes before the flows is lost, and would be asked again after a whole second, which
// would be all that one sees.
func askNeighboursOften() error {
	return os.WriteFile("/proc/sys/net/ipv4/neigh/eth0/retrans_time_ms", []byte("10"), 0)
}

func newEcho(id uint16) []byte {
	echo := make([]byte, echoLength)
	echo[0] = echoRequest
	binary.BigEndian.PutUint16(echo[4:], id)
	sum := uint32(echoRequest)<<8 + uint32(id)
	binary.BigEndian.PutUint16(echo[2:], ^uint16(sum+sum>>16))
	return echo
}

// awaitEcho returns when the request is answered, or the socket closed.
func awaitEcho(conn net.PacketConn, from netip.Addr, request []byte, answered chan<- time.Time) {
	buffer := make([]byte, 1500)
	for {
		n, source, err := conn.ReadFrom(buffer)
		if err != nil {
			return
		}
		at := time.Now()
		if n >= echoLength && buffer[0] == echoReply && string(buffer[4:echoLength]) == string(request[4:]) &&
			source.String() == from.String() {
			answered <- at
			return
		}
	}
}
