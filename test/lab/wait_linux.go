package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/weftnet/weft/test/lab/machine"
)

const (
	pollInterval = 100 * time.Millisecond
	// Nodes are asked for less often: that costs the API server something.
	clusterInterval = 300 * time.Millisecond
	// A component that ends this often before it has ever served will not serve.
	hopelessRestarts = 6
	logTail          = 15
)

// Progress is told where the way to readiness stands.
type Progress interface {
	// Waiting is called often: stage is not reached, because of detail.
	Waiting(stage, detail string)
	// Reached is called once a stage, in order.
	Reached(stage string, after time.Duration)
}

// view is one look at a lab.
type view struct {
	lab      *Lab
	machines map[string]machine.Status
	cluster  ClusterStatus
	asked    error // why cluster is not known
}

// stage of a lab's way up: pending says what is missing, "" when nothing is.
type stage struct {
	name    string
	pending func(view) string
}

// nodesRegistered is the first stage that Kubernetes is asked about.
const nodesRegistered = "nodes registered"

// stagesOf the way up of a lab with that configuration.
func stagesOf(c Config) []stage {
	stages := []stage{{"machines", func(v view) string { return v.missingMachines() }}}
	if c.Hosts != "" {
		return append(stages,
			stage{"control plane", components([]string{Central}, controlPlaneComponents...)},
			stage{"hosts", components(append(c.HostNames(), Control), systemComponent, packagesComponent)},
			stage{"Windows", components(c.WindowsNodes(), "ovs-vswitchd", "kubelet", "hns", "wineserver")},
			stage{nodesRegistered, func(v view) string { return v.unregistered() }})
	}
	stages = append(stages, []stage{
		{"OVN databases", components(c.Centrals(), "ovn-nb", "ovn-sb", "ovn-northd")},
		{"control plane", components([]string{Central}, controlPlaneComponents...)},
		{"Open vSwitch", components(c.Nodes(), "ovsdb-server", "ovs-vswitchd", "ovn-controller", "openflow-relay",
			"control-relay", "ofctl-relay")},
		{"kubelets", components(c.Nodes(), "containerd", "kubelet")},
		{"world outside", components([]string{Outside}, "agnhost")},
		{nodesRegistered, func(v view) string { return v.unregistered() }},
	}...)
	if c.NoWeft {
		return stages
	}
	var controllers []string
	for i := range c.Controllers {
		controllers = append(controllers, controllerName(i))
	}
	for _, z := range c.zones()[1:] {
		controllers = append(controllers, z.controllerName())
	}
	if c.Windows > 0 {
		stages = append(stages, stage{"Windows", components(c.WindowsNodes(), "hns", "wineserver")})
	}
	if c.Zones > 0 {
		stages = append(stages, stage{"zones", components(c.Centrals(), "weft-southbound", "weft-chassis")})
	}
	return append(stages,
		stage{"weft controller", components(c.Centrals(), controllers...)},
		stage{"weft node", components(c.Nodes(), "weft-node", "weft-chassis")},
		stage{"nodes Ready", func(v view) string { return v.notReady() }},
		stage{"cluster DNS", func(v view) string { return v.noDNS() }})
}

var controlPlaneComponents = []string{"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler",
	"manifests"}

// components is the condition that these components of these machines work.
func components(machines []string, names ...string) func(view) string {
	return func(v view) string {
		var pending []string
		for _, m := range machines {
			for _, c := range v.machines[m].Components {
				if slices.Contains(names, c.Name) && !c.OK() {
					pending = append(pending, strings.TrimSpace(fmt.Sprintf("%s on %s %s", c.Name, m, c.State)))
				}
			}
		}
		return strings.Join(pending, ", ")
	}
}

func (v view) missingMachines() string {
	var missing []string
	for _, name := range v.lab.Machines() {
		if _, there := v.machines[name]; !there {
			missing = append(missing, name)
		}
	}
	return strings.Join(missing, ", ")
}

func (v view) unregistered() string {
	var missing []string
	for _, name := range v.lab.Registered() {
		if why, there := v.cluster.Nodes[name]; !there || why == notReported {
			missing = append(missing, name)
		}
	}
	return v.unlessUnknown(strings.Join(missing, ", "))
}

func (v view) notReady() string {
	var pending []string
	for _, name := range v.lab.Nodes() {
		if why := v.cluster.Nodes[name]; why != "" {
			pending = append(pending, name+": "+why)
		}
	}
	return v.unlessUnknown(strings.Join(pending, "; "))
}

func (v view) noDNS() string {
	if v.cluster.DNSWanted > 0 && v.cluster.DNS == v.cluster.DNSWanted {
		return v.unlessUnknown("")
	}
	return v.unlessUnknown(fmt.Sprintf("%d of %d CoreDNS pods available", v.cluster.DNS, v.cluster.DNSWanted))
}

func (v view) unlessUnknown(pending string) string {
	if v.asked != nil {
		return v.asked.Error()
	}
	return pending
}

// WaitReady returns when the lab is Ready, or with an error that names what is to blame and the
// last lines of its log. When ctx is cancelled the error is only that.
func (l *Lab) WaitReady(ctx context.Context, progress Progress) error {
	started := time.Now()
	api, err := newClusterClient(l)
	if err != nil {
		return err
	}
	v := view{lab: l, asked: errors.New("not asked yet")}
	var asked time.Time
	stages := stagesOf(l.Config)
	asksCluster := slices.IndexFunc(stages, func(s stage) bool { return s.name == nodesRegistered })
	for reached := 0; reached < len(stages); {
		v.machines = l.statuses(ctx)
		if reached >= asksCluster && time.Since(asked) > clusterInterval {
			v.cluster, v.asked = api.status(ctx)
			asked = time.Now()
		}
		if err := v.hopeless(); err != nil {
			return err
		}
		pending := stages[reached].pending(v)
		if pending == "" {
			progress.Reached(stages[reached].name, time.Since(started))
			reached++
			continue
		}
		progress.Waiting(stages[reached].name, pending)
		select {
		case <-ctx.Done():
			if errors.Is(ctx.Err(), context.Canceled) { // nothing is wrong that a log would explain
				return fmt.Errorf("waiting for %s: %w", stages[reached].name, ctx.Err())
			}
			return v.tooLate(stages[reached].name, pending, time.Since(started))
		case <-time.After(pollInterval):
		}
	}
	return nil
}

// statuses of the machines that answer.
func (l *Lab) statuses(ctx context.Context) map[string]machine.Status {
	statuses := map[string]machine.Status{}
	for _, name := range l.Machines() {
		if status, err := l.Machine(name).Status(ctx); err == nil {
			statuses[name] = status
		}
	}
	return statuses
}

// ErrEnded is that of a lab whose first process ended while it was waited for.
var ErrEnded = errors.New("the lab has ended")

// hopeless reports what will not come up by waiting.
func (v view) hopeless() error {
	l := v.lab
	running, err := isLocked(l.files.dir)
	if err != nil {
		return err
	}
	if !running {
		return fmt.Errorf("%w:\n%s", ErrEnded, tail(filepath.Join(l.files.dir, superviseLog)))
	}
	for _, name := range l.Machines() {
		if end, err := os.ReadFile(machine.EndFile(l.files.dir, name)); err == nil {
			return fmt.Errorf("machine %s ended (%s):\n%s", name, end, tail(filepath.Join(l.files.dir, superviseLog)))
		}
		for _, c := range v.machines[name].Components {
			if !c.OK() && c.Restarts >= hopelessRestarts {
				return v.failure(name, c.Name, fmt.Sprintf("has ended %d times", c.Restarts))
			}
		}
	}
	return nil
}

// failure of a component, with the last lines of its log.
func (v view) failure(name, component, what string) error {
	path := v.lab.LogFile(name, component)
	return fmt.Errorf("%s on %s %s; the end of %s:\n%s", component, name, what, path, tail(path))
}

// tooLate blames the first component that does not work, or else the stage.
func (v view) tooLate(stage, pending string, after time.Duration) error {
	l := v.lab
	late := fmt.Errorf("%s not reached after %.0f s: %s", stage, after.Seconds(), pending)
	for _, name := range l.Machines() {
		for _, c := range v.machines[name].Components {
			if !c.OK() {
				return errors.Join(late, v.failure(name, c.Name, fmt.Sprintf("is %s (%s)", c.State, c.Detail)))
			}
		}
	}
	if _, names := v.machines[Central]; names && !l.NoWeft {
		return errors.Join(late, v.failure(Central, "weft-controller", "works"), v.failure(l.Nodes()[0], "weft-node",
			"works"))
	}
	return late
}

func tail(path string) string {
	content, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimRight(string(content), "\n"), "\n")
	return "  " + strings.Join(lines[max(0, len(lines)-logTail):], "\n  ")
}
