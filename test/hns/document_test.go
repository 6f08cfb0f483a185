package hns

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// sourced is what a source has that can be looked up: a link, or a file.
var sourced = regexp.MustCompile("\\]\\(http|\\]\\[hcn-errors\\]|`[\\w/.-]+\\.(go|c)`")

// ours is a file of the emulator, which does not say what Windows does.
var ours = regexp.MustCompile("`test/[\\w/.-]+`")

// mostAssumed is how many lines of the pages on Windows may be assumed. Seven are about what Packet Monitor prints, and
// one about where containerd keeps results of CNI.
const mostAssumed = 27

// Each line of what HNS does has a mark, and a source unless it is assumed. Where the emulator differs from Windows the
// source can be looked up. Few lines of all pages on Windows are assumed.
func TestSourcesOfWhatWindowsDoes(t *testing.T) {
	read := func(page string) string {
		text, err := os.ReadFile("../../docs/" + page)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	tables := read("windows-hns.md")
	marks := map[string]int{}
	for line := range strings.Lines(tables) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if !strings.HasPrefix(line, "| ") || cells[0] == " Behaviour " {
			continue
		}
		if len(cells) != 3 {
			t.Errorf("a row of %d cells: %s", len(cells), line)
			continue
		}
		source, mark := strings.TrimSpace(cells[1]), strings.TrimSpace(cells[2])
		marks[mark]++
		if !slices.Contains([]string{"seen", "documented", "assumed", "read", "limit"}, mark) {
			t.Errorf("the mark is %q: %s", mark, line)
		}
		if source == "" && mark != "assumed" {
			t.Errorf("no source: %s", line)
		}
		if mark == "limit" && !sourced.MatchString(ours.ReplaceAllString(source, "")) {
			t.Errorf("nobody can look up what Windows does: %s", line)
		}
	}
	if marks["seen"] < 20 || marks["limit"] < 5 {
		t.Errorf("the rows that were found have the marks %v", marks)
	}
	pages := read("windows.md") + read("windows-driver.md") + tables
	prose := strings.Count(pages, "*assumed*") - 1 // of which one says what it means
	if all := prose + marks["assumed"]; all > mostAssumed {
		t.Errorf("%d lines are assumed, %d of them in the tables", all, marks["assumed"])
	}
}
