// Command columns names the lines of Go files and documents that are too long: 120 characters in code, and 100 in
// prose.
//
//	columns FILE…
//
// Left out is what cannot be broken: literals in backquotes, generated code, tables and code in documents, and what has
// no space in it, such as an address.
package main

import (
	"fmt"
	"go/scanner"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"
)

const (
	codeColumns  = 120
	proseColumns = 100
)

func main() {
	found := 0
	for _, path := range os.Args[1:] {
		content, err := os.ReadFile(path)
		if err != nil {
			fmt.Fprintln(os.Stderr, "columns:", err)
			os.Exit(2)
		}
		for _, line := range long(path, string(content)) {
			found++
			fmt.Println(line)
		}
	}
	if found > 0 {
		os.Exit(1)
	}
}

// long are the lines of a file that are too long, each as PATH:NUMBER: and how many characters it has.
func long(path, content string) []string {
	limit, exempt := codeColumns, unbreakable
	if filepath.Ext(path) == ".md" {
		limit, exempt = proseColumns, noProse
	}
	left := exempt(content)
	var found []string
	for i, line := range strings.Split(content, "\n") {
		if n := utf8.RuneCountInString(line); n > limit && !left[i+1] && breakable(line, limit) {
			found = append(found, fmt.Sprintf("%s:%d: %d characters, of at most %d", path, i+1, n, limit))
		}
	}
	return found
}

// breakable says whether a line has a space, beside those at its start, by which its first part fits.
func breakable(line string, limit int) bool {
	text := strings.TrimLeft(line, " \t/-*>")
	return strings.Contains(string([]rune(line)[len([]rune(line))-len([]rune(text)):min(limit, len([]rune(line)))]), " ")
}

// unbreakable are the lines, from 1, of literals in backquotes, and all of a file that is generated.
func unbreakable(content string) map[int]bool {
	lines := map[int]bool{}
	if strings.Contains(content, "// Code generated ") {
		for i := range strings.Count(content, "\n") + 1 {
			lines[i+1] = true
		}
		return lines
	}
	fset := token.NewFileSet()
	file := fset.AddFile("", fset.Base(), len(content))
	var s scanner.Scanner
	s.Init(file, []byte(content), nil, 0)
	for {
		pos, tok, text := s.Scan()
		if tok == token.EOF {
			return lines
		}
		if tok == token.STRING && strings.HasPrefix(text, "`") {
			first := fset.Position(pos).Line
			for i := range strings.Count(text, "\n") + 1 {
				lines[first+i] = true
			}
		}
	}
}

// noProse are the lines, from 1, of a document's tables, code and definitions of links.
func noProse(content string) map[int]bool {
	lines, code := map[int]bool{}, false
	for i, line := range strings.Split(content, "\n") {
		text := strings.TrimSpace(line)
		if strings.HasPrefix(text, "```") {
			code = !code
		}
		lines[i+1] = code || strings.HasPrefix(text, "|") || strings.HasPrefix(text, "[") && strings.Contains(text, "]: ")
	}
	return lines
}
