package hns

import (
	"errors"
	"fmt"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// The wires of the data plane: what arrives at one device leaves at another, or is dropped, and the
// host's stack sees none of it. They hang on nftables' ingress hook since Open vSwitch removes tc's
// ingress qdiscs from its ports.

var wires = &nftables.Table{Name: "hns", Family: nftables.TableFamilyNetdev}

// wire makes every frame that arrives at device leave at the one with index to; 0: it is dropped. A
// copy leaves and the frame is dropped: the nftables package has no expression for forwarding.
func wire(device string, to int) error {
	conn, err := nftables.New()
	if err != nil {
		return err
	}
	drop := nftables.ChainPolicyDrop
	conn.AddTable(wires)
	chain := conn.AddChain(&nftables.Chain{
		Name: device, Table: wires, Type: nftables.ChainTypeFilter, Hooknum: nftables.ChainHookIngress,
		Priority: nftables.ChainPriorityFilter, Policy: &drop, Device: device,
	})
	conn.FlushChain(chain)
	if to != 0 {
		conn.AddRule(&nftables.Rule{Table: wires, Chain: chain, Exprs: []expr.Any{
			&expr.Immediate{Register: 1, Data: binaryutil.NativeEndian.PutUint32(uint32(to))},
			&expr.Dup{RegDev: 1, IsRegDevSet: true},
		}})
	}
	if err := conn.Flush(); err != nil {
		return fmt.Errorf("wire %s: %w", device, err)
	}
	return nil
}

// unwire gives a device's frames back to the host.
func unwire(device string) error {
	conn, err := nftables.New()
	if err != nil {
		return err
	}
	conn.DelChain(&nftables.Chain{Name: device, Table: wires})
	if err := conn.Flush(); err != nil && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("unwire %s: %w", device, err)
	}
	return nil
}
