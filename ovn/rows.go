package ovn

import (
	"github.com/weftnet/weft/ovn/northbound"
	"github.com/weftnet/weft/ovsdb"
)

// rows are those of one owner.
type rows struct{ *northbound.Builder }

func newRows(owner ovsdb.Owner) *rows { return &rows{northbound.NewBuilder(owner)} }
