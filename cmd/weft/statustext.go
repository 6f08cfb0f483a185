package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	api "github.com/weftnet/weft/models/api/observe/v1alpha1"
)

// colours of severities and results, as terminals know them.
var colours = map[string]string{api.Failed: "31;1", api.Warning: "33;1", api.Unknown: "36;1", api.OK: "32;1",
	api.Arrives: "32;1", api.Refused: "31;1", api.Lost: "31;1", api.ProbeAgrees: "32;1", api.ProbeDiffers: "31;1"}

// statusText writes a status as text.
type statusText struct {
	screen
	*api.NetworkStatus
}

// writeStatus writes the findings, what they were made of in a few lines, and, if it is wide, in tables.
func writeStatus(out screen, status *api.NetworkStatus, wide bool) error {
	var text strings.Builder
	t := statusText{screen{Writer: &text, colour: out.colour}, status}
	t.findings()
	t.summary()
	t.events()
	if wide {
		t.nodes()
		t.owners()
		t.certificates()
	}
	_, err := io.WriteString(out, text.String())
	return err
}

// coloured is a text in the colour of a severity or a result, if there are colours.
func (s screen) coloured(severity, text string) string {
	if !s.colour || colours[severity] == "" {
		return text
	}
	return "\x1b[" + colours[severity] + "m" + text + "\x1b[0m"
}

// shown is a text that somebody else may have written, without what a terminal would obey.
func shown(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, text)
}

// shownLines is shown of each line.
func shownLines(text string) string {
	lines := strings.Split(text, "\n")
	for i := range lines {
		lines[i] = shown(strings.ReplaceAll(lines[i], "\t", "    "))
	}
	return strings.Join(lines, "\n")
}

// ago is how long before the answer something was.
func (t statusText) ago(at time.Time) string { return duration.HumanDuration(t.Time.Sub(at)) }

func (t statusText) findings() {
	if len(t.Findings) == 0 {
		fmt.Fprintf(t, "%s\n%s\n\n", t.coloured(api.OK, "All is well."), shown(t.NotJudged))
		return
	}
	count := map[string]int{}
	for _, f := range t.Findings {
		count[f.Severity] += 1 + f.More
	}
	var words []string
	for _, severity := range []string{api.Failed, api.Warning, api.Unknown} {
		if count[severity] > 0 {
			words = append(words, t.coloured(severity, fmt.Sprintf("%d %s", count[severity], severity)))
		}
	}
	fmt.Fprintf(t, "Not all is well: %s\n\n", strings.Join(words, ", "))
	for _, f := range t.Findings {
		severity := t.coloured(f.Severity, fmt.Sprintf("%-8s", shown(f.Severity)))
		fmt.Fprintf(t, "%s %s: %s\n", severity, shown(f.Object), shown(f.Text))
		if f.More > 0 {
			fmt.Fprintf(t, "         and %d more (%s)\n", f.More, shown(f.Reason))
		}
		fmt.Fprintf(t, "         To do: %s\n", shown(f.Remedy))
	}
	fmt.Fprintln(t)
}

// table writes rows whose cells have tabs between them.
func (t statusText) table(rows func(w io.Writer)) {
	table := tabwriter.NewWriter(t, 0, 0, 2, ' ', 0)
	rows(table)
	_ = table.Flush() // into memory
}

func (t statusText) summary() {
	t.table(func(w io.Writer) {
		fmt.Fprintf(w, "Controller\t%s\n", t.leader())
		fmt.Fprintf(w, "Databases\t%s\n", t.databases())
		fmt.Fprintf(w, "Configuration\t%s\n", t.configuration())
		fmt.Fprintf(w, "Nodes\t%s\n", t.nodeCounts())
		fmt.Fprintf(w, "Pods\t%d ports, %d not up; %s waiting\n", t.Pods.Ports, t.Pods.Down, t.waiting())
		if least := t.leastFree(); least != "" {
			fmt.Fprintf(w, "Addresses\t%s\n", least)
		}
		fmt.Fprintf(w, "Policies\t%d, %d not in force or in part\n", t.Policies, len(t.NotInForce))
		fmt.Fprintf(w, "Outside\t%d AddressPools, %d EgressIPs, %d load balancers\n", len(t.Pools), len(t.EgressIPs),
			len(t.LoadBalancers))
	})
}

func (t statusText) leader() string {
	switch l := t.Leader; {
	case l.Holder == "":
		return "nobody leads"
	case t.Time.Sub(l.Renewed.Time) > time.Duration(l.Seconds)*time.Second:
		return fmt.Sprintf("%s led last (Lease %s, renewed %s ago)", shown(l.Holder), shown(l.Name), t.ago(l.Renewed.Time))
	}
	return fmt.Sprintf("%s leads (Lease %s, renewed %s ago)", shown(t.Leader.Holder), shown(t.Leader.Name),
		t.ago(t.Leader.Renewed.Time))
}

func (t statusText) databases() string {
	var words []string
	for _, d := range t.Databases {
		word := d.Name + " does not answer"
		switch {
		case d.Answers && d.Model == "clustered" && d.Leader:
			word = d.Name + " leads its cluster"
		case d.Answers && d.Model == "clustered":
			word = d.Name + " follows its cluster's leader"
		case d.Answers:
			word = d.Name + " " + d.Model
		}
		words = append(words, shown(word))
	}
	ovn := ""
	if t.Configuration.OVN != "" {
		ovn = "; OVN " + shown(t.Configuration.OVN)
	}
	return fmt.Sprintf("%s (on %s)%s", strings.Join(words, ", "), shown(t.Door), ovn)
}

func (t statusText) configuration() string {
	c := t.Configuration
	if c.Northbound == 0 {
		return "never counted; `ovn-nbctl --no-leader-only --wait=hv sync` on a central host does it, and shows which " +
			"chassis are behind"
	}
	return fmt.Sprintf("Northbound %d, Southbound %d (%s ago), all chassis %d", c.Northbound, c.Southbound,
		t.ago(c.Translated.Time), c.Chassis)
}

func (t statusText) nodeCounts() string {
	ready, agents, registered, systems := 0, 0, 0, map[string]int{}
	for _, n := range t.Nodes {
		ready += one(n.Ready)
		agents += one(n.Agent)
		registered += one(n.Registered)
		systems[cmp.Or(n.System, "unknown")]++
	}
	var words []string
	for _, system := range slices.Sorted(maps.Keys(systems)) {
		words = append(words, fmt.Sprintf("%d %s", systems[system], shown(system)))
	}
	return fmt.Sprintf("%d (%s): %d Ready, %d with an agent, %d with a chassis", len(t.Nodes), strings.Join(words, ", "),
		ready, agents, registered)
}

func (t statusText) waiting() string {
	more := ""
	if t.Pods.Truncated {
		more = " or more"
	}
	return fmt.Sprintf("%d%s", t.Pods.Waiting, more)
}

// leastFree is the subnet with the fewest free addresses.
func (t statusText) leastFree() (text string) {
	least := -1
	for _, n := range t.Nodes {
		for _, s := range n.Subnets {
			if least < 0 || s.Free < least {
				least = s.Free
				text = fmt.Sprintf("fewest free: %d of %d, in %s of node %s", s.Free, s.Free+s.Used, shown(s.CIDR), shown(n.Name))
			}
		}
	}
	return text
}

func (t statusText) events() {
	if len(t.Events) == 0 {
		return
	}
	fmt.Fprintln(t, "\nWarnings of the last hour")
	t.table(func(w io.Writer) {
		fmt.Fprintln(w, "AGO\tOBJECT\tREASON\tCOUNT\tMESSAGE")
		for _, e := range t.Events {
			object := shown(e.Object)
			if e.Gone {
				object += " (gone)"
			}
			fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%s\n", t.ago(e.Last.Time), object, shown(e.Reason), e.Count, shown(e.Message))
		}
	})
	if t.EventsLeftOut > 0 {
		fmt.Fprintf(t, "and %d more. Each namespace has its share of the list.\n", t.EventsLeftOut)
	}
}

func (t statusText) nodes() {
	fmt.Fprintln(t)
	t.table(func(w io.Writer) {
		fmt.Fprintln(w, "NODE\tREADY\tSYSTEM\tAGENT\tCHASSIS\tHOST\tBEHIND\tPORTS\tDOWN\tFREE")
		for _, n := range t.Nodes {
			chassis, host := "-", "-"
			if n.Registered {
				chassis = n.Chassis
			}
			if n.Host != nil {
				host = n.Host.Holder
			}
			var free []string
			for _, s := range n.Subnets {
				free = append(free, fmt.Sprintf("%s: %d", s.CIDR, s.Free))
			}
			agent := yes(n.Agent)
			if n.Version != "" {
				agent = n.Version
			}
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%d\t%d\t%d\t%s\n", shown(n.Name), yes(n.Ready), shown(cmp.Or(n.System, "-")),
				shown(agent), shown(chassis), shown(host), n.Behind, n.Ports, n.Down, shown(dash(free)))
		}
	})
}

// owners are who has addresses outside.
func (t statusText) owners() {
	if len(t.Pools) > 0 {
		fmt.Fprintln(t)
		t.table(func(w io.Writer) {
			fmt.Fprintln(w, "ADDRESSPOOL\tUSED\tFREE\tREADY\tREASON")
			for _, p := range t.Pools {
				fmt.Fprintf(w, "%s\t%d\t%d\t%s\t%s\n", shown(p.Name), p.Used, p.Free, yes(p.Condition.Ready),
					shown(cmp.Or(p.Condition.Reason, "-")))
			}
		})
	}
	if len(t.EgressIPs) > 0 {
		fmt.Fprintln(t)
		t.table(func(w io.Writer) {
			fmt.Fprintln(w, "EGRESSIP\tADDRESSES\tNODE\tPODS\tREADY\tREASON")
			for _, e := range t.EgressIPs {
				fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%s\t%s\n", shown(e.Name), shown(dash(e.Addresses)), shown(cmp.Or(e.Node, "-")),
					e.Pods, yes(e.Condition.Ready), shown(cmp.Or(e.Condition.Reason, "-")))
			}
		})
	}
	if len(t.LoadBalancers) > 0 {
		fmt.Fprintln(t)
		t.table(func(w io.Writer) {
			fmt.Fprintln(w, "LOAD BALANCER\tADDRESSES")
			for _, b := range t.LoadBalancers {
				fmt.Fprintf(w, "%s/%s\t%s\n", shown(b.Namespace), shown(b.Name), shown(dash(b.Addresses)))
			}
		})
	}
}

func (t statusText) certificates() {
	if len(t.Certificates) == 0 {
		return
	}
	fmt.Fprintln(t)
	t.table(func(w io.Writer) {
		fmt.Fprintln(w, "CERTIFICATE\tSUBJECT\tDAYS LEFT")
		for _, c := range t.Certificates {
			fmt.Fprintf(w, "%s of %s\t%s\t%d\n", shown(c.Of), shown(t.Door), shown(c.Subject), daysLeft(c.Expires, t.Time.Time))
		}
	})
}

// daysLeft are whole days, less than none of what is over.
func daysLeft(expires metav1.Time, now time.Time) int {
	const day = 24 * time.Hour
	left := expires.Sub(now)
	if left < 0 {
		left -= day - 1
	}
	return int(left / day)
}

func dash(list []string) string { return cmp.Or(strings.Join(list, ", "), "-") }

func yes(is bool) string {
	if is {
		return "yes"
	}
	return "no"
}

func one(is bool) int {
	if is {
		return 1
	}
	return 0
}
