package connectivity

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/client-go/kubernetes"

	"github.com/weftnet/weft/models/version"
)

// Options say what is tested.
type Options struct {
	Nodes        []string // names; none: some of each system
	MaxNodes     int
	Image        string // of agnhost, for Linux nodes
	WindowsImage string // the same for Windows nodes
	Outside      string // HOST:PORT of an HTTP server outside; empty: none is asked
	HostNetwork  bool   // whether Linux nodes get a pod on their hosts' network
	HostPort     int    // that pod's port
	StartTimeout time.Duration
	Keep         bool // whether the namespace stays
}

// Check says which options are wrong.
func (o *Options) Check() error {
	var errs []error
	if o.MaxNodes < 1 {
		errs = append(errs, fmt.Errorf("max-nodes: %d is less than 1; give at least 1", o.MaxNodes))
	}
	if o.HostPort < 1 || o.HostPort > math.MaxUint16 {
		errs = append(errs, fmt.Errorf("host-port: %d is no port; give one of 1 to 65535", o.HostPort))
	}
	if _, _, err := splitOutside(o.Outside); o.Outside != "" && err != nil {
		errs = append(errs, fmt.Errorf("outside: %w; give an address or a name with a port, as 203.0.113.7:80", err))
	}
	if o.StartTimeout <= 0 {
		errs = append(errs, fmt.Errorf("start-timeout: %v is no time; give a duration such as 10m", o.StartTimeout))
	}
	return errors.Join(errs...)
}

// Test is a test of a cluster's network.
type Test struct {
	Options
	Client kubernetes.Interface
	Asker  Asker
	// Say tells of the progress, a line at a time.
	Say func(format string, args ...any)
}

// Run tests the network, and removes everything that it has made, also when ctx ends. There is a report if the pods
// could be made and asked. An error beside a report says that something could not be removed.
func (t *Test) Run(ctx context.Context) (report *Report, err error) {
	began := time.Now()
	list, err := listNodes(ctx, t.Client)
	if err != nil {
		return nil, err
	}
	nodes, err := chooseNodes(list, t.Nodes, t.MaxNodes)
	if err != nil {
		return nil, err
	}
	space := &namespace{client: t.Client, name: "weft-connectivity-" + rand.String(6), say: t.Say}
	t.Say("namespace %s, nodes %s", space.name, names(nodes))
	refused, err := space.create(ctx, nodes, t.Options)
	defer func() {
		if space.mayExist {
			err = errors.Join(err, t.clean(ctx, space))
		}
	}()
	if err != nil {
		return nil, err
	}
	s, err := space.awaitPods(ctx, nodes, t.Options, refused)
	if err != nil {
		return nil, err
	}
	report = &Report{Schema: Schema, Version: version.Version(), Time: began.UTC(), Namespace: space.name, Nodes: nodes,
		Families: s.families()}
	if report.Results, report.LeftOut, err = t.askAll(ctx, space.name, s); err != nil {
		return nil, err
	}
	report.summarise()
	return report, nil
}

// clean removes the namespace unless it is to stay. It has its own time, since ctx may have ended.
func (t *Test) clean(ctx context.Context, space *namespace) error {
	if t.Keep {
		t.Say("namespace %s stays; `kubectl delete namespace %s` removes it", space.name, space.name)
		return nil
	}
	t.Say("removing namespace %s", space.name)
	return space.remove(context.WithoutCancel(ctx))
}

const (
	// attempts is how often a question is asked that does not pass. DNS, endpoints and policies take effect in a while,
	// and datagrams may be lost.
	attempts = 3
	pause    = time.Second
	// atOnce is how many questions are asked at the same time. Those without an answer take 5 s each.
	atOnce = 16
	// often is after how many questions progress is told.
	often = 50
)

// askAll asks what the scene allows. The results are in the order of the ways' plan.
func (t *Test) askAll(ctx context.Context, namespace string, s *scene) ([]Result, []LeftOut, error) {
	results := s.started()
	reached, asked := t.askable(ctx, namespace, s)
	results = append(results, asked...)
	questions, left := s.plan()
	t.Say("%d questions", len(questions))
	answers := make([]Result, len(questions))
	var done, failed atomic.Int64
	each(len(questions), func(i int) {
		answers[i] = s.before(questions[i], reached)
		if answers[i].State == "" {
			t.ask(ctx, namespace, questions[i], &answers[i])
		}
		if answers[i].State == Failed {
			failed.Add(1)
		}
		if n := done.Add(1); n%often == 0 {
			t.Say("%d of %d questions are asked, %d have failed", n, len(questions), failed.Load())
		}
	})
	if err := ctx.Err(); err != nil {
		return nil, nil, fmt.Errorf("the test has been ended before all was asked: %w", err)
	}
	return append(results, answers...), left, nil
}

// each does something so many times, some of them at once.
func each(times int, do func(i int)) {
	var group errgroup.Group
	group.SetLimit(atOnce)
	for i := range times {
		group.Go(func() error {
			do(i)
			return nil
		})
	}
	_ = group.Wait() // none fails
}

// askable has each pod that asks others ask itself, and gives those that have answered.
func (t *Test) askable(ctx context.Context, namespace string, s *scene) (reached map[string]bool, results []Result) {
	askers := s.askers()
	results = make([]Result, len(askers))
	each(len(askers), func(i int) {
		p, r := askers[i], &results[i]
		r.Way, r.To = APIServerToPod, p.End
		if p.started {
			t.ask(ctx, namespace, s.toItself(p), r)
		} else {
			r.State, r.Error = NotAsked, notStarted(p.Pod)
		}
	})
	reached = map[string]bool{}
	for _, r := range results {
		reached[r.To.Pod] = r.State == Passed
	}
	return reached, results
}

// ask asks a question until it passes, or has been asked often enough.
func (t *Test) ask(ctx context.Context, namespace string, q question, r *Result) {
	for r.Attempts = 1; ; r.Attempts++ {
		reply, err := t.Asker.Ask(ctx, namespace, q.from.Pod, q.port, q.dial)
		if err == nil {
			err = q.want.judge(reply)
		}
		if err == nil {
			r.State = Passed
			return
		}
		r.State, r.Error = Failed, err.Error()
		if r.Attempts == attempts {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
	}
}
