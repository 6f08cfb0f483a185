package main

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	api "github.com/weftnet/weft/models/api/observe/v1alpha1"
	"github.com/weftnet/weft/ovn/flows"
)

// writeFlows writes a table, and what is missing in it.
func writeFlows(out screen, flows *api.NetworkFlows, wide bool) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, strings.Join(flowColumns(wide), "\t"))
	for i := range flows.Flows {
		fmt.Fprintln(table, strings.Join(flowCells(&flows.Flows[i], wide), "\t"))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	_, err := io.WriteString(out, leftOut(flows)+missing(flows))
	return err
}

// leftOut says, in a line, what is not in an answer since it was not asked for.
func leftOut(flows *api.NetworkFlows) string {
	if flows.FromOwnNode == 0 {
		return ""
	}
	return fmt.Sprintf("%d from pods' own nodes, such as kubelet's probes, are left out: --all shows them\n",
		flows.FromOwnNode)
}

// missing says, a line each, why an answer has not all flows; "" of one that has.
func missing(flows *api.NetworkFlows) string {
	var text strings.Builder
	if flows.NodesUnanswered > 0 {
		fmt.Fprintf(&text, "%d of %d nodes have not answered, and flows that they alone know are missing\n",
			flows.NodesUnanswered, flows.NodesAsked)
	}
	for _, u := range flows.Unanswered {
		fmt.Fprintf(&text, "unanswered: node %s: %s\n", shown(u.Node), shown(u.Reason))
	}
	for _, u := range flows.Unread {
		fmt.Fprintf(&text, "not read, so names are missing: %s: %s\n", shown(u.Source), shown(u.Reason))
	}
	if flows.Omitted > 0 {
		fmt.Fprintf(&text, "%d more are left out: choose fewer, by a namespace or other filters\n", flows.Omitted)
	}
	return text.String()
}

// writeFlowEvents writes a line for each event.
func writeFlowEvents(w io.Writer, events []flowEvent, wide bool) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, e := range events {
		switch object := e.Object.(type) {
		case api.Flow:
			fmt.Fprintln(table, e.word()+"\t"+strings.Join(flowCells(&object, wide), "\t"))
		case refusal:
			fmt.Fprintf(table, "refused\t%d packets\t%s by %s, %s\n", object.Packets, shown(object.Action),
				shown(object.Policy), shown(object.Rule))
		}
	}
	return table.Flush()
}

// word says in a word what has become of a flow.
func (e *flowEvent) word() string {
	switch {
	case e.Type == flowDeleted:
		return "ended"
	case e.initial:
		return "open"
	}
	return "new"
}

func flowColumns(wide bool) []string {
	columns := []string{"FROM", "TO", "SERVICE", "PROTOCOL", "STATE"}
	if wide {
		columns = append(columns, "ADDRESSES", "SEEN AS", "PACKETS", "BYTES", "NODES")
	}
	return columns
}

func flowCells(f *api.Flow, wide bool) []string {
	cells := []string{flows.EndText(&f.Source), flows.EndText(&f.Destination), flows.ServiceText(f.Service), f.Protocol,
		f.State}
	if wide {
		cells = append(cells,
			flows.AddressText(f.Source.Address, f.Source.Port)+" to "+
				flows.AddressText(f.Destination.Address, f.Destination.Port), f.SeenAs,
			counts(f.Packets, f.ReplyPackets), counts(f.Bytes, f.ReplyBytes), strings.Join(f.Nodes, ","))
	}
	for i := range cells {
		cells[i] = shown(cmp.Or(cells[i], "-"))
	}
	return cells
}

// counts are those of both directions; "" if nobody counts.
func counts(sent, heard uint64) string {
	if sent == 0 && heard == 0 {
		return ""
	}
	return fmt.Sprintf("%d/%d", sent, heard)
}
