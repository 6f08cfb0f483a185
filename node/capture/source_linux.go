package capture

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"time"
	"unsafe"

	"github.com/mdlayher/socket"
	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"

	api "github.com/weftnet/weft/models/api/observe/v1alpha1"
	"github.com/weftnet/weft/models/pcapng"
)

// receiveBuffer bounds, in bytes, what the kernel keeps of packets that the agent has not read yet.
const receiveBuffer = 4 << 20

// packetSocket gives the packets of one device, both ways.
type packetSocket struct {
	*socket.Conn
	control []byte
	seen    uint64
	lost    uint64
}

// PacketSockets captures live, by packet sockets.
func PacketSockets() Backend {
	return Backend{open: func(_ context.Context, d Device, spec api.CaptureSpec) (source, error) {
		return openSocket(d.Name, filter(spec, d.Tunnels))
	}}
}

// openSocket begins to capture the packets of a device, in the calling thread's network namespace. A device of the same
// name that comes later is another one.
func openSocket(device string, program instructions) (source, error) {
	link, err := net.InterfaceByName(device)
	if err != nil {
		return nil, fmt.Errorf("find device %s: %w", device, err)
	}
	code, err := bpf.Assemble(program)
	if err != nil {
		return nil, fmt.Errorf("make the filter of device %s: %w", device, err)
	}
	// Protocol 0 takes no packets, so that none comes before the filter is there.
	conn, err := socket.Socket(unix.AF_PACKET, unix.SOCK_RAW, 0, "capture", nil)
	if err != nil {
		return nil, fmt.Errorf("open a packet socket: %w", err)
	}
	err = errors.Join(
		conn.SetReadBuffer(receiveBuffer),
		conn.SetsockoptInt(unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1),
		conn.SetsockoptInt(unix.SOL_PACKET, unix.PACKET_AUXDATA, 1),
		conn.SetBPF(code))
	if err == nil {
		err = conn.Bind(&unix.SockaddrLinklayer{Protocol: networkOrder(unix.ETH_P_ALL), Ifindex: link.Index})
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("capture the packets of device %s: %w", device, err), conn.Close())
	}
	return &packetSocket{Conn: conn, control: make([]byte, unix.CmsgSpace(int(unsafe.Sizeof(unix.Timespec{})))+
		unix.CmsgSpace(int(unsafe.Sizeof(unix.TpacketAuxdata{}))))}, nil
}

// networkOrder is a number whose bytes in memory are in the network's order.
func networkOrder(v uint16) uint16 {
	return binary.NativeEndian.Uint16(binary.BigEndian.AppendUint16(nil, v))
}

func (s *packetSocket) next(buffer []byte) (pcapng.Packet, error) {
	n, controls, _, from, err := s.Recvmsg(context.Background(), buffer, s.control, 0)
	if errors.Is(err, unix.ENETDOWN) {
		return pcapng.Packet{}, errGone
	}
	if err != nil {
		return pcapng.Packet{}, err
	}
	p := pcapng.Packet{Data: buffer[:n], Length: n, At: time.Now()}
	if link, ok := from.(*unix.SockaddrLinklayer); ok {
		p.Outgoing = link.Pkttype == unix.PACKET_OUTGOING
	}
	messages, err := unix.ParseSocketControlMessage(s.control[:controls])
	if err != nil {
		return pcapng.Packet{}, fmt.Errorf("read what the kernel says of a packet: %w", err)
	}
	for _, m := range messages {
		note(&p, m)
	}
	return p, nil
}

// note reads when a packet was seen, and how long it was before the filter has cut it.
func note(p *pcapng.Packet, m unix.SocketControlMessage) {
	switch {
	case m.Header.Level == unix.SOL_SOCKET && m.Header.Type == unix.SO_TIMESTAMPNS &&
		len(m.Data) >= int(unsafe.Sizeof(unix.Timespec{})):
		p.At = time.Unix((*unix.Timespec)(unsafe.Pointer(&m.Data[0])).Unix())
	case m.Header.Level == unix.SOL_PACKET && m.Header.Type == unix.PACKET_AUXDATA &&
		len(m.Data) >= int(unsafe.Sizeof(unix.TpacketAuxdata{})):
		p.Length = max(p.Length, int((*unix.TpacketAuxdata)(unsafe.Pointer(&m.Data[0])).Len))
	}
}

// counts adds up what the kernel has counted since it was last asked. It counts a packet that it drops in both.
func (s *packetSocket) counts() (seen, lost uint64, err error) {
	stats, err := s.GetsockoptTpacketStats(unix.SOL_PACKET, unix.PACKET_STATISTICS)
	if err != nil {
		return 0, 0, fmt.Errorf("read how many packets the kernel has dropped: %w", err)
	}
	s.seen += uint64(stats.Packets)
	s.lost += uint64(stats.Drops)
	return s.seen, s.lost, nil
}
