package doctor

import (
	"fmt"
	"io"
	"strings"
)

// Columns of the text.
const (
	textWidth  = 110
	stateWidth = 13
	checkWidth = 22
)

var stateText = map[State]string{OK: "ok", Unknown: "cannot tell", Warning: "warning", Failed: "FAILED"}

// WriteText prints the report for people: a line a finding, its remedy below it, and the counts.
func (r *Report) WriteText(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "weft doctor %s: node %s (%s), %s\n\n", r.Version, r.Node, r.OS,
		r.Time.UTC().Format("2006-01-02 15:04:05 UTC"))
	margin := strings.Repeat(" ", stateWidth+checkWidth)
	for _, f := range r.Findings {
		head := fmt.Sprintf("%-*s%-*s", stateWidth, stateText[f.State], checkWidth, f.Check+" ")
		writeWrapped(&b, head, margin, f.Detail)
		if f.Remedy != "" {
			writeWrapped(&b, margin+"-> ", margin+"   ", f.Remedy)
		}
	}
	fmt.Fprintf(&b, "\n%d ok, %d warning, %d failed, %d cannot tell\n", r.Counts[OK], r.Counts[Warning], r.Counts[Failed],
		r.Counts[Unknown])
	_, err := io.WriteString(w, b.String())
	return err
}

// writeWrapped breaks a text between words. A word that is wider than a line, such as a path, is kept
// whole.
func writeWrapped(b *strings.Builder, first, margin, text string) {
	line, empty := first, true
	for word := range strings.FieldsSeq(text) {
		if !empty && len(line)+1+len(word) > textWidth {
			b.WriteString(strings.TrimRight(line, " ") + "\n")
			line, empty = margin, true
		}
		if !empty {
			line += " "
		}
		line, empty = line+word, false
	}
	b.WriteString(strings.TrimRight(line, " ") + "\n")
}
