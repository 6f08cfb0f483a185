package node

import (
	"testing"

	"github.com/weftnet/weft/node/nodetest"
)

func TestMain(m *testing.M) { nodetest.MainInParts(m, 2) }
