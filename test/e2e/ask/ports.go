package main

import (
	"errors"
	"hash/crc32"
	"os"
	"sync/atomic"
	"syscall"
	"time"
)

// The ports that Windows gives to clients who ask for none.
const (
	firstPort = 49152
	ports     = 1<<16 - firstPort
)

// perPort is how long each of them is the next one: after all of them it is longer ago than connection tracking remembers.
const perPort = 10 * time.Millisecond

// withFreshPort connects from a port that no client of this network namespace has had for some minutes. Linux gives one port to
// connections to several addresses, of which a load balancer may make one: Windows' driver loses the second (dnat-port of
// docs/hyperv.md), and a test asks in a minute what a client asks in an hour.
func withFreshPort(connect func(port int) error) error {
	for range ports {
		if err := connect(firstPort + (nextPort()+namespace())%ports); !errors.Is(err, syscall.EADDRINUSE) {
			return err
		}
	}
	return syscall.EADDRINUSE
}

// lastPort is the one that this process has taken last, as nextPort counts them.
var lastPort atomic.Int64

// nextPort is the clock's, or the one after the last where that is later.
func nextPort() int {
	for {
		last := lastPort.Load()
		next := max(last+1, time.Now().UnixMilli()/perPort.Milliseconds())
		if lastPort.CompareAndSwap(last, next) {
			return int(next)
		}
	}
}

// namespace is a number of this network namespace's, for clients behind one address not to begin at one port.
func namespace() int {
	name, err := os.Readlink("/proc/self/ns/net") // net:[4026531840]
	if err != nil {
		return 0
	}
	return int(crc32.ChecksumIEEE([]byte(name)) % ports)
}
