package openflow

import (
	"encoding/binary"
	"fmt"
)

// Of OpenFlow 1.3's section 7.3.5.3. Of OpenFlow 1.0 a question cannot name a cookie.
const (
	aggregate      = 2
	aggregateReply = 40 // bytes
)

// AggregateRequest asks what the flows of a cookie have counted in all tables. Open vSwitch finds the flows of a cookie
// by an index (collect_rules_loose of ofproto/ofproto.c), and lists none.
func AggregateRequest(number uint32, cookie uint64) []byte {
	return AggregateMasked(number, cookie, ^uint64(0)) // and no other
}

// AggregateMasked asks what the flows have counted whose cookies are this one under a mask, of which a switch lists
// all.
func AggregateMasked(number uint32, cookie, mask uint64) []byte {
	body := make([]byte, 0, 48)
	body = append(body, 0, aggregate, 0, 0, 0, 0, 0, 0)
	body = append(body, 0xff, 0, 0, 0)          // all tables
	body = append(body, 0xff, 0xff, 0xff, 0xff) // any port of output
	body = append(body, 0xff, 0xff, 0xff, 0xff) // any group
	body = append(body, 0, 0, 0, 0)             // padding
	body = binary.BigEndian.AppendUint64(body, cookie)
	body = binary.BigEndian.AppendUint64(body, mask)
	body = append(body, 0, 1, 0, 4, 0, 0, 0, 0) // an empty match
	return Message(MultipartRequest, number, body...)
}

// Counted is what flows have counted.
type Counted struct {
	Flows          uint32
	Packets, Bytes uint64
}

// ParseAggregate reads the answer to an [AggregateRequest].
func ParseAggregate(message []byte) (Counted, error) {
	if len(message) != aggregateReply || message[1] != MultipartReply ||
		binary.BigEndian.Uint16(message[HeaderSize:]) != aggregate {
		return Counted{}, fmt.Errorf("the switch answers what was not asked: % x", message[:min(len(message), 64)])
	}
	return Counted{
		Packets: binary.BigEndian.Uint64(message[16:]),
		Bytes:   binary.BigEndian.Uint64(message[24:]),
		Flows:   binary.BigEndian.Uint32(message[32:]),
	}, nil
}
