// Package rendezvous chooses among members by the highest random weight. A member's weight for a subject is a hash of
// both, and the heaviest member is chosen. So subjects spread over the members. A member that goes leaves its own
// subjects to others and moves no other one, and a member that comes takes its share and moves no other one. All who
// know the same members choose alike.
package rendezvous

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"hash/fnv"
)

// Hash gives a member's weight for a subject.
//
// There are three of them because a choice may not move with an upgrade. With another hash, nearly every subject would
// have another member. Each hash is named after what is chosen by it, and a test holds its weights.
type Hash func(subject, member string) uint64

// Compare orders two members by their weights for a subject, and by their names where these are equal.
func (h Hash) Compare(subject, a, b string) int {
	return cmp.Or(cmp.Compare(h(subject, a), h(subject, b)), cmp.Compare(a, b))
}

// ForRows is for what the Northbound says: which nodes have an EgressIP or an address of a pool. Where these move, all
// connections through them end.
var ForRows Hash = func(subject, member string) uint64 {
	sum := sha256.Sum256([]byte(subject + "\x00" + member))
	return binary.BigEndian.Uint64(sum[:])
}

// ForHosts is for which chassis host has a Windows node. During an upgrade hosts of two releases choose at the same
// time. If they did not choose alike, they would take each other's nodes back and forth.
var ForHosts Hash = func(subject, member string) uint64 {
	sum := mixed(fnv1a(member+"\x00"+subject), 0xff51afd7ed558ccd)
	sum = mixed(sum, 0xc4ceb9fe1a85ec53)
	return sum ^ sum>>33
}

// ForClients is for which endpoint a client of a Service with session affinity has. Where it moves, the client loses
// its session. Subject and member are the bytes of addresses of one family.
var ForClients Hash = func(subject, member string) uint64 {
	sum := mixed(fnv1a(subject+member), 0xff51afd7ed558ccd)
	return sum ^ sum>>33
}

func fnv1a(text string) uint64 {
	hash := fnv.New64a()
	_, _ = hash.Write([]byte(text)) // never fails
	return hash.Sum64()
}

// mixed has the high bits of a sum depend on all bits. Those of FNV's hardly depend on the last letters.
func mixed(sum, factor uint64) uint64 { return (sum ^ sum>>33) * factor }
