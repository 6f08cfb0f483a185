package lab

import (
	"errors"
	"testing"

	"github.com/weftnet/weft/test/lab/machine"
)

// A stage that names no component of its machines is reached before anything works there.
func TestNoStageIsReachedWhileNothingWorks(t *testing.T) {
	hosts := withHosts(IPv4)
	hosts.Windows = 1
	for name, c := range map[string]Config{"nodes": config(IPv4), "zones": withZones(IPv4, 2), "hosts": hosts} {
		v := view{lab: &Lab{Config: c}, machines: map[string]machine.Status{}, asked: errors.New("not asked yet")}
		for _, spec := range specs(c, someFiles) {
			var status machine.Status
			for _, component := range spec.Components {
				status.Components = append(status.Components, machine.ComponentStatus{Name: component.Name})
			}
			v.machines[spec.Name] = status
		}
		for i, s := range stagesOf(c) {
			if pending, first := s.pending(v), i == 0; (pending == "") != first { // all machines are there
				t.Errorf("%s: of the stage %q, %q is pending", name, s.name, pending)
			}
		}
	}
}
