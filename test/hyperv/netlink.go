//go:build linux

package hyperv

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

var native = binary.NativeEndian

const (
	headerLength  = unix.NLMSG_HDRLEN
	genericLength = headerLength + 4 // struct genlmsghdr, or nfgenmsg
	ovsLength     = genericLength + 4
)

// message is one netlink message of a request or an answer.
type message struct {
	kind, flags uint16
	seq, port   uint32
	body        []byte // what follows the netlink header
}

// parseMessages takes a datagram apart. A message whose length does not fit is an error.
func parseMessages(datagram []byte) ([]message, error) {
	var all []message
	for len(datagram) > 0 {
		if len(datagram) < headerLength {
			return all, errors.New("a netlink header is cut off")
		}
		length := native.Uint32(datagram)
		if length < headerLength || uint64(length) > uint64(len(datagram)) {
			return all, fmt.Errorf("a netlink message says that it has %d bytes of %d", length, len(datagram))
		}
		all = append(all, message{
			kind: native.Uint16(datagram[4:]), flags: native.Uint16(datagram[6:]),
			seq: native.Uint32(datagram[8:]), port: native.Uint32(datagram[12:]),
			body: datagram[headerLength:length:length],
		})
		datagram = datagram[min(align4(int(length)), len(datagram)):]
	}
	return all, nil
}

func align4(n int) int { return (n + 3) &^ 3 }

// appendTo appends the message with its padding.
func (m message) appendTo(b []byte) []byte {
	b = native.AppendUint32(b, uint32(headerLength+len(m.body)))
	b = native.AppendUint16(b, m.kind)
	b = native.AppendUint16(b, m.flags)
	b = native.AppendUint32(b, m.seq)
	b = native.AppendUint32(b, m.port)
	b = append(b, m.body...)
	return append(b, make([]byte, align4(len(m.body))-len(m.body))...)
}

// errorMessage answers a request: errno 0 is the acknowledgement.
func errorMessage(request message, errno unix.Errno) message {
	body := native.AppendUint32(nil, uint32(-int32(errno)))
	header := message{kind: request.kind, flags: request.flags, seq: request.seq, port: request.port}.appendTo(nil)
	native.PutUint32(header, uint32(headerLength+len(request.body)))
	return message{kind: unix.NLMSG_ERROR, seq: request.seq, port: request.port, body: append(body, header...)}
}

// attribute is one netlink attribute; its data must not be changed.
type attribute struct {
	kind uint16
	data []byte
}

// parseAttributes lists attributes in their order; they must fill b.
func parseAttributes(b []byte) ([]attribute, error) {
	decoder, err := netlink.NewAttributeDecoder(b)
	if err != nil {
		return nil, err
	}
	list := make([]attribute, 0, decoder.Len())
	for decoder.Next() {
		list = append(list, attribute{decoder.Type(), decoder.Bytes()})
	}
	return list, decoder.Err()
}

// attributes are those of one level by kind; of two of one kind it is the last one, as in NlAttrParse.
type attributes map[uint16][]byte

func attributesOf(b []byte) (attributes, error) {
	list, err := parseAttributes(b)
	if err != nil {
		return nil, err
	}
	all := make(attributes, len(list))
	for _, a := range list {
		all[a.kind] = a.data
	}
	return all, nil
}

// check says whether those that are there have one of the sizes that policy gives them.
func (a attributes) check(policy map[uint16]int) error {
	for kind, size := range policy {
		if data, ok := a[kind]; ok && len(data) != size {
			return fmt.Errorf("attribute %d has %d bytes and not %d: %w", kind, len(data), size, unix.EINVAL)
		}
	}
	return nil
}

// u32 is 0 if there is no such attribute; its size must have been checked.
func (a attributes) u32(kind uint16) uint32 {
	if data := a[kind]; len(data) >= 4 {
		return native.Uint32(data)
	}
	return 0
}

// text is a string attribute without its end.
func (a attributes) text(kind uint16) string {
	data := a[kind]
	for i, c := range data {
		if c == 0 {
			return string(data[:i])
		}
	}
	return string(data)
}

// encode is the coding of attributes that add puts there.
func encode(add func(*netlink.AttributeEncoder) error) ([]byte, error) {
	encoder := netlink.NewAttributeEncoder()
	if err := add(encoder); err != nil {
		return nil, err
	}
	return encoder.Encode()
}
