package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/weftnet/weft/connectivity"
	api "github.com/weftnet/weft/models/api/observe/v1alpha1"
)

// writeConnectivity writes a table of the ways, the questions that have not passed, and what was left out.
func writeConnectivity(out screen, r *connectivity.Report) error {
	var text strings.Builder
	w := screen{Writer: &text, colour: out.colour}
	var nodes, families []string
	for _, n := range r.Nodes {
		nodes = append(nodes, n.Name+" ("+n.System+")")
	}
	for _, family := range r.Families {
		families = append(families, string(family))
	}
	fmt.Fprintf(w, "Nodes     %s\nFamilies  %s\n\n", shown(strings.Join(nodes, ", ")), strings.Join(families, ", "))
	connectivityTable(w, r)
	for _, state := range []connectivity.State{connectivity.Failed, connectivity.NotAsked} {
		connectivityFaults(w, r, state)
	}
	if len(r.LeftOut) > 0 {
		fmt.Fprintln(w, "\nLeft out")
		for _, l := range r.LeftOut {
			fmt.Fprintf(w, "  %s: %s\n", l.Way, shown(l.Reason))
		}
	}
	result := fmt.Sprintf("All is well: %d of %d questions have passed.", r.Counts[connectivity.Passed], len(r.Results))
	if r.Result != connectivity.Passed {
		result = fmt.Sprintf("%d of %d questions have failed.", r.Counts[connectivity.Failed], len(r.Results))
	}
	fmt.Fprintf(w, "\n%s\n", w.coloured(severityOf[r.Result], result))
	_, err := io.WriteString(out, text.String())
	return err
}

// severityOf is in whose colour a state is written.
var severityOf = map[connectivity.State]string{connectivity.Passed: api.OK, connectivity.Failed: api.Failed,
	connectivity.NotAsked: api.Unknown}

func connectivityTable(w io.Writer, r *connectivity.Report) {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "WAY\tPASSED\tAGAIN\tFAILED\tNOT ASKED")
	for _, s := range r.Summaries() {
		fmt.Fprintf(table, "%s\t%d\t%d\t%d\t%d\n", s.Way, s.Passed, s.Again, s.Failed, s.NotAsked)
	}
	_ = table.Flush() // into memory
}

// stateTexts are the headings of the questions of a state.
var stateTexts = map[connectivity.State]string{connectivity.Failed: "Failed", connectivity.NotAsked: "Not asked"}

func connectivityFaults(w screen, r *connectivity.Report, state connectivity.State) {
	if r.Counts[state] == 0 {
		return
	}
	fmt.Fprintf(w, "\n%s\n", w.coloured(severityOf[state], stateTexts[state]))
	for _, q := range r.Results {
		if q.State == state {
			fmt.Fprintf(w, "  %s: %s: %s\n", q.Way, shown(pairText(q)), shown(q.Error))
		}
	}
}

// pairText is who asks whom, and by which address.
func pairText(r connectivity.Result) string {
	text := r.To.String()
	if r.From != (connectivity.End{}) {
		text = r.From.String() + " -> " + text
	}
	if r.Target != "" {
		text += ", " + r.Target
	}
	return text
}
