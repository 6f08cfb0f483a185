package capture

import (
	"os"
	"testing"

	"github.com/weftnet/weft/test/pktmon"
)

func TestMain(m *testing.M) {
	pktmon.MainOfTests()
	os.Exit(m.Run())
}
