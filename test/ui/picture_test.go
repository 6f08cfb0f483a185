package ui

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	api "github.com/weftnet/weft/models/api/observe/v1alpha1"
)

// drawn is an element of the picture.
type drawn struct {
	ID, Severity, Source, Target, Talk string
	Count                              int
	Classes                            []string
}

// line says of an element what a user sees of it.
func (d drawn) line() string {
	if d.Source != "" {
		return d.Source + " > " + d.Target
	}
	return d.ID + " " + d.Severity
}

// elements are all of the picture.
func (b *tab) elements() []drawn {
	b.Helper()
	b.until("document.querySelector('.canvas')?.picture?.drawn().length > 0")
	return value[[]drawn](b, "document.querySelector('.canvas').picture.drawn()")
}

// lines are those of all elements, in order.
func (b *tab) lines() (lines []string) {
	b.Helper()
	for _, d := range b.elements() {
		lines = append(lines, d.line())
	}
	slices.Sort(lines)
	return lines
}

// severityOf is what the API says of an object, beside what its own state says.
func (c *cluster) severityOf(object string, own ...string) string {
	found := own
	for _, f := range c.status.Findings {
		if f.Object == object {
			found = append(found, f.Severity)
		}
	}
	for _, severity := range []string{api.Failed, api.Warning, api.Unknown} {
		if slices.Contains(found, severity) {
			return severity
		}
	}
	return api.OK
}

// expected are the lines of a picture with all pods.
func (c *cluster) expected() (lines []string) {
	there := map[string]bool{}
	for _, node := range c.topology.Nodes {
		lines = append(lines, "node/"+node.Name+" "+c.severityOf("Node "+node.Name))
		groups := map[string][]string{}
		for _, pod := range node.Pods {
			name := pod.Namespace + "/" + pod.Name
			severity := c.severityOf("Pod " + name)
			if !pod.Up {
				severity = api.Failed
			}
			there[name] = true
			groups[pod.Namespace] = append(groups[pod.Namespace], severity)
			lines = append(lines, "pod/"+name+" "+severity)
		}
		for namespace, severities := range groups {
			lines = append(lines, fmt.Sprintf("group/%s/%s %s", node.Name, namespace, c.severityOf("", severities...)))
		}
	}
	for i, s := range c.services {
		name := s.Namespace + "/" + s.Name
		var own []string
		if len(c.slices[i].Endpoints) == 0 {
			own = []string{api.Warning}
		}
		lines = append(lines, "service/"+name+" "+c.severityOf("Service "+name, own...))
		for _, e := range c.slices[i].Endpoints {
			if pod := e.TargetRef.Namespace + "/" + e.TargetRef.Name; there[pod] {
				lines = append(lines, "service/"+name+" > pod/"+pod)
			}
		}
	}
	slices.Sort(lines)
	return lines
}

// shows fails if the picture does not come to what the API says.
func (b *tab) shows(c *cluster) {
	b.Helper()
	if got, want := b.lines(), c.expected(); !slices.Equal(got, want) {
		b.Errorf("drawn is\n%s\nand the API says\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestThePictureIsWhatTheAPISays, also after a change, which leaves to the user what is chosen and where the focus is.
func TestThePictureIsWhatTheAPISays(t *testing.T) {
	c := market()
	b := open(t, c)
	b.shows(c)
	b.picture("map")
	b.do(chromedp.Focus(chromedp.CSS(".canvas")))
	b.key("ArrowDown")
	b.until("document.querySelector('aside h2')?.textContent.includes('l1')")
	c.change(func() {
		l2 := &c.topology.Nodes[1]
		l2.Pods = append(l2.Pods[1:], port("l2", "shop", "db-2", "10.244.1.9")) // safe-1 is gone
		c.topology.Nodes[0].Pods[3].Up = false
		c.status.Findings = []api.Finding{{Severity: api.Unknown, Object: "Node l2", Text: "it does not say"}}
		_, c.slices[2] = service("shop", "db", "db-1", "db-2")
		c.add("shop", "search")
	})
	b.do(chromedp.Evaluate[chromedp.Void]("document.querySelector('.refresh button').click()"))
	b.until("document.querySelector('.canvas').picture.drawn().some((e) => e.id === 'pod/shop/db-2')")
	b.shows(c)
	if focus := value[string](b, "document.activeElement.className"); !strings.Contains(focus, "canvas") {
		t.Errorf("the focus is on %q", focus)
	}
	for _, d := range b.elements() {
		if chosen := slices.Contains(d.Classes, "chosen"); chosen != (d.ID == "node/l1") {
			t.Errorf("%s is chosen: %v", d.ID, chosen)
		}
	}
}

// TestKeysFollowEachOther quicker than the browser paints: each goes on from what the one before it chose.
func TestKeysFollowEachOther(t *testing.T) {
	b := open(t, market())
	names := func() []string { return b.texts("aside h2") }
	b.do(chromedp.Focus(chromedp.CSS(".canvas")))
	b.key("ArrowDown")
	b.until("document.querySelector('aside h2') !== null")
	first := names()
	b.key("ArrowRight")
	b.until(fmt.Sprintf("document.querySelector('aside h2').textContent.trim() !== %q", first[0]))
	second := names()
	b.key("Escape")
	b.until("document.querySelector('aside h2') === null")
	value[bool](b, "(async () => { for (const key of ['ArrowDown', 'ArrowRight']) { "+
		"document.querySelector('.canvas').dispatchEvent(new KeyboardEvent('keydown', { key, bubbles: true })); "+
		"for (let i = 0; i < 9; i++) await null; } return true; })()") // no task comes between them, so no painting
	b.until("document.querySelector('aside h2') !== null")
	if got := names(); !slices.Equal(got, second) {
		t.Errorf("two keys at once choose %q, and one after the other %q, by way of %q", got, second, first)
	}
}

// TestTheTableSaysTheSame as the picture, and is filtered as it is.
func TestTheTableSaysTheSame(t *testing.T) {
	c := market()
	b := open(t, c)
	b.press("Table")
	b.until("document.querySelectorAll('.tables table').length === 3")
	signs := map[string]string{"✓": api.OK, "✕": api.Failed, "▲": api.Warning, "?": api.Unknown}
	rows := func() (lines []string) {
		ids := value[[]string](b, "[...document.querySelectorAll('tr[data-id]')].map((e) => e.dataset.id)")
		for i, health := range b.texts("tr[data-id] .health") {
			sign, _, _ := strings.Cut(health, " ")
			lines = append(lines, ids[i]+" "+signs[sign])
		}
		slices.Sort(lines)
		return lines
	}
	want := slices.DeleteFunc(c.expected(), func(line string) bool {
		return strings.Contains(line, ">") || strings.HasPrefix(line, "group/")
	})
	if got := rows(); !slices.Equal(got, want) {
		t.Errorf("the tables have\n%s\nand the API says\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	b.fill(".tools select", "bank")
	b.until("document.querySelectorAll('tr[data-id]').length === 5")
	if got := rows(); !slices.Contains(got, "pod/bank/safe-1 ok") || slices.Contains(got, "pod/shop/db-1 ok") {
		t.Errorf("of the namespace: %q", got)
	}
	b.fill(".tools select", "")
	b.press("web-3")
	b.until("document.querySelector('aside dl')?.textContent.includes('10.244.2.3')")
	if behind := b.texts(".related li"); !slices.Equal(behind, []string{"shop/web"}) {
		t.Errorf("Services before the pod: %q", behind)
	}
	b.picture("table")
	b.fill("input[type=search]", "10.244.1.")
	b.until("document.querySelectorAll('tr[data-id]').length === 4")
	if got := rows(); !slices.Equal(got, []string{"node/l2 ok", "pod/bank/safe-1 ok", "pod/kube-system/coredns-2 ok",
		"pod/shop/db-1 ok"}) {
		t.Errorf("of the addresses that are sought: %q", got)
	}
}

// TestManyPodsAreDrawnByNamespace until the user asks for them.
func TestManyPodsAreDrawnByNamespace(t *testing.T) {
	c := large(2000)
	b := open(t, c)
	pods := func() (n int) {
		for _, d := range b.elements() {
			if strings.HasPrefix(d.ID, "pod/") && d.Source == "" {
				n++
			}
		}
		return n
	}
	if n := pods(); n != 0 {
		t.Errorf("%d pods are drawn at first", n)
	}
	groups := slices.DeleteFunc(b.lines(), func(line string) bool { return !strings.HasPrefix(line, "group/") })
	if len(groups) != 40*20 {
		t.Errorf("%d namespaces of nodes are drawn", len(groups))
	}
	b.picture("large")
	b.do(chromedp.Focus(chromedp.CSS(".canvas")))
	b.key("ArrowDown")
	b.key("ArrowRight") // from the node's corner to that of its first namespace
	b.until("document.querySelector('.heard').textContent.includes('namespace')")
	b.key("Enter")
	b.until("document.querySelector('.canvas').picture.drawn().some((e) => e.kind === 'pod')")
	if n := pods(); n < 2 || n > 3 {
		t.Errorf("the namespace has %d pods", n)
	}
}
