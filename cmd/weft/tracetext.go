package main

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	api "github.com/weftnet/weft/models/api/observe/v1alpha1"
)

// traceForms write an answer.
var traceForms = answerForms(writeTrace)

// writeTrace writes the result, the steps of both packets and, if it is wide, what does each step.
func writeTrace(out screen, trace *api.Trace, wide bool) error {
	var text strings.Builder
	t := traceText{screen{Writer: &text, colour: out.colour}, trace}
	t.result()
	t.steps("The request", trace.Status.Request, wide)
	t.steps("The answer", trace.Status.Reply, wide)
	if wide && len(trace.Status.Endpoints) > 0 {
		fmt.Fprintf(t, "\nEndpoints: %s\n", shown(strings.Join(trace.Status.Endpoints, ", ")))
	}
	for _, run := range trace.Status.OVN {
		fmt.Fprintf(t, "\novn-trace '%s'\n%s", shown(run.Packet), shownLines(run.Text))
	}
	_, err := io.WriteString(out, text.String())
	return err
}

// traceText writes a trace as text.
type traceText struct {
	screen
	*api.Trace
}

func (t traceText) result() {
	s := &t.Status
	fmt.Fprintf(t, "%s -> %s: %s\n", shown(endText(t.Spec.Source)), shown(endText(t.Spec.Destination)+portText(&t.Spec)),
		t.coloured(s.Result, shown(s.Result)))
	fmt.Fprintf(t, "  %s\n", shown(s.Reason))
	if s.Remedy != "" {
		fmt.Fprintf(t, "  To do: %s\n", shown(s.Remedy))
	}
	for _, note := range s.Notes {
		fmt.Fprintf(t, "  Note: %s\n", shown(note))
	}
	if s.Probe != nil {
		t.probe(s.Probe)
	}
}

// comparisonText are the words for what a probe says of its trace.
var comparisonText = map[string]string{api.ProbeAgrees: "as traced", api.ProbeDiffers: "differs from the trace"}

// probe tells what a real connection has met.
func (t traceText) probe(p *api.TraceProbe) {
	fmt.Fprintf(t, "\nThe probe: %s", t.coloured(p.Comparison, shown(cmp.Or(p.Result, "not sent"))))
	if text, told := comparisonText[p.Comparison]; told {
		fmt.Fprintf(t, ", %s", text)
	}
	fmt.Fprintf(t, "\n  by %s from %s to %s", strings.ToUpper(shown(p.Protocol)), shown(p.Source), shown(p.Destination))
	if p.Result != "" {
		fmt.Fprintf(t, ", after %v", p.After.Round(100*time.Microsecond))
	}
	fmt.Fprintf(t, "\n  %s\n", shown(p.Reason))
	if p.Remedy != "" {
		fmt.Fprintf(t, "  To do: %s\n", shown(p.Remedy))
	}
}

func endText(e api.TraceEnd) string {
	name := e.Name
	if e.Namespace != "" {
		name = e.Namespace + "/" + name
	}
	if e.Kind == api.AddressEnd {
		return name
	}
	return strings.ToLower(e.Kind) + " " + name
}

func portText(spec *api.TraceSpec) string {
	text := ""
	if spec.Port != "" {
		text = " port " + spec.Port
	}
	if spec.Protocol != "" {
		text += " by " + strings.ToUpper(spec.Protocol)
	}
	return text
}

func (t traceText) steps(title string, steps []api.TraceStep, wide bool) {
	if len(steps) == 0 {
		return
	}
	fmt.Fprintf(t, "\n%s\n", title)
	table := tabwriter.NewWriter(t, 0, 0, 2, ' ', 0)
	for i := range steps {
		step := &steps[i]
		text := shown(step.Text)
		if wide {
			text = fmt.Sprintf("%s\t%s\t%s", shown(step.Kind), shown(cmp.Or(step.Object, "-")), text)
		}
		fmt.Fprintf(table, "  %s\t%s\n", shown(cmp.Or(step.Node, "-")), text)
	}
	_ = table.Flush() // into memory
}
