package ovn

import (
	"fmt"
	"testing"

	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/weftnet/weft/models/nb"
	"github.com/weftnet/weft/ovn/loadbalancer"
	"github.com/weftnet/weft/ovn/objects"
)

// TestWhatChoosesAnEndpoint: Open vSwitch's own choice is even for some endpoints, see
// TestConnectionsAreSpread for what it is.
func TestWhatChoosesAnEndpoint(t *testing.T) {
	for n, want := range map[int]int{1: 0, 64: 0, 65: 6, 1000: 6} {
		var endpoints []discoveryv1.Endpoint
		for i := range n {
			endpoints = append(endpoints, at(fmt.Sprintf("10.244.%d.%d", i/250, 1+i%250), "n1"))
		}
		var given []runtime.Object
		for i := 0; i < n; i += 100 { // as the controller cuts them
			given = append(given, webSlice(fmt.Sprint(i), endpoints[i:min(n, i+100)]...))
		}
		s := trim(web()).(*objects.Service)
		var from []*objects.EndpointSlice
		for _, o := range given {
			from = append(from, trim(o).(*objects.EndpointSlice))
		}
		change, _ := loadbalancer.Rows(s, from, &loadbalancer.Nodes{Names: []string{"n1"}})
		row := change.Rows[0].Model.(*nb.LoadBalancer)
		if len(row.SelectionFields) != want {
			t.Errorf("%d endpoints: chosen by %v, want %d fields", n, row.SelectionFields, want)
		}
	}
}
