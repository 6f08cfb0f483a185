package main

import (
	"regexp"
	"strconv"
	"strings"
	"unicode"
)

// document is what of a page concerns links.
type document struct {
	links   []link
	anchors map[string]bool // what may stand behind # in a link to it
}

// link is one link of a document.
type link struct {
	line   int // from 1
	target string
}

var (
	heading    = regexp.MustCompile(`^#{1,6}\s+(.*?)\s*#*$`)
	named      = regexp.MustCompile(`<a (?:id|name)="([^"]+)"`)
	inline     = regexp.MustCompile(`\]\(([^)\s]+)(?:\s+"[^"]*")?\)`)
	definition = regexp.MustCompile(`^\s*\[[^\]]+\]:\s+(\S+)`)
	code       = regexp.MustCompile("``[^`].*?``|`[^`]*`")
	label      = regexp.MustCompile(`!?\[([^\]]*)\]\([^)]*\)`)
)

// parse reads a page of GitHub's Markdown. Code has no links and no headings.
func parse(content string) document {
	d := document{anchors: map[string]bool{}}
	lines := strings.Split(content, "\n")
	fence := ""
	for i, line := range lines {
		text := strings.TrimSpace(line)
		switch {
		case fence != "":
			if strings.HasPrefix(text, fence) {
				fence = ""
			}
			lines[i] = ""
		case strings.HasPrefix(text, "```"), strings.HasPrefix(text, "~~~"):
			fence = text[:3]
			lines[i] = ""
		default:
			d.name(line)
		}
	}
	d.link(code.ReplaceAllStringFunc(strings.Join(lines, "\n"), blank))
	return d
}

// name takes up the anchors that a line gives.
func (d *document) name(line string) {
	if found := heading.FindStringSubmatch(line); found != nil {
		anchor := slug(found[1])
		for n := 1; d.anchors[anchor]; n++ {
			anchor = slug(found[1]) + "-" + strconv.Itoa(n)
		}
		d.anchors[anchor] = true
	}
	for _, found := range named.FindAllStringSubmatch(line, -1) {
		d.anchors[found[1]] = true
	}
}

// link takes up the links of a text that has no code.
func (d *document) link(text string) {
	for i, line := range strings.Split(text, "\n") {
		for _, form := range []*regexp.Regexp{inline, definition} {
			for _, found := range form.FindAllStringSubmatch(line, -1) {
				d.links = append(d.links, link{i + 1, found[1]})
			}
		}
	}
}

// blank is a piece of code without all except the ends of its lines.
func blank(code string) string { return strings.Repeat("\n", strings.Count(code, "\n")) }

// slug is the anchor that GitHub makes of a heading: letters, digits, hyphens and underscores, all in lower case.
func slug(heading string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r == '-', r == '_', unicode.IsLetter(r), unicode.IsDigit(r):
			return unicode.ToLower(r)
		}
		return -1
	}, label.ReplaceAllString(heading, "$1"))
}
