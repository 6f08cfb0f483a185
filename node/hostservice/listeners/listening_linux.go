package listeners

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"strconv"
	"strings"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// States of sockets, see the kernel's include/net/tcp_states.h. One of datagrams that is connected to nobody is
// "closed".
const (
	stateClose  = 7
	stateListen = 10
)

// Sizes and the one attribute of sock_diag(7), see include/uapi/linux/inet_diag.h: struct inet_diag_req_v2, struct
// inet_diag_msg, INET_DIAG_SKV6ONLY.
const (
	diagRequestSize = 56
	diagMessageSize = 72
	diagIPv6Only    = 11
)

// listening asks the kernel who listens in the agent's network namespace, which is the host's.
func listening() (Set, error) {
	found := map[uint32][]Socket{} // by inode
	for _, protocol := range []struct {
		name   string
		number uint8
		state  uint
	}{{TCP, unix.IPPROTO_TCP, stateListen}, {UDP, unix.IPPROTO_UDP, stateClose}} {
		for _, family := range []uint8{unix.AF_INET, unix.AF_INET6} {
			request := nl.NewNetlinkRequest(nl.SOCK_DIAG_BY_FAMILY, unix.NLM_F_DUMP)
			body := make([]byte, diagRequestSize)
			body[0], body[1] = family, protocol.number
			binary.NativeEndian.PutUint32(body[4:], 1<<protocol.state)
			request.AddRawData(body)
			messages, err := request.Execute(unix.NETLINK_INET_DIAG, nl.SOCK_DIAG_BY_FAMILY)
			if err != nil {
				return nil, fmt.Errorf("sock_diag, %s: %w; the kernel needs inet_diag, tcp_diag and udp_diag", protocol.name, err)
			}
			for _, message := range messages {
				inode, sockets, err := parseDiag(protocol.name, message)
				if err != nil {
					return nil, err
				}
				found[inode] = append(found[inode], sockets...)
			}
		}
	}
	own, err := ownInodes()
	if err != nil {
		return nil, err
	}
	all := Set{}
	for inode, sockets := range found {
		if _, mine := own[inode]; !mine {
			all.addDaemons(sockets)
		}
	}
	return all, nil
}

// parseDiag reads a struct inet_diag_msg and its attributes. A socket of all IPv6 addresses has those of IPv4, too,
// unless it says otherwise.
func parseDiag(protocol string, message []byte) (inode uint32, at []Socket, err error) {
	if len(message) < diagMessageSize {
		return 0, nil, fmt.Errorf("sock_diag: a socket of %d bytes, which is fewer than %d", len(message), diagMessageSize)
	}
	port, inode := binary.BigEndian.Uint16(message[4:]), binary.NativeEndian.Uint32(message[68:])
	if message[0] == unix.AF_INET {
		return inode, []Socket{{protocol, netip.AddrPortFrom(netip.AddrFrom4([4]byte(message[8:12])), port)}}, nil
	}
	addr := netip.AddrFrom16([16]byte(message[8:24])).Unmap()
	at = []Socket{{protocol, netip.AddrPortFrom(addr, port)}}
	if addr != netip.IPv6Unspecified() {
		return inode, at, nil
	}
	attributes, err := nl.ParseRouteAttr(message[diagMessageSize:])
	if err != nil {
		return 0, nil, fmt.Errorf("sock_diag: %w", err)
	}
	for _, one := range attributes {
		if one.Attr.Type == diagIPv6Only && len(one.Value) > 0 && one.Value[0] != 0 {
			return inode, at, nil
		}
	}
	return inode, append(at, Socket{protocol, netip.AddrPortFrom(netip.IPv4Unspecified(), port)}), nil
}

// ownInodes are those of this process's sockets, see proc_pid_fd(5).
func ownInodes() (map[uint32]struct{}, error) {
	const folder = "/proc/self/fd"
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil, err
	}
	own := map[uint32]struct{}{}
	for _, entry := range entries {
		link, err := os.Readlink(folder + "/" + entry.Name())
		if errors.Is(err, fs.ErrNotExist) {
			continue // closed meanwhile
		}
		if err != nil {
			return nil, err
		}
		if text, ok := strings.CutPrefix(link, "socket:["); ok {
			if inode, err := strconv.ParseUint(strings.TrimSuffix(text, "]"), 10, 32); err == nil {
				own[uint32(inode)] = struct{}{}
			}
		}
	}
	return own, nil
}
