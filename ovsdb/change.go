package ovsdb

import (
	"crypto/sha1"

	"github.com/google/uuid"
	"github.com/ovn-kubernetes/libovsdb/model"
)

// Owner names what a row exists for, as kind and name: "Node/l1", "Pod/default/web-7d4".
// It stands in the external_ids of every row of that owner.
type Owner string

// The external_ids that mark a row as weft's. Rows without them are never changed or deleted.
const (
	// OwnerMark is the key in external_ids of a row of the Northbound or of Open vSwitch that Weft has made: what the row
	// was made for. This is an object of Kubernetes, such as Pod/default/web-1, or something else, such as Cluster or, of
	// the Interface of a pod, Sandbox/CONTAINER-ID/eth0.
	OwnerMark = "weft.net/owner"
	// KeyMark is the key in external_ids of a row of the Northbound or of Open vSwitch that Weft has made: the name of
	// the row among the rows that its owner has in the same table.
	KeyMark = "weft.net/key"
)

// Row is a row that must exist, with the values of the columns that weft manages in its table.
type Row struct {
	// Key tells apart an owner's rows of one table.
	Key string
	// Model is a pointer to a generated table type. The engine adds the UUID and the marks on
	// the way to the server; the model stays as it is.
	Model model.Model
}

// Membership says that a set column of a row holds some values: a switch its ports, a port group
// its ports, an address set its addresses. A set may have many owners; each says only its part,
// and only the difference is sent, as a mutation.
type Membership struct {
	Table  string
	UUID   string
	Column string
	Values []string
}

// Change is all that an owner must have: rows and memberships that it had before and that are
// not here are removed. A Change without either removes the owner.
type Change struct {
	Owner       Owner
	Rows        []Row
	Memberships []Membership
	// With says that it goes into the transaction of the change before it, so that nobody sees the one
	// without the other. They are parted where the server refuses them, and at some ten thousand operations.
	With bool
}

var namespace = uuid.MustParse("6b0d6a6e-3a0e-5d0a-9d39-77656674b0d5")

// ID is the UUID of an owner's row, known before the row exists: references between rows need no
// look-up, a repeated insert cannot make a second row, and two controllers agree on every UUID. It is of version 5,
// as [uuid.NewSHA1] makes it with more of what the garbage collector has to find.
func ID(table string, owner Owner, key string) string {
	text := append(make([]byte, 0, 256), namespace[:]...)
	text = append(append(text, table...), 0)
	text = append(append(append(text, owner...), 0), key...)
	sum := sha1.Sum(text)
	id := uuid.UUID(sum[:len(uuid.UUID{})])
	id[6] = id[6]&0x0f | 0x50
	id[8] = id[8]&0x3f | 0x80 // the variant of RFC 9562
	return id.String()
}
