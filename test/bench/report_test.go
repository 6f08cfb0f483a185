package bench

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"
)

// report gathers figures over rounds and prints them by scenario, in the order in which they first came.
type report struct{ figures []*figure }

type figure struct {
	scenario, name, unit string
	aim                  float64 // not to be exceeded; 0 is none
	values               []float64
}

// add notes a value; unit must not have spaces, since it becomes a benchmark's.
func (r *report) add(scenario, name, unit string, value float64) *figure {
	i := slices.IndexFunc(r.figures, func(f *figure) bool { return f.scenario == scenario && f.name == name })
	if i < 0 {
		for i = len(r.figures); i > 0 && r.figures[i-1].scenario != scenario; i-- {
		}
		if i == 0 {
			i = len(r.figures)
		}
		r.figures = slices.Insert(r.figures, i, &figure{scenario: scenario, name: name, unit: unit})
	}
	r.figures[i].values = append(r.figures[i].values, value)
	return r.figures[i]
}

func (f *figure) atMost(aim float64) { f.aim = aim }

func (f *figure) median() float64 {
	values := slices.Sorted(slices.Values(f.values))
	if n := len(values); n%2 == 0 {
		return (values[n/2-1] + values[n/2]) / 2
	}
	return values[len(values)/2]
}

// publish gives every scenario a line of `go test -bench`.
func (r *report) publish(b *testing.B) {
	for at := 0; at < len(r.figures); {
		scenario, end := r.figures[at].scenario, at
		for end < len(r.figures) && r.figures[end].scenario == scenario {
			end++
		}
		figures := r.figures[at:end]
		b.Run(strings.ReplaceAll(scenario, " ", "-"), func(b *testing.B) {
			b.ReportMetric(0, "ns/op") // the default, which would mean nothing
			for _, f := range figures {
				b.ReportMetric(f.median(), strings.ReplaceAll(f.name, " ", "-")+"-"+f.unit)
			}
		})
		at = end
	}
}

func (r *report) print(w io.Writer) {
	out := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(out, "\nscenario\tfigure\tmedian\trange\taim\t")
	last := ""
	for _, f := range r.figures {
		scenario := f.scenario
		if scenario == last {
			scenario = ""
		}
		last = f.scenario
		aim := ""
		if f.aim > 0 {
			aim = fmt.Sprintf("%s %s", short(f.aim), verdict(f.median() <= f.aim))
		}
		fmt.Fprintf(out, "%s\t%s\t%s %s\t%s – %s\t%s\t\n", scenario, f.name, short(f.median()), f.unit,
			short(slices.Min(f.values)), short(slices.Max(f.values)), aim)
	}
	fmt.Fprintln(out)
	_ = out.Flush() // to a terminal or a pipe: there is nobody else to tell
}

func verdict(met bool) string {
	if met {
		return "met"
	}
	return "MISSED"
}

func short(v float64) string {
	switch {
	case v == float64(int64(v)):
		return fmt.Sprintf("%d", int64(v))
	case v >= 100:
		return fmt.Sprintf("%.0f", v)
	default:
		return fmt.Sprintf("%.3g", v)
	}
}
