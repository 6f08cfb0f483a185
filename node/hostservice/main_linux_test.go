package hostservice

import (
	"testing"

	"github.com/weftnet/weft/node/nodetest"
)

// The tests have a host to themselves, with whatever addresses they want.
func TestMain(m *testing.M) { nodetest.Main(m) }
