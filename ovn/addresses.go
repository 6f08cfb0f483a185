package ovn

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// addresses count those that are given and free. A standby gives none, and tells nothing.
type addresses struct{ leader *atomic.Pointer[leader] }

var (
	subnetUsed = prometheus.NewDesc("weft_controller_subnet_used_addresses",
		"Addresses of a node's pod subnet that pods have.", []string{"node", "subnet"}, nil)
	subnetFree = prometheus.NewDesc("weft_controller_subnet_free_addresses",
		"Addresses of a node's pod subnet that pods may still get. Pods get at most 65,533 addresses of a "+
			"subnet, so this value is never larger.",
		[]string{"node", "subnet"}, nil)
	poolUsed = prometheus.NewDesc("weft_controller_pool_used_addresses",
		"Addresses of an AddressPool that Services have.", []string{"pool"}, nil)
	poolFree = prometheus.NewDesc("weft_controller_pool_free_addresses",
		"Addresses of an AddressPool that Services may still get: they have no user, neither a Service nor another "+
			"one, such as an EgressIP or a node.", []string{"pool"}, nil)
)

// Describe is part of [prometheus.Collector].
func (addresses) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{subnetUsed, subnetFree, poolUsed, poolFree} {
		out <- d
	}
}

// Collect is part of [prometheus.Collector].
func (a addresses) Collect(out chan<- prometheus.Metric) {
	l := a.leader.Load()
	if l == nil {
		return
	}
	tell := func(of *prometheus.Desc, n float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(of, prometheus.GaugeValue, n, labels...)
	}
	l.taking.Lock()
	defer l.taking.Unlock()
	for node, subnet := range l.cluster.pods.Subnets() {
		tell(subnetUsed, float64(subnet.Pool.Size-subnet.Pool.Free), node, subnet.Subnet.String())
		tell(subnetFree, float64(subnet.Pool.Free), node, subnet.Subnet.String())
	}
	for name, pool := range l.cluster.pools.Pools() {
		tell(poolUsed, float64(pool.Used()), name)
		tell(poolFree, float64(pool.Free()), name)
	}
}
