package main

import (
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

// page is a document of a repository that also has docs/b.md, with some headings, and the program cmd/main.go.
func page(content string) *repository {
	return newRepository(fstest.MapFS{
		"docs/a.md": {Data: []byte(content)},
		"docs/b.md": {Data: []byte(strings.Join([]string{
			"# The page", "## What's new, in 3.7", "## Twice", "## Twice", "### `weft node`: [keys](c.md)", "## Naïve _one_",
			"```sh", "# a comment", "```", `<a id="by-hand"></a>`,
		}, "\n"))},
		"cmd/main.go": {Data: []byte("package main")},
	})
}

func TestBroken(t *testing.T) {
	for name, test := range map[string]struct {
		content string
		want    []string
	}{
		"a file":                      {"[b](b.md) [c](../cmd/main.go) [a folder](../cmd)", nil},
		"headings":                    {"[b](b.md#whats-new-in-37) [c](b.md#weft-node-keys) [d](b.md#naïve-_one_)", nil},
		"headings of one name":        {"[b](b.md#twice) [c](b.md#twice-1)", nil},
		"an anchor":                   {"[b](b.md#by-hand)", nil},
		"a heading of its own":        {"# Here\n\n[b](#here)", nil},
		"another site":                {"[b](https://example.org/b.md) [c](mailto:a@example.org)", nil},
		"code":                        {"`[b](c.md)` `` [`b`](c.md) ``\n```\n[b](c.md)\n```\n~~~\n```\n[b](c.md)\n~~~", nil},
		"a title":                     {`[b](c.md "the page")`, []string{"docs/a.md:1: c.md: no file docs/c.md"}},
		"a file that is not there":    {"\n[b\nc](c.md)", []string{"docs/a.md:3: c.md: no file docs/c.md"}},
		"a heading that is not there": {"[b](b.md#new)", []string{"docs/a.md:1: b.md#new: no heading #new in docs/b.md"}},
		"a comment in code": {"[b](b.md#a-comment)",
			[]string{"docs/a.md:1: b.md#a-comment: no heading #a-comment in docs/b.md"}},
		"a third heading of one name": {"[b](b.md#twice-2)",
			[]string{"docs/a.md:1: b.md#twice-2: no heading #twice-2 in docs/b.md"}},
		"a definition":                 {"[b]\n\n[b]: c.md", []string{"docs/a.md:3: c.md: no file docs/c.md"}},
		"an image":                     {"![b](c.png)", []string{"docs/a.md:1: c.png: no file docs/c.png"}},
		"behind code of several lines": {"`b\nc` [b](c.md)", []string{"docs/a.md:2: c.md: no file docs/c.md"}},
		"another folder": {"[b](../../other/b.md)",
			[]string{"docs/a.md:1: ../../other/b.md: leads out of the repository"}},
	} {
		t.Run(name, func(t *testing.T) {
			found, err := page(test.content).broken("docs/a.md")
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(found, test.want) {
				t.Errorf("%q, want %q", found, test.want)
			}
		})
	}
}

func TestADocumentThatIsNotThereIsAnError(t *testing.T) {
	if _, err := page("").broken("docs/c.md"); err == nil {
		t.Error("no error")
	}
}
