package ui

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/accessibility"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/chromedp"

	api "github.com/weftnet/weft/models/api/observe/v1alpha1"
)

// follow asks for a way.
func (b *tab) follow(from, to, port string) {
	b.Helper()
	b.view("way")
	for name, text := range map[string]string{"from": from, "to": to, "port": port} {
		b.fill("[name="+name+"]", text)
	}
	b.press("Follow")
}

// TestAWayIsWhatATraceSays: its steps in order, in both directions, and the rule that decides.
func TestAWayIsWhatATraceSays(t *testing.T) {
	c := market()
	b := open(t, c)
	b.follow("shop/web-1", "svc/shop/db", "80")
	b.until("document.querySelector('.verdict.refused') !== null")
	want := api.TraceSpec{Source: api.TraceEnd{Kind: api.PodEnd, Namespace: "shop", Name: "web-1"},
		Destination: api.TraceEnd{Kind: api.ServiceEnd, Namespace: "shop", Name: "db"}, Port: "80"}
	if c.asked.Spec != want {
		t.Errorf("it asks %+v", c.asked.Spec)
	}
	var steps []string
	for _, step := range c.trace.Request {
		steps = append(steps, step.Text)
	}
	if got := b.texts(".step > div > p:first-child"); !slices.Equal(got, steps) {
		t.Errorf("drawn is %q", got)
	}
	if lanes := b.texts(".lane h4"); !slices.Equal(lanes, []string{"node l1", "node l2"}) {
		t.Errorf("it passes %q", lanes)
	}
	deciding := b.texts(".step.decides")
	if len(deciding) != 1 || !strings.Contains(deciding[0], "NetworkPolicy shop/db") {
		t.Errorf("what decides is %q", deciding)
	}
	b.picture("way")
	c.change(func() {
		c.trace.Result, c.trace.Remedy = api.Arrives, ""
		c.trace.Reply = []api.TraceStep{{Kind: api.StepStart, Node: "l2", Text: "the answer"},
			{Kind: api.StepHost, Node: "l1", Text: "the agent passes it on"},
			{Kind: api.StepEnd, Node: "l1", Text: "it arrives at <b>pod</b>"}}
	})
	b.press("Follow")
	b.until("document.querySelector('.verdict.arrives') !== null")
	if titles := b.texts(".way h3"); !slices.Equal(titles, []string{"The request", "The answer"}) {
		t.Errorf("its directions are %q", titles)
	}
	if got := b.texts(".way:last-child .step > div > p:first-child"); !slices.Equal(got, []string{"the answer",
		"the agent passes it on", "it arrives at <b>pod</b>"}) {
		t.Errorf("the answer's steps are %q", got)
	}
	if signs := b.texts(".way:last-child .step > .sign"); !slices.Equal(signs, []string{"●", "▣", "■"}) {
		t.Errorf("the signs of the answer's steps are %q", signs)
	}
	if deciding := b.texts(".step.decides"); len(deciding) > 0 {
		t.Errorf("something has refused what arrives: %q", deciding)
	}
	b.fill("[name=to]", "nobody")
	b.press("Follow")
	b.until("document.querySelector('.refusals')?.textContent.includes('write NAMESPACE/POD')")
}

// TestTheMatrixIsWhatPoliciesSay, of apps and of namespaces, and each cell leads to a way.
func TestTheMatrixIsWhatPoliciesSay(t *testing.T) {
	b := open(t, market())
	b.view("matrix")
	b.until("document.querySelectorAll('.matrix tbody tr').length === 6")
	rows := func() []string { return b.texts(".matrix tbody tr") }
	if got := rows(); !slices.Equal(got, []string{
		"bank/safenothing to ask●all●all●all○none●all", "bank/teller●allnothing to ask●all●all○none●all",
		"kube-system/coredns●all●all●all●all○none●all", "shop/cart●all●all●allnothing to ask●all●all",
		"shop/db●all●all●all●allnothing to ask●all", "shop/web●all●all●all●all○none●all"}) {
		t.Errorf("the apps have %q", got)
	}
	b.picture("matrix")
	b.press("Namespaces")
	b.until("document.querySelectorAll('.matrix tbody tr').length === 3")
	if got := rows(); !slices.Equal(got, []string{"bank●all●all◐some", "kube-system●all●all◐some", "shop●all●all◐some"}) {
		t.Errorf("the namespaces have %q", got)
	}
	b.do(chromedp.Click(chromedp.CSS("button[title^='bank → shop']")))
	b.until("document.querySelector('aside')?.textContent.includes('safe → db')")
	b.press("Follow")
	b.comesTo("way")
	if from := value[string](b, "document.querySelector('[name=from]').value"); !strings.HasPrefix(from, "bank/") {
		t.Errorf("the way begins at %q", from)
	}
}

// TestWhatIsNotInForce is told with its remedy.
func TestWhatIsNotInForce(t *testing.T) {
	c := market()
	b := open(t, c)
	b.view("findings")
	b.picture("findings")
	cards := b.texts(".card")
	var want []string
	for _, f := range c.status.Findings {
		want = append(want, f.Object, f.Text, strings.ReplaceAll(f.Remedy, "`", ""))
	}
	for _, p := range c.status.NotInForce {
		want = append(want, p.Kind+" "+p.Namespace+"/"+p.Name, p.Condition.Message, "in part")
	}
	for _, text := range want {
		if !slices.ContainsFunc(cards, func(card string) bool { return strings.Contains(card, text) }) {
			t.Errorf("no card has %q: %q", text, cards)
		}
	}
	c.change(func() {
		c.status = api.NetworkStatus{Result: api.OK, Policies: 4, NotJudged: "Not looked at: `weft trace`."}
	})
	b.press("Refresh")
	b.until("document.querySelector('.badge.ok') !== null")
	if got := b.texts(".empty"); !slices.Equal(got, []string{"✓ All is well. Not looked at: weft trace.",
		"✓ All 4 policies are in force."}) {
		t.Errorf("it says %q", got)
	}
}

// TestRefusalsAreTold with their remedy, beside what was known before.
func TestRefusalsAreTold(t *testing.T) {
	c := market()
	b := open(t, c)
	c.change(func() { c.refused = []string{api.NetworkTopologyResource, "networkpolicies"} })
	b.press("Refresh")
	b.until("document.querySelector('.refusals') !== null")
	got := b.texts(".refusals")
	if len(got) != 1 || !strings.Contains(got[0], "networktopologies is forbidden to alice") ||
		!strings.Contains(got[0], "--clusterrole=weft-observe-topology") {
		t.Errorf("it says %q", got)
	}
	b.shows(c)
	b.view("matrix")
	b.until("document.querySelector('main .refusals')?.textContent.includes('networkpolicies is forbidden')")
}

// TestTheAddressOpensOnce, and a page that is loaded again stays open.
func TestTheAddressOpensOnce(t *testing.T) {
	b := open(t, market())
	if hash := value[string](b, "location.hash"); hash != "" {
		t.Errorf("the address still has %q", hash)
	}
	b.do(chromedp.Reload())
	b.until("document.querySelector('.canvas')?.picture?.drawn().length > 0")
	b.do(chromedp.Evaluate[chromedp.Void]("sessionStorage.clear()"), chromedp.Navigate("about:blank"),
		chromedp.Navigate(b.address))
	b.until("document.querySelector('.closed')?.textContent.includes('opened already')")
}

// TestEverythingHasANameAndContrast: each control has a name for a screen reader, each view has landmarks and headings
// in order, the keyboard reaches everything in the order of the page, and texts can be read in both schemes.
func TestEverythingHasANameAndContrast(t *testing.T) {
	b := open(t, market())
	for _, view := range []string{"map", "way", "matrix", "findings"} {
		b.view(view)
		b.until("document.querySelector('main').textContent.length > 50")
		b.until("!document.querySelector('main').textContent.includes('Asking')")
		b.named(view)
		if wrong := value[[]string](b, disordered); len(wrong) > 0 {
			t.Errorf("%s: %q", view, wrong)
		}
		b.readable(view)
	}
}

// readable fails for texts that are hard to read, in both schemes.
func (b *tab) readable(view string) {
	b.Helper()
	for _, scheme := range []string{"light", "dark"} {
		b.scheme(scheme)
		if faint := value[[]string](b, faintTexts); len(faint) > 0 {
			b.Errorf("%s, %s: hard to read: %q", view, scheme, faint)
		}
	}
}

// named fails for controls without a name.
func (b *tab) named(view string) {
	b.Helper()
	var tree accessibility.GetFullAXTreeResult
	b.do(chromedp.Func(func(ctx context.Context, t *chromedp.Target) (err error) {
		tree, err = cdp.Call(ctx, t, accessibility.GetFullAXTree, accessibility.GetFullAXTreeParams{})
		return err
	}))
	roles := map[string]int{}
	for _, node := range tree.Nodes {
		if node.Ignored || node.Role == nil {
			continue
		}
		role := strings.Trim(string(node.Role.Value), `"`)
		roles[role]++
		if !slices.Contains([]string{"button", "link", "combobox", "textbox", "searchbox", "application", "image", "table",
			"navigation", "group"}, role) {
			continue
		}
		if node.Name == nil || strings.Trim(string(node.Name.Value), `" `) == "" {
			b.Errorf("%s: a %s has no name", view, role)
		}
	}
	for _, role := range []string{"banner", "navigation", "main", "contentinfo", "heading"} {
		if roles[role] == 0 {
			b.Errorf("%s has no %s: %v", view, role, roles)
		}
	}
}

// disordered are headings that skip a level, and controls that the keyboard reaches in another order than the page's.
const disordered = `(() => {
  const wrong = [];
  let level = 0;
  for (const heading of document.querySelectorAll("h1, h2, h3, h4")) {
    const next = Number(heading.tagName[1]);
    if (next > level + 1) wrong.push("heading " + heading.textContent + " skips a level");
    level = next;
  }
  for (const e of document.querySelectorAll("[tabindex]")) {
    if (e.tabIndex > 0) wrong.push("tabindex " + e.tabIndex + " of " + e.outerHTML.slice(0, 80));
  }
  for (const e of document.querySelectorAll("[onclick], div[role=button], span[role=button]")) wrong.push(e.outerHTML.slice(0, 80));
  return wrong;
})()`

// faintTexts are texts with a contrast below 4.5 to what is behind them (WCAG 2.2, 1.4.3).
const faintTexts = `(() => {
  const canvas = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
  const parts = (colour) => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = colour;
    canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data];
  };
  const luminance = (rgb) => rgb.slice(0, 3).map((v) => v / 255).map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4))
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const behind = (e) => {
    for (; e; e = e.parentElement) {
      const colour = parts(getComputedStyle(e).backgroundColor);
      if (colour[3] === 255) return colour;
    }
    return [255, 255, 255, 255];
  };
  const faint = new Set();
  for (const e of document.querySelectorAll("body *")) {
    if (![...e.childNodes].some((n) => n.nodeType === Node.TEXT_NODE && n.textContent.trim()) || e.disabled) continue;
    const [a, b] = [luminance(parts(getComputedStyle(e).color)), luminance(behind(e))];
    const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (contrast < 4.5) faint.add(contrast.toFixed(1) + " " + e.textContent.trim().slice(0, 40));
  }
  return [...faint];
})()`
