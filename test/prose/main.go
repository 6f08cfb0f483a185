// Command prose names what is hard to read in documents: sentences of more than 30 words, and idioms that readers with
// English from school do not know.
//
//	prose FILE…
//
// Each finding has its remedy. Code, targets of links and headings are left out. Of tables, only idioms are looked for.
package main

import (
	"fmt"
	"os"
	"slices"
	"strings"
)

const sentenceWords = 30

func main() {
	found := 0
	for _, path := range os.Args[1:] {
		content, err := os.ReadFile(path)
		if err != nil {
			fmt.Fprintln(os.Stderr, "prose:", err)
			os.Exit(2)
		}
		for _, finding := range findings(string(content)) {
			found++
			fmt.Printf("%s:%s\n", path, finding)
		}
	}
	if found > 0 {
		os.Exit(1)
	}
}

// finding is one place that is hard to read, and its remedy.
type finding struct {
	line int // from 1
	text string
}

func (f finding) String() string { return fmt.Sprintf("%d: %s", f.line, f.text) }

// findings are those of a document, in the order of its lines.
func findings(content string) []finding {
	var found []finding
	for _, b := range blocks(content) {
		if !b.cells {
			found = append(found, long(b)...)
		}
		found = append(found, idiomatic(b)...)
	}
	slices.SortStableFunc(found, func(a, b finding) int { return a.line - b.line })
	return found
}

// long are the sentences of a block that have too many words.
func long(b block) []finding {
	var found []finding
	for _, s := range b.sentences() {
		if n := words(b.text[s.from:s.to]); n > sentenceWords {
			found = append(found, finding{b.line(s.from), fmt.Sprintf("sentence of %d words, of at most %d: make two of it",
				n, sentenceWords)})
		}
	}
	return found
}

// idiomatic are the idioms of a block.
func idiomatic(b block) []finding {
	var found []finding
	for _, i := range idioms {
		for _, at := range i.pattern.FindAllStringSubmatchIndex(b.text, -1) {
			from, to := at[2], at[3] // what the pattern's first group has
			if !i.questions && b.asks(from) {
				continue
			}
			match := strings.Join(strings.Fields(b.text[from:to]), " ")
			found = append(found, finding{b.line(from), fmt.Sprintf("%q: %s", match, i.remedy)})
		}
	}
	return found
}
