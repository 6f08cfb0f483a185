package main

import (
	"regexp"
	"strings"
	"unicode"
)

// block is a paragraph, an item of a list, or a row of a table, without its marks. Each piece of code in it is a word.
type block struct {
	first int // the line that it begins on, from 1
	text  string
	cells bool // a row of a table
}

// line is that of a place in the text.
func (b block) line(at int) int { return b.first + strings.Count(b.text[:at], "\n") }

// span is a part of a text.
type span struct{ from, to int }

var (
	item      = regexp.MustCompile(`^\s*(?:[-*+]|\d+\.)\s+`)
	quote     = regexp.MustCompile(`^\s*>\s?`)
	target    = regexp.MustCompile(`^\[[^\]]*\]: `)
	code      = regexp.MustCompile("``[^`].*?``|`[^`]*`")
	link      = regexp.MustCompile(`!?\[([^\]]*)\]\([^)\s]*\)`)
	address   = regexp.MustCompile(`<?https?://[^\s>]*[^\s>.,;:)]>?`)
	separator = regexp.MustCompile(`^[|:\-\s]+$`)
	end       = regexp.MustCompile(`[.!?][)"”]*(?:\s+|$)`)
	short     = regexp.MustCompile(`(?:^|[\s(])(?:cf|e\.g|etc|i\.e|vs)\.$`)
)

// blocks are what of a document is prose, in order.
func blocks(content string) []block {
	var found []block
	var lines []string // of the block at hand
	first, fenced := 0, false
	flush := func() {
		if len(lines) > 0 {
			found = append(found, block{first: first, text: plain(strings.Join(lines, "\n"))})
		}
		lines = nil
	}
	for i, line := range strings.Split(content, "\n") {
		text := strings.TrimSpace(quote.ReplaceAllString(line, ""))
		switch {
		case strings.HasPrefix(text, "```"):
			flush()
			fenced = !fenced
		case fenced:
		case text == "", strings.HasPrefix(text, "#"), strings.HasPrefix(text, "<!--"), target.MatchString(text):
			flush()
		case strings.HasPrefix(text, "|"):
			flush()
			if !separator.MatchString(text) {
				found = append(found, block{first: i + 1, text: plain(text), cells: true})
			}
		default:
			if item.MatchString(text) && !(len(lines) > 0 && !item.MatchString(line)) {
				flush()
				text = item.ReplaceAllString(text, "")
			}
			if len(lines) == 0 {
				first = i + 1
			}
			lines = append(lines, text)
		}
	}
	flush()
	return found
}

// title begins the text of a link, which names a page or a section as its heading does, and may be a question's words.
const title = "\u2060"

// plain is a text with a word in place of each piece of code and each address, and without links' targets and emphasis.
// Its lines stay as many as they were.
func plain(text string) string {
	text = code.ReplaceAllStringFunc(text, func(c string) string {
		return "`x`" + strings.Repeat("\n", strings.Count(c, "\n"))
	})
	text = link.ReplaceAllString(text, title+"$1")
	text = address.ReplaceAllString(text, "`x`")
	return strings.ReplaceAll(text, "*", "")
}

// sentences are a block's. An abbreviation ends none.
func (b block) sentences() []span {
	var found []span
	from := 0
	for _, at := range end.FindAllStringIndex(b.text, -1) {
		if to := at[0] + 1; !short.MatchString(b.text[from:to]) {
			found = append(found, span{from, to})
			from = at[1]
		}
	}
	if from < len(b.text) {
		found = append(found, span{from, len(b.text)})
	}
	return found
}

// asks says whether a place in a block's text is in a question.
func (b block) asks(at int) bool {
	for _, s := range b.sentences() {
		if s.from <= at && at < s.to {
			return strings.HasSuffix(b.text[s.from:s.to], "?")
		}
	}
	return false
}

// words is how many a sentence has: what has a letter or a digit.
func words(sentence string) int {
	n := 0
	for _, word := range strings.Fields(sentence) {
		if strings.ContainsFunc(word, func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }) {
			n++
		}
	}
	return n
}
