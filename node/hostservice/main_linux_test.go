package hostservice

import (
	"testing"

	"github.com/weftnet/weft/node/hostservice/hosttest"
)

func TestMain(m *testing.M) { hosttest.Main(m) }
