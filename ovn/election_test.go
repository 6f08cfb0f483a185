package ovn

import (
	"sync/atomic"
	"testing"
	"time"

	kuberuntime "k8s.io/apimachinery/pkg/runtime"
	kubetesting "k8s.io/client-go/testing"

	"github.com/weftnet/weft/ovn/settings"
)

// TestHangingAPIServerEndsTheWorkInTime: before another controller could take the Lease. This API server
// does not even let go of requests whose time is over.
func TestHangingAPIServerEndsTheWorkInTime(t *testing.T) {
	t.Parallel()
	d := deploy(t, kubeNode("l1", "10.244.0.0/24"), kubePod("one", "l1"))
	var renewed atomic.Int64
	hang := make(chan struct{})
	var hangs atomic.Bool
	d.api.PrependReactor("*", "leases", func(a kubetesting.Action) (bool, kuberuntime.Object, error) {
		if hangs.Load() {
			<-hang
		}
		if a.GetVerb() != "get" {
			renewed.Store(time.Now().UnixNano())
		}
		return false, nil, nil
	})
	// A third of the Lease is between the end of the work and that of the Lease: as long as a busy machine lets nobody
	// work.
	c := d.start("only", func(c *settings.Config) { c.LeaseDuration = 30 * time.Second })
	d.eventually("it leads and has annotated all", func() bool { return d.port("default_one") != nil && d.patches() == 2 })
	hangs.Store(true)
	d.eventually("it stops", func() bool { return c.leader.Load() == nil })
	if late := time.Since(time.Unix(0, renewed.Load())); late > c.config.LeaseDuration {
		t.Errorf("it has worked for %s after the last renewal of a Lease of %s", late, c.config.LeaseDuration)
	}
	hangs.Store(false)
	close(hang)
	d.create(kubePod("two", "l1"))
	d.eventually("it leads again", func() bool { return d.port("default_two") != nil })
}
