package doctor

import (
	"fmt"
	"time"
)

// State is what a check has found.
type State string

// The states from best to worst.
const (
	OK      State = "ok"
	Unknown State = "unknown" // the check cannot tell
	Warning State = "warning" // it works, with a drawback or a risk
	Failed  State = "failed"  // pods will not get their network, or lose it
)

// Finding is one thing that a check has found.
type Finding struct {
	// Check is the check's name: it stays the same from version to version.
	Check string `json:"check"`
	State State  `json:"state"`
	// Detail says what was found, in a sentence for people.
	Detail string `json:"detail"`
	// Remedy says what to do; empty where State is OK.
	Remedy string `json:"remedy,omitempty"`
}

// Schema is the schema of the JSON of `weft doctor`: the fields and their meanings. A later version may add fields. If
// a field is removed or gets another meaning, the schema gets another name.
const Schema = "weft.net/doctor/v1"

// Report is what an examination has found.
type Report struct {
	Schema  string    `json:"schema"`
	Version string    `json:"version"`
	Node    string    `json:"node"`
	OS      string    `json:"os"`
	Time    time.Time `json:"time"`
	// Result is the worst state of all findings.
	Result State `json:"result"`
	// Counts has the number of findings of each state.
	Counts   map[State]int `json:"counts"`
	Findings []Finding     `json:"findings"`
}

var severity = map[State]int{OK: 0, Unknown: 1, Warning: 2, Failed: 3}

// summarise fills in what follows from the findings. To have found nothing is not to be well.
func (r *Report) summarise() {
	r.Result, r.Counts = Unknown, map[State]int{OK: 0, Unknown: 0, Warning: 0, Failed: 0}
	if len(r.Findings) > 0 {
		r.Result = OK
	}
	for _, f := range r.Findings {
		r.Counts[f.State]++
		if severity[f.State] > severity[r.Result] {
			r.Result = f.State
		}
	}
}

// Exit codes of an examination.
const (
	ExitOK       = 0 // every check could tell, and all is well
	ExitWarning  = 1 // nothing has failed; there are warnings, or checks that cannot tell
	ExitFailed   = 2 // at least one check has failed
	ExitNotAsked = 3 // there was no examination: the command itself was wrong
)

// ExitCode is that of a process which prints the report.
func (r *Report) ExitCode() int {
	switch r.Result {
	case OK:
		return ExitOK
	case Failed:
		return ExitFailed
	}
	return ExitWarning
}

// subject is a check's name, and makes its findings.
type subject string

func (s subject) ok(format string, args ...any) []Finding {
	return []Finding{{Check: string(s), State: OK, Detail: fmt.Sprintf(format, args...)}}
}

func (s subject) warning(remedy, format string, args ...any) []Finding {
	return []Finding{{Check: string(s), State: Warning, Detail: fmt.Sprintf(format, args...), Remedy: remedy}}
}

func (s subject) failed(remedy, format string, args ...any) []Finding {
	return []Finding{{Check: string(s), State: Failed, Detail: fmt.Sprintf(format, args...), Remedy: remedy}}
}

// unknown is a check that cannot tell; its remedy is how a person can find out.
func (s subject) unknown(remedy, format string, args ...any) []Finding {
	return []Finding{{Check: string(s), State: Unknown, Detail: fmt.Sprintf(format, args...), Remedy: remedy}}
}
