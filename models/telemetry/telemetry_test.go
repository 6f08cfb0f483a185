package telemetry

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/weftnet/weft/models/version"
)

func TestBuildIsTold(t *testing.T) {
	info := version.Current()
	want := fmt.Sprintf(`# HELP weft_build_info 1, with the program's version, the commit that it was made of, and what it was compiled for.
# TYPE weft_build_info gauge
weft_build_info{goarch=%q,goos=%q,goversion=%q,revision=%q,version=%q} 1
`, runtime.GOARCH, runtime.GOOS, runtime.Version(), info.Commit, info.Version)
	if err := testutil.GatherAndCompare(NewRegistry(), strings.NewReader(want), "weft_build_info"); err != nil {
		t.Error(err)
	}
}
