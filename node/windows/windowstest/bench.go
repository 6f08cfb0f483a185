// Package windowstest gives tests a Windows node in memory: a machine, and the platform of it.
package windowstest

import (
	"net/netip"
	"path/filepath"
	"testing"

	"github.com/weftnet/weft/node/hns/hnstest"
	"github.com/weftnet/weft/node/nodetest"
	"github.com/weftnet/weft/node/platform"
	"github.com/weftnet/weft/node/windows"
)

// Bench is a Windows machine with an adapter of two addresses, and the platform on it.
type Bench struct {
	*hnstest.Node
	Windows *windows.Platform
	Config  windows.Config
}

func New(t *testing.T, change ...func(*windows.Config)) *Bench {
	t.Helper()
	b := &Bench{Node: hnstest.NewNode(t)}
	b.Config = windows.Config{
		Network: "weft", DriverBuild: b.DriverBuild, EncapAddress: hnstest.NodeAddress,
		StateFile: filepath.Join(nodetest.Folder(t), "host.json"),
		PodSubnets: func() []netip.Prefix {
			return []netip.Prefix{netip.MustParsePrefix("10.244.1.0/24"), netip.MustParsePrefix("fd00:1::/64")}
		},
	}
	for _, c := range change {
		c(&b.Config)
	}
	b.Restart()
	return b
}

// Restart makes the platform anew, as a process that starts has it.
func (b *Bench) Restart() {
	b.Helper()
	var err error
	if b.Windows, err = windows.NewOver(b.Config, b.Machine, b.Machine); err != nil {
		b.Fatal(err)
	}
}

// EnsureUplink fails the test where there is none. It is confirmed, as by an agent whose bridge works.
func (b *Bench) EnsureUplink() platform.Uplink {
	b.Helper()
	uplink, err := b.Windows.EnsureUplink(b.Context(), nil)
	if err != nil {
		b.Fatalf("%v\n%s", err, b.Dump())
	}
	if err := b.Windows.ConfirmUplink(uplink); err != nil {
		b.Fatal(err)
	}
	return uplink
}
