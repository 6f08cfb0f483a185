package main

import (
	"slices"
	"strings"
	"testing"
)

func TestFindings(t *testing.T) {
	limit := strings.TrimSpace(strings.Repeat("word ", sentenceWords))
	long := "more " + limit + "."
	const tooLong = "sentence of 31 words, of at most 30: make two of it"
	for name, c := range map[string]struct {
		content string
		want    []string
	}{
		"a long sentence":              {"# A\n\n" + long, []string{"3: " + tooLong}},
		"as many words as it may have": {limit + ".", nil},
		"two sentences":                {limit + ". " + limit + ".", nil},
		"a link ends one":              {limit + "\n([link](a.md)). `weft` more", []string{"1: " + tooLong}},
		"the second":                   {"A word.\nTwo words.\n" + long, []string{"3: " + tooLong}},
		"an abbreviation ends none":    {"(e.g. " + limit + ")", []string{"1: " + tooLong}},
		"dashes are no words":          {limit + " - – /.", nil},
		"code is a word":               {"- `a b\n  c` " + limit, []string{"1: " + tooLong}},
		"an item":                      {limit + ":\n- " + limit + ";\n- " + limit + "\n1. " + limit, nil},
		"an item of two lines":         {"- one\n  " + limit, []string{"1: " + tooLong}},
		"a code block":                 {"```\n" + long + "\nbut for\n```\n", nil},
		"a row has no sentences":       {"| a |\n|---|\n| " + long + " |", nil},
		"a quote":                      {"> " + limit + "\n> more", []string{"1: " + tooLong}},
		"a comment":                    {"<!-- but for -->", nil},
		"a heading":                    {"## What nobody but us shall be", nil},
		"the target of a link":         {"[a]: but for\n[b](at-once) but", nil},

		"but for":        {"All but the last", []string{`1: "All but": say "except" or "only"`}},
		"a row":          {"| a | b |\n|---|---|\n| a | But for it |", []string{`3: "But for": say "except"`}},
		"in code":        {"The key `but for` is one.", nil},
		"over two lines": {"One.\nIt is gone at\nonce.", []string{`2: "at once": say "immediately", or "at the same time"`}},
		"part of a word": {"Marshall it, a here-of.", nil},
		"a subject":      {"It is.\nWhat is\nhere goes", []string{`2: "What": begin with a noun: a user that …, a packet that …`}},
		"after a colon":  {"It is there: whoever has it", []string{`1: "whoever": begin with a noun: a user that …, a packet that …`}},
		"a title":        {"It is. [What is left](#left): all. See [who is whose](#a).", []string{`1: "is whose": name what it is`}},
		"topics":         {"Nodes: what is there.", nil},
		"a head":         {"| who | what |", nil},
		"in a cell":      {"| a | It is. What has it is |", []string{`1: "What": begin with a noun: a user that …, a packet that …`}},
		"a question":     {"It is. What is it? See who it is.", nil},
		"is whose":       {"It is whose port it is", []string{`1: "is whose": name what it is`}},
		"one a node":     {"Hosts share Leases, one a node.", []string{`1: "one a node": say "per …" or "for each …"`}},
		"a number a port": {"2.5 kB a port, a balancer a Service,\ntwo lines a family.", []string{
			`1: "2.5 kB a port": say "per …" or "for each …"`, `1: "balancer a Service": say "per …" or "for each …"`,
			`2: "two lines a family": say "per …" or "for each …"`}},
		"a time":           {"10 times a second, once a minute, 14. A node, 6081 of a host, once a pod runs", nil},
		"no more":          {"It counts no more.", []string{`1: "no more.": say "no longer"`}},
		"no more than":     {"No more than ten, or no more of them", nil},
		"one of yours":     {"a port such as one of yours", []string{`1: "of yours": say "your own", or name the owner`}},
		"several in order": {"It shall.\n\nAnew.", []string{`1: "shall": say "must", or what happens`, `3: "Anew": say "again"`}},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, f := range findings(c.content) {
				got = append(got, f.String())
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}
