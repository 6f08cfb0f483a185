//go:build linux

package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"syscall"
)

// The ports that Windows gives to clients who ask for none.
const (
	firstPort = 49152
	ports     = 1<<16 - firstPort
)

// lastPorts has a file per network namespace: the last port, as a number modulo ports. A machine's /run goes with the lab.
const lastPorts = "/run/ask"

// withFreshPort connects from the port that clients of this network namespace have not had for the longest time. Linux gives one
// port to connections to several addresses, of which a load balancer may make one, and to TCP and UDP: Windows' driver loses the
// second (dnat-port of docs/hyperv.md), and a test asks in a minute what a client asks in an hour.
func withFreshPort(connect func(port int) error) error {
	for range ports {
		port, err := nextPort()
		if err != nil {
			return err
		}
		if err := connect(port); !errors.Is(err, syscall.EADDRINUSE) {
			return err
		}
	}
	return syscall.EADDRINUSE
}

// nextPort is the one after the last that a process of this network namespace has taken.
func nextPort() (port int, err error) {
	namespace, err := os.Readlink("/proc/self/ns/net") // net:[4026531840]
	if err != nil {
		return 0, err
	}
	if err := os.MkdirAll(lastPorts, 0o755); err != nil {
		return 0, err
	}
	number := crc32.ChecksumIEEE([]byte(namespace))
	file, err := os.OpenFile(filepath.Join(lastPorts, fmt.Sprintf("%08x", number)), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return 0, err
	}
	defer file.Close() // and with it the lock
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX); err != nil {
		return 0, err
	}
	var last [4]byte
	switch _, err := io.ReadFull(file, last[:]); {
	case errors.Is(err, io.EOF): // for clients behind one address not to begin at one port
		binary.BigEndian.PutUint32(last[:], number)
	case err != nil:
		return 0, err
	}
	next := binary.BigEndian.Uint32(last[:])%ports + 1
	_, err = file.WriteAt(binary.BigEndian.AppendUint32(nil, next), 0)
	return firstPort + int(next%ports), err
}
