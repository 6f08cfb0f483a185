package topology

import (
	"github.com/weftnet/weft/ovn/northbound"
	"github.com/weftnet/weft/ovsdb"
)

// Rows are those of one owner.
type Rows struct{ *northbound.Builder }

// NewRows are none yet.
func NewRows(owner ovsdb.Owner) *Rows { return &Rows{northbound.NewBuilder(owner)} }
