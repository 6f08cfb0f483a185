package ovn

import "github.com/weftnet/weft/models/httpserver"

// probes are what an operator's tools ask the controller.
func (c *controller) probes() httpserver.Probes {
	return httpserver.Probes{
		Metrics: c.metrics.registry, Alive: c.alive, Profiles: c.config.Profiling,
		Ready: func() (detail string, err error) { return "", c.ready() },
	}
}
