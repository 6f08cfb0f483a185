package node

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

// newRegistry has what says of the node as a whole how it is.
func newRegistry(attached, ready func() float64) *prometheus.Registry {
	registry := prometheus.NewRegistry()
	registry.MustRegister(
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "weft_attached_interfaces", Help: "Interfaces of pods that are ports of br-int.",
		}, attached),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "weft_node_ready", Help: "1 if the node can serve CNI ADD.",
		}, ready),
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	return registry
}
