package explain

import (
	"fmt"
	"net/netip"
	"strings"
)

// String is for an operator: the verdict, and then what each side's policies say.
func (a *Answer) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s\n", a.Question, a.word())
	if a.Service != "" {
		fmt.Fprintf(&b, "%s\n", a.Service)
	}
	for i := 0; i < len(a.Paths); {
		first := &a.Paths[i]
		var ends []string
		for ; i < len(a.Paths) && a.Paths[i].text() == first.text(); i++ {
			ends = append(ends, a.Paths[i].ends())
		}
		between := "\n"
		if first.MadeUp {
			between = " and "
		}
		fmt.Fprintf(&b, "\n%s: %s\n%s", strings.Join(ends, between), word(first.Allowed), first.text())
	}
	return b.String()
}

// word is the verdict on all paths together.
func (a *Answer) word() string {
	if !a.Mixed() {
		return word(a.Allowed())
	}
	var allowed [2]int // IPv4, IPv6
	var all [2]int
	for _, p := range a.Paths {
		i := 0
		if p.Src.Is6() {
			i = 1
		}
		all[i]++
		if p.Allowed {
			allowed[i]++
		}
	}
	if all == [2]int{1, 1} {
		return fmt.Sprintf("%s over IPv4, %s over IPv6", word(allowed[0] > 0), word(allowed[1] > 0))
	}
	return fmt.Sprintf("%d of %d allowed", allowed[0]+allowed[1], all[0]+all[1])
}

func word(allowed bool) string {
	if allowed {
		return "allowed"
	}
	return "refused"
}

func (p *Path) ends() string {
	if p.MadeUp {
		if p.Src.Is4() {
			return "over IPv4"
		}
		return "over IPv6"
	}
	to := p.Dst.String()
	if p.Port != 0 {
		to = netip.AddrPortFrom(p.Dst, p.Port).String()
	}
	return p.Src.String() + " -> " + to
}

func (p *Path) text() string {
	var b strings.Builder
	b.WriteString(p.Egress.text() + p.Ingress.text())
	for _, note := range p.Notes {
		b.WriteString("  note: " + strings.ReplaceAll(note, "\n", "\n  ") + "\n")
	}
	return b.String()
}

func (s *Side) text() string {
	var b strings.Builder
	what := s.Direction.String()
	if s.Pod != "" {
		what += " of " + s.Pod
	}
	fmt.Fprintf(&b, "  %s: %s\n", what, word(s.Allowed))
	for _, f := range s.Findings {
		if f.Tier == "" {
			fmt.Fprintf(&b, "    %s\n", f.Text)
		} else {
			fmt.Fprintf(&b, "    %-14s %s\n", f.Tier, f.Text)
		}
	}
	return b.String()
}
