package ctlookup

import "encoding/binary"

// Messages about meters: OpenFlow 1.5, 7.3.5.14.
const (
	typeMultipartReply = 19
	multipartHeader    = 16
	meterFeatures      = 11
	maxMeters          = 65536 // as Open vSwitch's userspace datapath has
)

// boundMeters has a switch say that it has no more than 65,536 meters. The extension of the Hyper-V switch says that
// it has 2^32-1 (OvsMeterFeatureProbe of Meter.c). ovn-controller counts its numbers for meters from 1 up to one more
// than that, in 32 bits (lib/id-pool.c of Open vSwitch): it would have none, and log nothing that has a meter.
func boundMeters(m []byte) {
	if len(m) < multipartHeader+4 || m[0] != version || m[1] != typeMultipartReply ||
		binary.BigEndian.Uint16(m[messageHeader:]) != meterFeatures {
		return
	}
	if most := m[multipartHeader:]; binary.BigEndian.Uint32(most) > maxMeters {
		binary.BigEndian.PutUint32(most, maxMeters)
	}
}
