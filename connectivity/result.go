package connectivity

import "fmt"

func notStarted(pod string) string { return pod + " has not started" }

// started are the results that follow from the pods as they are: whether they have started, and what the probes of
// their kubelets have met.
func (s *scene) started() (results []Result) {
	var probes []Result
	for number, node := range s.nodes {
		for _, r := range rolesOf(node, s.options.HostNetwork) {
			p := s.pods[numbered(r, number)]
			start := Result{Way: PodStarts, To: p.End, State: Passed}
			if !p.started {
				start.State, start.Error = Failed, p.problem
			}
			results = append(results, start)
			if r != hostRole { // whose address is the host's own
				probes = append(probes, s.probed(p, number))
			}
		}
	}
	return append(results, probes...)
}

// probed is what a kubelet has met at a pod of its node: a pod is Ready when the probe is answered.
func (s *scene) probed(p pod, number int) Result {
	probe := Result{Way: HostToOwnPod, From: s.host(number), To: p.End, State: Passed}
	switch {
	case !p.started:
		probe.State, probe.Error = NotAsked, notStarted(p.Pod)
	case !p.ready:
		probe.State, probe.Error = Failed, "the pod is not Ready: "+p.problem
	}
	return probe
}

// before is a question's result before it is asked. It has a state if there is nothing to ask.
func (s *scene) before(q question, reached map[string]bool) Result {
	r := Result{Way: q.way, From: q.from, To: q.to, Family: q.family, Target: q.dial.String()}
	to := q.to.Pod
	if _, server := s.pods[q.to.Service]; server { // the Service of a server has its name
		to = q.to.Service
	}
	switch {
	case !s.pods[q.from.Pod].started:
		r.State, r.Error = NotAsked, notStarted(q.from.Pod)
	case !reached[q.from.Pod]:
		r.State, r.Error = NotAsked, "the API server does not reach "+q.from.Pod
	case to != "" && !s.pods[to].started:
		r.State, r.Error = NotAsked, notStarted(to)
	case q.dial.Host == "":
		r.State, r.Error, r.Target = Failed, fmt.Sprintf("%s has no %s address", q.to, q.family), ""
	}
	return r
}
