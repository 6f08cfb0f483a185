package ovn

import (
	"github.com/weftnet/weft/ovn/northbound"
	"github.com/weftnet/weft/ovsdb"
)

// rows are those of one owner.
type rows struct {
	*northbound.Builder
	// endpoints are those of a Service's load balancers, an address without any as one. Rows that are too large with
	// them are not all made, see sized.
	endpoints int
}

func newRows(owner ovsdb.Owner) *rows { return &rows{Builder: northbound.NewBuilder(owner)} }
