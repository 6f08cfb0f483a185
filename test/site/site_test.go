// Package site tests what docs/site builds: every page and link of it, and what a reader sees in a browser.
package site

import (
	"context"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"
	"golang.org/x/net/html"
)

// built is where `make site` has the site.
const built = "../../bin/site"

// page is what a page has that others lead to, and where it leads itself.
type page struct {
	ids     map[string]bool
	links   []string          // of <a>
	sources []string          // what a browser loads with the page
	terms   map[string]string // of the glossary, with what it shows of each
}

func pages(t *testing.T) map[string]*page {
	t.Helper()
	all := map[string]*page{}
	site := os.DirFS(built)
	err := fs.WalkDir(site, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || path.Ext(name) != ".html" || name == "404.html" { // whose paths are a server's
			return err
		}
		text, err := fs.ReadFile(site, name)
		if err != nil {
			return err
		}
		root, err := html.Parse(strings.NewReader(string(text)))
		if err != nil {
			return err
		}
		p := &page{ids: map[string]bool{}, terms: map[string]string{}}
		for n := range root.Descendants() {
			attributes := map[string]string{}
			for _, a := range n.Attr {
				attributes[a.Key] = a.Val
			}
			p.ids[attributes["id"]] = true
			switch {
			case n.Data == "a":
				p.links = append(p.links, attributes["href"])
			case n.Data == "abbr":
				p.terms[strings.ToLower(n.FirstChild.Data)] = attributes["title"]
			case n.Data == "link" && attributes["rel"] != "canonical":
				p.sources = append(p.sources, attributes["href"])
			case attributes["src"] != "":
				p.sources = append(p.sources, attributes["src"])
			}
		}
		all[name] = p
		return nil
	})
	if err != nil {
		t.Fatalf("%v; `make site` builds it", err)
	}
	return all
}

// TestLinks lead to pages, files and headings that are there, and nothing is loaded from another server.
func TestLinks(t *testing.T) {
	all := pages(t)
	if len(all) < 40 {
		t.Errorf("the site has %d pages", len(all))
	}
	checked := 0
	for name, p := range all {
		for i, link := range append(p.links, p.sources...) {
			u, err := url.Parse(link)
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			if u.Scheme != "" || u.Host != "" {
				if i >= len(p.links) {
					t.Errorf("%s loads %s", name, link)
				}
				continue
			}
			target := name
			if u.Path != "" {
				target = path.Join(path.Dir(name), u.Path)
			}
			if _, err := os.Stat(path.Join(built, target)); err != nil {
				t.Errorf("%s: the link %s leads nowhere", name, link)
				continue
			}
			if to := all[target]; to != nil && u.Fragment != "" && !to.ids[u.Fragment] {
				t.Errorf("%s: %s has no heading for %s", name, target, link)
			}
			checked++
		}
	}
	t.Logf("%d pages, %d links", len(all), checked)
}

// TestTermsShowTheirMeaning: a reader who meets a word of Weft's own need not look for it in the glossary.
func TestTermsShowTheirMeaning(t *testing.T) {
	all := pages(t)
	for page, want := range map[string][2]string{
		"docs/security.html": {"stolen node", "A node that an attacker controls."},
		"docs/glossary.html": {},
		"index.html":         {"chassis host", "A Linux host that runs the ovn-controller of Windows nodes (weft chassis)."},
	} {
		terms := all[page].terms
		if want[0] == "" && len(terms) > 0 {
			t.Errorf("%s explains %v", page, terms)
		}
		if want[0] != "" && terms[want[0]] != want[1] {
			t.Errorf("%s explains a %s by %q, not %q", page, want[0], terms[want[0]], want[1])
		}
	}
}

// TestReader: a reader sees the README's picture, finds an Event by the search, and follows the result. The browser
// asks no other server.
func TestReader(t *testing.T) {
	server := httptest.NewServer(http.FileServer(http.Dir(built)))
	defer server.Close()
	var mu sync.Mutex
	var here int
	var elsewhere []string
	listen := func(event any) {
		asked, ok := event.(*network.EventRequestWillBeSent)
		if !ok {
			return
		}
		mu.Lock()
		defer mu.Unlock()
		if strings.HasPrefix(asked.Request.URL, server.URL) {
			here++
		} else if !strings.HasPrefix(asked.Request.URL, "data:") {
			elsewhere = append(elsewhere, asked.Request.URL)
		}
	}
	limited, end := context.WithTimeout(t.Context(), 2*time.Minute)
	defer end()
	ctx, end := chromedp.NewContext(limited, chromedp.WithListener(listen), chromedp.WithAllocatorOptions(
		chromedp.NoSandbox, chromedp.WindowSize(1300, 1000), chromedp.Flag("disable-quic", true),
		chromedp.Flag("disable-component-update", true)))
	defer end()
	const input = chromedp.CSS(".md-search__input")
	// Other pages that name the reason may come first.
	const result = chromedp.CSS(`.md-search-result__link[href*="reference/events.html"]`)
	if err := chromedp.Do(ctx, chromedp.Navigate(server.URL+"/index.html"),
		// The theme draws the picture in a closed shadow tree, in a div in place of the text.
		chromedp.WaitVisible(chromedp.CSS("div.mermaid")),
		chromedp.WaitNotPresent(chromedp.CSS("pre.mermaid")),
		chromedp.Click(input), chromedp.SendKeys(input, "NoFreeAddress"), chromedp.WaitVisible(result)); err != nil {
		t.Fatal(err)
	}
	if _, err := chromedp.RunResponse(ctx, chromedp.Click(result)); err != nil {
		t.Fatal(err)
	}
	title, err := chromedp.Run(ctx, chromedp.Title())
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(title, "Events") {
		t.Errorf("the search for an Event's reason leads to %q", title)
	}
	mu.Lock()
	defer mu.Unlock()
	if here == 0 || len(elsewhere) > 0 {
		t.Errorf("the browser asks here %d times, and elsewhere for %q", here, elsewhere)
	}
}
