package node

import (
	"net/netip"
	"path/filepath"
	"testing"

	"github.com/weftnet/weft/node/hns/hnstest"
	"github.com/weftnet/weft/node/nodetest"
	"github.com/weftnet/weft/node/windows"
)

// winBench is a Windows machine with an adapter of two addresses, and the platform on it.
type winBench struct {
	*hnstest.Node
	windows *windows.Platform
	config  windows.Config
}

func newWinBench(t *testing.T, change ...func(*windows.Config)) *winBench {
	t.Helper()
	b := &winBench{Node: hnstest.NewNode(t)}
	b.config = windows.Config{
		Network: "weft", EncapAddress: hnstest.NodeAddress, StateFile: filepath.Join(nodetest.Folder(t), "host.json"),
		PodSubnets: func() []netip.Prefix {
			return []netip.Prefix{netip.MustParsePrefix("10.244.1.0/24"), netip.MustParsePrefix("fd00:1::/64")}
		},
	}
	for _, c := range change {
		c(&b.config)
	}
	b.restart()
	return b
}

// restart makes the platform anew, as a process that starts has it.
func (b *winBench) restart() {
	b.Helper()
	var err error
	if b.windows, err = windows.NewOver(b.config, b.Machine, b.Machine); err != nil {
		b.Fatal(err)
	}
}

func (b *winBench) ensureUplink() {
	b.Helper()
	if _, err := b.windows.EnsureUplink(b.Context(), nil); err != nil {
		b.Fatalf("%v\n%s", err, b.Dump())
	}
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}
