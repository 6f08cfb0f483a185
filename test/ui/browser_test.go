// Package ui tests the page of `weft ui` in a browser, before a stub of the API server: what is drawn is what the API
// says.
package ui

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"k8s.io/client-go/rest"

	"github.com/weftnet/weft/ui"
)

var screenshots = flag.String("screenshots", "", "folder for pictures of each view; empty: none is taken")

// patience is how long a page may take to come to what a test waits for, on a busy machine.
const patience = time.Minute

// browser is the one that all tests have tabs of.
var browser context.Context

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(func() int {
		var end context.CancelFunc
		browser, end = chromedp.NewContext(context.Background(), chromedp.WithAllocatorOptions(chromedp.NoSandbox,
			chromedp.WindowSize(1280, 900), chromedp.Flag("disable-quic", true),
			chromedp.Flag("disable-component-update", true)))
		defer end()
		if err := chromedp.Do(browser); err != nil {
			fmt.Fprintln(os.Stderr, "start chromium:", err)
			return 1
		}
		return m.Run()
	}())
}

// tab is the browser's, with the page of a cluster.
type tab struct {
	testing.TB
	ctx     context.Context
	address string
	mu      sync.Mutex
	wrong   []string
}

// busy has the page hear of a new hash, and come to its next frame, as late as on a busy machine, so that a test that
// does not wait for them fails always.
const busy = `(() => {
  const late = 50; // ms
  const frame = window.requestAnimationFrame.bind(window);
  window.requestAnimationFrame = (f) => frame(() => setTimeout(() => f(performance.now()), late));
  const hears = window.addEventListener;
  window.addEventListener = function (name, f, ...more) {
    hears.call(this, name, name === "hashchange" ? (e) => setTimeout(() => f(e), late) : f, ...more);
  };
})()`

// open opens the page of a cluster in a tab of its own.
func open(t testing.TB, c http.Handler) *tab {
	t.Helper()
	server := httptest.NewServer(c)
	t.Cleanup(server.Close)
	cluster, err := ui.NewCluster(&rest.Config{Host: server.URL}, ui.About{Context: "night", Version: "1.2.0"})
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := ui.NewPage(cluster, listener.Addr().(*net.TCPAddr).AddrPort())
	serving := &httptest.Server{Listener: listener, Config: &http.Server{Handler: served}}
	serving.Start()
	t.Cleanup(serving.Close)
	b := &tab{TB: t, address: served.URL()}
	limited, expire := context.WithTimeout(browser, 2*patience)
	t.Cleanup(expire)
	var end context.CancelFunc
	b.ctx, end = chromedp.NewContext(limited, chromedp.WithListener(b.listen))
	t.Cleanup(func() {
		end()
		b.mu.Lock()
		defer b.mu.Unlock()
		for _, text := range b.wrong {
			t.Errorf("the browser complains: %s", text)
		}
	})
	b.do(chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, page.AddScriptToEvaluateOnNewDocument,
			page.AddScriptToEvaluateOnNewDocumentParams{Source: busy})
		return err
	}), chromedp.Navigate(b.address))
	b.until("document.querySelector('main')?.getAttribute('aria-busy') === 'false'")
	return b
}

// listen hears of errors, of what the Content-Security-Policy forbids, and of requests to others.
func (b *tab) listen(event any) {
	var text string
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		text = fmt.Sprint(e.ExceptionDetails.Text, e.ExceptionDetails.Exception)
	case *log.EventEntryAdded:
		if e.Entry.Source != log.EntrySourceNetwork { // a refusal, which the page tells of
			text = fmt.Sprint(e.Entry.Level, ": ", e.Entry.Text)
		}
	case *network.EventRequestWillBeSent:
		own, _, _ := strings.Cut(b.address, "#")
		if !strings.HasPrefix(e.Request.URL, own) && !strings.HasPrefix(e.Request.URL, "data:") {
			text = "it asks " + e.Request.URL
		}
	}
	if text != "" {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.wrong = append(b.wrong, text)
	}
}

func (b *tab) do(actions ...chromedp.Action[chromedp.Void]) {
	b.Helper()
	if err := chromedp.Do(b.ctx, actions...); err != nil {
		b.Fatal(err)
	}
}

// until waits for an expression to be true.
func (b *tab) until(expression string) {
	b.Helper()
	ctx, end := context.WithTimeout(b.ctx, patience)
	defer end()
	// chromedp.Poll makes functions of texts, which the page's policy forbids.
	looking := "new Promise((done) => { const look = () => (" + expression + ") ? done(true) : " +
		"requestAnimationFrame(look); look(); })"
	if _, err := chromedp.Run(ctx, chromedp.Evaluate[bool](looking, chromedp.EvalAwaitPromise)); err != nil {
		b.Fatalf("%s: %v; the page has\n%s", expression, err, value[string](b, "document.body?.innerText ?? ''"))
	}
}

// value is an expression's.
func value[T any](b *tab, expression string) T {
	b.Helper()
	v, err := chromedp.Run(b.ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	if err != nil {
		b.Fatalf("%s: %v", expression, err)
	}
	return v
}

// texts are what the elements of a selector say.
func (b *tab) texts(selector string) []string {
	b.Helper()
	quoted, _ := json.Marshal(selector) // a string
	return value[[]string](b, fmt.Sprintf(
		"[...document.querySelectorAll(%s)].map((e) => e.textContent.replace(/\\s+/g, ' ').trim())", quoted))
}

// fill writes into a field, or chooses one of its values.
func (b *tab) fill(selector, text string) {
	b.Helper()
	value[bool](b, fmt.Sprintf("(() => { const e = document.querySelector(%q); e.value = %q; "+
		"return ['input', 'change'].every((name) => e.dispatchEvent(new Event(name, { bubbles: true }))); })()",
		selector, text))
}

// view goes to one of the page's views.
func (b *tab) view(name string) {
	b.Helper()
	b.do(chromedp.Click(chromedp.CSS("nav a[href='#" + name + "']")))
	b.comesTo(name)
}

// comesTo waits for one of the page's views to be shown. The address has its name before that.
func (b *tab) comesTo(view string) {
	b.Helper()
	b.until("document.querySelector('nav a[aria-current]').hash === '#" + view + "'")
}

// press clicks the button with a text.
func (b *tab) press(text string) {
	b.Helper()
	quoted, _ := json.Marshal(text) // a string
	const find = "[...document.querySelectorAll('button')].find((e) => e.textContent.trim() === %s)"
	b.until(fmt.Sprintf(find, quoted) + " !== undefined")
	value[bool](b, fmt.Sprintf("(() => { const e = "+find+"; e.focus(); e.click(); return true; })()", quoted))
}

// scheme has the page be light or dark.
func (b *tab) scheme(name string) {
	b.Helper()
	b.do(chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: name}}})
		return err
	}))
}

// picture keeps how a view looks, in both schemes and at two widths, if pictures are asked for.
func (b *tab) picture(name string) {
	b.Helper()
	if *screenshots == "" {
		return
	}
	if err := os.MkdirAll(*screenshots, 0o755); err != nil {
		b.Fatal(err)
	}
	for _, scheme := range []string{"light", "dark"} {
		b.scheme(scheme)
		for _, width := range []int64{1280, 390} {
			b.do(chromedp.EmulateViewport(width, 900))
			value[bool](b, "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))")
			image, err := chromedp.Run(b.ctx, chromedp.FullScreenshot(100))
			if err == nil {
				err = os.WriteFile(filepath.Join(*screenshots, fmt.Sprintf("%s-%s-%d.png", name, scheme, width)), image, 0o644)
			}
			if err != nil {
				b.Error(err)
			}
		}
	}
	b.scheme("light")
	b.do(chromedp.EmulateViewport(1280, 900))
}

// key presses a key where the focus is.
func (b *tab) key(name string) {
	b.Helper()
	b.do(chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		for _, kind := range []input.DispatchKeyEventType{input.DispatchKeyEventTypeKeyDown,
			input.DispatchKeyEventTypeKeyUp} {
			press := input.DispatchKeyEventParams{Type: kind, Key: name}
			if _, err := cdp.Call(ctx, t, input.DispatchKeyEvent, press); err != nil {
				return err
			}
		}
		return nil
	}))
}
