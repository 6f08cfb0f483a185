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
	links   []string // of <a>
	sources []string // what a browser loads with the page
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
		p := &page{ids: map[string]bool{}}
		for n := range root.Descendants() {
			attributes := map[string]string{}
			for _, a := range n.Attr {
				attributes[a.Key] = a.Val
			}
			p.ids[attributes["id"]] = true
			switch {
			case n.Data == "a":
				p.links = append(p.links, attributes["href"])
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

// TestReader: a reader finds a page by the search, follows the result, and sees the README's picture. His browser asks
// no other server.
func TestReader(t *testing.T) {
	server := httptest.NewServer(http.FileServer(http.Dir(built)))
	defer server.Close()
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.NoSandbox, chromedp.WindowSize(1300, 1000),
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true))
	allocator, end := chromedp.NewExecAllocator(t.Context(), options...)
	defer end()
	ctx, end := chromedp.NewContext(allocator)
	defer end()
	ctx, end = context.WithTimeout(ctx, 2*time.Minute)
	defer end()
	var elsewhere []string
	chromedp.ListenTarget(ctx, func(event any) {
		if asked, ok := event.(*network.EventRequestWillBeSent); ok && !strings.HasPrefix(asked.Request.URL, server.URL) &&
			!strings.HasPrefix(asked.Request.URL, "data:") {
			elsewhere = append(elsewhere, asked.Request.URL)
		}
	})
	var heading, drawn string
	err := chromedp.Run(ctx, network.Enable(),
		chromedp.Navigate(server.URL+"/index.html"),
		// The theme draws the picture in a closed shadow tree: its host is a div in place of the text.
		chromedp.WaitVisible(`div.mermaid`),
		chromedp.Evaluate(`String(document.querySelector("div.mermaid").clientHeight > 100 && !document.querySelector("pre.mermaid"))`,
			&drawn),
		chromedp.Click(`.md-search__input`),
		chromedp.SendKeys(`.md-search__input`, "NoFreeAddress"),
		chromedp.WaitVisible(`.md-search-result__link`),
		chromedp.Click(`.md-search-result__link`),
		chromedp.WaitVisible(`h1`),
		chromedp.Text(`h1`, &heading),
	)
	if err != nil {
		t.Fatal(err)
	}
	if drawn != "true" {
		t.Error("the README's picture is not drawn")
	}
	if !strings.HasPrefix(heading, "Events") {
		t.Errorf("the search for an Event's reason leads to %q", heading)
	}
	if len(elsewhere) > 0 {
		t.Errorf("the browser asks elsewhere: %q", elsewhere)
	}
}
