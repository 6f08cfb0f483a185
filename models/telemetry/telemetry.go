// Package telemetry begins the metrics of all of Weft's programs: what each tells of itself.
package telemetry

import (
	"runtime"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/weftnet/weft/models/version"
)

var build = prometheus.NewDesc("weft_build_info",
	"1, with the program's version, the commit that it was made of, and what it was compiled for.",
	[]string{"version", "revision", "goversion", "goos", "goarch"}, nil)

// NewRegistry has the metrics of the process, of Go's runtime and of the build.
func NewRegistry() *prometheus.Registry {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), buildInfo{})
	return registry
}

// buildInfo is a constant whose labels are what is told, as Prometheus' own programs have it.
type buildInfo struct{}

func (buildInfo) Describe(out chan<- *prometheus.Desc) { out <- build }

func (buildInfo) Collect(out chan<- prometheus.Metric) {
	info := version.Current()
	out <- prometheus.MustNewConstMetric(build, prometheus.GaugeValue, 1, info.Version, info.Commit, info.Go,
		runtime.GOOS, runtime.GOARCH)
}
