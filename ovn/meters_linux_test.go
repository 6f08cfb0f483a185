package ovn

import (
	"fmt"
	"strings"
	"testing"

	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/ovn/objects"
	"github.com/weftnet/weft/ovn/ovntest"
	"github.com/weftnet/weft/ovn/part"
)

// TestOneMeterBesideWindowsNodes: however many rules of policies are logged, OVN makes one meter of weft's as long
// as there is a Windows node, whose datapath has 32. Without any each rule that is logged has its own.
func TestOneMeterBesideWindowsNodes(t *testing.T) {
	d := newDatapath(t, ovntest.Settings(t, ovntest.Dual))
	prod := d.namespace("prod")
	prod.Logging = `{"allow":"info","deny":"warning"}`
	var ports []string
	for i := range 40 {
		ports = append(ports, fmt.Sprintf("{ports: [{port: %d}]}", 1000+i))
	}
	d.do(append(d.policies(t,
		`{kind: NetworkPolicy, metadata: {namespace: prod, name: many}, spec: {podSelector: {}, ingress: [`+
			strings.Join(ports, ", ")+`]}}`), prod)...)
	p := d.pod("prod", "web", "n1")
	d.do(p)
	meters := func() int {
		return len(strings.Fields(d.ovn.Run("ovn-sbctl", "--db="+d.ovn.Southbound(), "--bare", "--columns=_uuid", "list",
			"Meter")))
	}
	if n := meters(); n < 40 {
		t.Errorf("of 40 rules that are logged, %d have a meter", n)
	}
	w1 := d.node("w1", "10.244.1.0/24", "fd00:10:244:1::/64")
	w1.OS = contract.Windows
	d.do(w1)
	if n := meters(); n != 1 {
		t.Errorf("beside a Windows node there are %d meters, want 1", n)
	}
	d.touch(d.gone(objects.NodeKind, "w1"))
	if n := meters(); n < 40 {
		t.Errorf("once it is gone %d rules of 40 have a meter", n)
	}
}

// gone takes objects away, and returns their keys.
func (d *datapath) gone(k *objects.Kind, names ...string) (keys []part.Event) {
	for _, name := range names {
		key := objects.Key{Kind: k, Name: name}
		delete(d.objects, key)
		keys = append(keys, key)
	}
	return keys
}
