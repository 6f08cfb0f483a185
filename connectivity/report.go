package connectivity

import (
	"time"

	corev1 "k8s.io/api/core/v1"
)

// State is what became of a question.
type State string

// The states of questions. A report is Passed or Failed.
const (
	Passed   State = "passed"
	Failed   State = "failed"
	NotAsked State = "notAsked" // a pod that takes part has not started, or cannot be asked
)

// Result is what a question has brought.
type Result struct {
	Way  Way `json:"way"`
	From End `json:"from,omitzero"`
	To   End `json:"to"`
	// Family is "IPv4" or "IPv6"; empty where the way has no address, or the asking pod takes whichever it likes.
	Family corev1.IPFamily `json:"family,omitempty"`
	// Target is the address, the port and the protocol that were asked, as 192.0.2.1:80/TCP.
	Target string `json:"target,omitempty"`
	State  State  `json:"state"`
	// Attempts is how often it was asked. More than one of a question that has passed says that an answer was lost.
	Attempts int `json:"attempts,omitempty"`
	// Error is why it has not passed, or had not at first.
	Error string `json:"error,omitempty"`
}

// Schema is the schema of the JSON of `weft connectivity test`: the fields and their meanings. A later version may add
// fields. If a field is removed or gets another meaning, the schema gets another name.
const Schema = "weft.net/connectivity/v1"

// Report is what a test has found.
type Report struct {
	Schema    string    `json:"schema"` // always [Schema]
	Version   string    `json:"version"`
	Time      time.Time `json:"time"` // when the test began
	Namespace string    `json:"namespace"`
	Nodes     []Node    `json:"nodes"`
	// Families are those of the cluster's Services.
	Families []corev1.IPFamily `json:"families"`
	// Result is Failed if any result is.
	Result State `json:"result"`
	// Counts has the number of results of each state.
	Counts  map[State]int `json:"counts"`
	Results []Result      `json:"results"`
	LeftOut []LeftOut     `json:"leftOut,omitempty"`
}

// summarise fills in what follows from the results.
func (r *Report) summarise() {
	r.Result, r.Counts = Passed, map[State]int{Passed: 0, Failed: 0, NotAsked: 0}
	for _, result := range r.Results {
		r.Counts[result.State]++
	}
	if r.Counts[Failed] > 0 {
		r.Result = Failed
	}
}

// Summary is what became of a way's questions.
type Summary struct {
	Way                      Way
	Passed, Failed, NotAsked int
	Again                    int // of those that have passed, how many were asked more than once
}

// Summaries are those of the ways that were asked, in their order.
func (r *Report) Summaries() (list []Summary) {
	for _, way := range Ways {
		s := Summary{Way: way}
		for _, result := range r.Results {
			if result.Way == way {
				s.count(result)
			}
		}
		if s.Passed+s.Failed+s.NotAsked > 0 {
			list = append(list, s)
		}
	}
	return list
}

func (s *Summary) count(r Result) {
	switch r.State {
	case Passed:
		s.Passed++
		if r.Attempts > 1 {
			s.Again++
		}
	case Failed:
		s.Failed++
	case NotAsked:
		s.NotAsked++
	}
}
