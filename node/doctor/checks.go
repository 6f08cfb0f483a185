package doctor

import (
	"context"
	"io/fs"
	"runtime"
	"sync"
	"time"
)

// readers are what the checks of every system read.
type readers struct {
	api      apiReader
	server   string // where the API server is, empty if that is not known
	vswitch  vswitchReader
	daemons  daemonControl
	openFlow func(context.Context) error
	agent    agentReader
	metrics  metricsReader
	files    fileReader
	disk     diskReader
	names    resolver
	conflist fs.FS
	listen   func(address string) error
}

// shared is asked once for several checks.
type shared[T any] struct {
	read func(context.Context) (T, error)
	once sync.Once
	done chan struct{}
	val  T
	err  error
}

func share[T any](read func(context.Context) (T, error)) *shared[T] {
	return &shared[T]{read: read, done: make(chan struct{})}
}

// get waits no longer than its caller can.
func (s *shared[T]) get(ctx context.Context) (T, error) {
	s.once.Do(func() {
		go func() {
			defer close(s.done)
			s.val, s.err = s.read(ctx)
		}()
	})
	select {
	case <-s.done:
		return s.val, s.err
	case <-ctx.Done():
		var none T
		return none, ctx.Err()
	}
}

// sharedVswitch and sharedAgent read once.
type sharedVswitch struct{ *shared[*openVSwitch] }

func (s sharedVswitch) OpenVSwitch(ctx context.Context) (*openVSwitch, error) { return s.get(ctx) }

type sharedAgent struct{ *shared[readiness] }

func (s sharedAgent) Readiness(ctx context.Context) (readiness, error) { return s.get(ctx) }

// commonChecks are those of every system, in the order in which a person would ask: first what the agent
// is told, then what it needs, and at last how it is.
func commonChecks(config Config, r readers) (before, after []check) {
	ovs := sharedVswitch{share(r.vswitch.OpenVSwitch)}
	agent := sharedAgent{share(r.agent.Readiness)}
	before = []check{
		{"configuration", func(context.Context) []Finding { return checkConfiguration(config) }},
		{"disk", func(context.Context) []Finding { return checkDisk(r.disk, config.StateDir) }},
		{"dns", func(ctx context.Context) []Finding { return checkDNS(ctx, r.server, r.names) }},
		{"api-server", func(ctx context.Context) []Finding { return checkAPIServer(ctx, r.api) }},
		{"clock", func(ctx context.Context) []Finding { return checkClock(ctx, r.api) }},
		{"node-object", func(ctx context.Context) []Finding { return checkNode(ctx, r.api, config) }},
		{"certificates", func(ctx context.Context) []Finding {
			return checkCertificates(ctx, config, r.files, ovs, r.daemons)
		}},
	}
	after = []check{
		{"ovs-database", func(ctx context.Context) []Finding { return checkOVSDatabase(ctx, config, ovs) }},
		{"ovs-version", func(ctx context.Context) []Finding {
			return checkOVSVersion(ctx, runtime.GOOS, config, r.daemons, ovs)
		}},
		{"ovs-vswitchd", func(ctx context.Context) []Finding {
			return checkVswitchd(ctx, runtime.GOOS == "windows" && !installed(ctx, config, agent), ovs, r.openFlow)
		}},
		{"upcalls", func(ctx context.Context) []Finding { return checkUpcalls(ctx, r.daemons, ovs) }},
		{"chassis-settings", func(ctx context.Context) []Finding { return checkEncapsulation(ctx, config, ovs) }},
		{"bridges", func(ctx context.Context) []Finding { return checkBridges(ctx, runtime.GOOS, config, ovs) }},
		{"ovn-southbound", func(ctx context.Context) []Finding {
			return checkSouthbound(ctx, config, r.files, ovs, r.daemons)
		}},
		{"tunnel-port", func(ctx context.Context) []Finding {
			return checkTunnelPort(ctx, config, installed(ctx, config, agent), r.listen)
		}},
		{"cni-configuration", func(ctx context.Context) []Finding {
			return checkConflist(r.conflist, config, installed(ctx, config, agent))
		}},
		{"chassis-host", func(ctx context.Context) []Finding { return checkChassisHost(ctx, config, r.metrics) }},
		{"agent", func(ctx context.Context) []Finding { return checkAgent(ctx, config, agent) }},
	}
	return before, after
}

// checkCertificates looks at the certificates that this node shows to others.
func checkCertificates(ctx context.Context, config Config, files fileReader, ovs vswitchReader,
	daemons daemonControl) []Finding {
	const s = subject("certificates")
	var findings []Finding
	if config.Hosted {
		findings = append(findings, checkPair(files, pair{
			Of: "the agent's", Name: config.TunnelName,
			CA: config.TunnelCA, Certificate: config.TunnelCertificate, Key: config.TunnelPrivateKey,
		}, time.Now())...)
	}
	own, ok, err := ovnPair(ctx, ovs, daemons)
	switch {
	case ok:
		findings = append(findings, checkPair(files, own, time.Now())...)
	case err != nil && !config.Hosted:
		findings = append(findings, s.unknown("run this as root, where ovn-controller runs",
			"ovn-controller's command line cannot be read: %v", err)...)
	}
	if len(findings) == 0 {
		return s.ok("this node is given none by configuration, by database or by ovn-controller's command line")
	}
	return findings
}
