//go:build linux

package hyperv

import (
	"encoding/binary"
	"hash/fnv"
)

// hashKey is a hash of what of a key has to be equal except for recirculation and connection tracking:
// Flow.c, OvsHashFlow. It is not the driver's own function.
func hashKey(k *key) uint32 {
	h := fnv.New32a()
	n := k.network
	for _, value := range []any{k.inPort, k.src, k.dst, k.ether, k.vlan, n.src, n.dst, n.proto, n.tos, n.ttl, n.portSrc,
		n.portDst} {
		_ = binary.Write(h, order, value) // a hash takes all
	}
	return h.Sum32()
}

func hashRange(conn *connection) uint32 {
	h := fnv.New32a()
	for _, value := range []any{conn.nat.minAddr, conn.nat.maxAddr, conn.key.ether, conn.key.proto, conn.key.zone} {
		_ = binary.Write(h, order, value)
	}
	return h.Sum32()
}

// hashAction: Actions.c, OvsExecuteHash, whichever algorithm was asked for. The hash is not the driver's own,
// only of the same fields.
func hashAction(k *key, basis uint32) uint32 {
	return max(hashKey(k)*0x9e3779b1^basis, 1)
}
