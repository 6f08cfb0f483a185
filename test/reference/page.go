package reference

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"
)

// origin is the first line of each page, which its readers do not see.
const origin = "`make generate` writes this page. Change the code that it is made of."

// Page is a document in Markdown.
type Page struct{ text strings.Builder }

// NewPage begins a page. Its introduction is paragraphs, of lines that are short enough for a document.
func NewPage(title, introduction string) *Page {
	p := &Page{}
	fmt.Fprintf(&p.text, "<!-- %s -->\n\n# %s\n\n%s\n", origin, title, strings.TrimSpace(introduction))
	return p
}

// Section begins a section. Its text is one paragraph, or empty.
func (p *Page) Section(title, text string) {
	fmt.Fprintf(&p.text, "\n## %s\n", title)
	if text != "" {
		fmt.Fprintf(&p.text, "\n%s\n", wrapped(text))
	}
}

// columns is how long a line of prose may be.
const columns = 100

// wrapped is a paragraph in lines.
func wrapped(text string) string {
	var lines []string
	line := ""
	for word := range strings.FieldsSeq(text) {
		if line != "" && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > columns {
			lines, line = append(lines, line), ""
		}
		line = strings.TrimSpace(line + " " + word)
	}
	return strings.Join(append(lines, line), "\n")
}

// Table adds a table. A cell is Markdown.
func (p *Page) Table(head []string, rows [][]string) {
	p.text.WriteString("\n")
	p.row(head)
	p.text.WriteString(strings.Repeat("|---", len(head)) + "|\n")
	for _, row := range rows {
		p.row(row)
	}
}

func (p *Page) row(cells []string) {
	for _, cell := range cells {
		fmt.Fprintf(&p.text, "| %s ", strings.ReplaceAll(cell, "|", `\|`))
	}
	p.text.WriteString("|\n")
}

// Code is a text as code; nothing of an empty one.
func Code(text string) string {
	if text == "" {
		return ""
	}
	return "`" + text + "`"
}

// Sentence is a text that begins and ends as a sentence does.
func Sentence(text string) string {
	text = strings.TrimSpace(text)
	if text == "" {
		return ""
	}
	return strings.ToUpper(text[:1]) + strings.TrimSuffix(text[1:], ".") + "."
}

// Check fails the test if a file of docs/reference differs from the page. With update it writes the file instead.
func (p *Page) Check(t *testing.T, file string, update bool) {
	t.Helper()
	check(t, "docs/reference/"+file, p.text.String(), update)
}

// check compares a file, whose path begins at the root, with what was made for it.
func check(t *testing.T, file, made string, update bool) {
	t.Helper()
	path := filepath.Join("..", "..", filepath.FromSlash(file))
	if update {
		if err := os.WriteFile(path, []byte(made), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	written, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(written) != made {
		t.Errorf("%s is not what the code says; `make generate` writes it anew.%s", file,
			firstDifference(string(written), made))
	}
}

// firstDifference is the first line in which two texts differ.
func firstDifference(written, made string) string {
	old, now := strings.Split(written, "\n"), strings.Split(made, "\n")
	for i := range min(len(old), len(now)) {
		if old[i] != now[i] {
			return fmt.Sprintf("\nLine %d has\n\t%s\nand the code says\n\t%s", i+1, old[i], now[i])
		}
	}
	return fmt.Sprintf("\nIt has %d lines, and the code says %d.", len(old), len(now))
}
