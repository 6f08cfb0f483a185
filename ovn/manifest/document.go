package manifest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"

	yaml3 "go.yaml.in/yaml/v3"
)

// document is a part of a file.
type document struct {
	file    string
	source  int // the number of the path by which it was read
	text    []byte
	first   int // the number of its first line
	content int // the number of the first line that says anything
	nodes   *yaml3.Node
}

// documents are the parts of a file: between lines of three dashes or dots, or of a stream of JSON.
func documents(file string, source int, text []byte) []*document {
	text = bytes.TrimPrefix(text, []byte("\ufeff"))
	list := []*document{{file: file, source: source, first: 1}}
	number := 0
	for line := range bytes.Lines(text) {
		number++
		d := list[len(list)-1]
		if rest, ok := marked(line); ok {
			d = &document{file: file, source: source, first: number}
			list = append(list, d)
			line = rest
		}
		said := bytes.TrimSpace(line)
		switch {
		case d.content > 0 || len(said) == 0 || said[0] == '#':
		case line[0] == '%':
			line = []byte("\n") // a directive, like %YAML 1.2
		default:
			d.content = number
		}
		d.text = append(d.text, line...)
	}
	var parts []*document
	for _, d := range list {
		if d.content > 0 {
			parts = append(parts, d.stream()...)
		}
	}
	return parts
}

// marked says of a line that it ends a document or begins one, and what else it has.
func marked(line []byte) (rest []byte, ok bool) {
	if rest, ok = bytes.CutPrefix(line, []byte("---")); !ok {
		rest, ok = bytes.CutPrefix(line, []byte("..."))
	}
	return rest, ok && (len(rest) == 0 || bytes.IndexByte([]byte(" \t\r\n"), rest[0]) >= 0)
}

// stream parts a document that is several of JSON, one after the other.
func (d *document) stream() []*document {
	var list []*document
	first := d.first
	for rest := d.text; len(bytes.TrimSpace(rest)) > 0; {
		said, end := bytes.TrimLeft(rest, " \t\r\n"), len(rest)
		in := json.NewDecoder(bytes.NewReader(rest))
		if said[0] == '{' && in.Decode(&json.RawMessage{}) == nil {
			end = int(in.InputOffset())
		}
		part := &document{file: d.file, source: d.source, text: rest[:end], first: first}
		part.content = first + bytes.Count(rest[:len(rest)-len(said)], []byte("\n"))
		list = append(list, part)
		first += bytes.Count(rest[:end], []byte("\n"))
		rest = rest[end:]
	}
	if len(list) == 1 {
		return []*document{d} // which knows about comments
	}
	return list
}

// leftover says where a text goes on after what is read as the document; 0: nowhere.
func (d *document) leftover() (line int) {
	if json.Valid(d.text) {
		return 0
	}
	in := yaml3.NewDecoder(bytes.NewReader(d.text))
	var node yaml3.Node
	if in.Decode(&node) != nil {
		return 0
	}
	d.nodes = &node
	var more yaml3.Node
	switch err := in.Decode(&more); {
	case errors.Is(err, io.EOF):
		return 0
	case err != nil:
		return max(d.content, d.first+yamlLine(err)) // where it misses a document's start, the parser counts from 0
	}
	return d.first + more.Line - 1
}

var lineNumber = regexp.MustCompile(`line (\d+)`)

// yamlLine is the line that an error of a YAML parser names, or 0.
func yamlLine(err error) (n int) {
	if found := lineNumber.FindStringSubmatch(err.Error()); found != nil {
		n, _ = strconv.Atoi(found[1])
	}
	return n
}

// place is a document, or an object of a list in it.
type place struct {
	*document
	item string // "" or as "items[3]"
}

func (p place) String() string { return p.at("") }

// at is where a field stands, or else what has it, as FILE:LINE.
func (p place) at(field string) string {
	if p.nodes == nil {
		p.nodes = &yaml3.Node{}
		if yaml3.Unmarshal(p.text, p.nodes) != nil {
			p.nodes = &yaml3.Node{}
		}
	}
	line := p.content
	if len(p.nodes.Content) == 1 {
		line = lineOf(p.nodes.Content[0], p.item+"."+field, p.content-p.first+1) + p.first - 1
	}
	return fmt.Sprintf("%s:%d", p.file, line)
}

// lineOf follows a path like "spec.ingress[0].from" as far as it leads; line is that of the node's own key.
func lineOf(node *yaml3.Node, path string, line int) int {
	if node.Kind == yaml3.AliasNode {
		node = node.Alias
	}
	path = strings.TrimPrefix(path, ".")
	switch {
	case path == "":
	case node.Kind == yaml3.MappingNode:
		for pair := range slices.Chunk(node.Content, 2) {
			rest, ok := strings.CutPrefix(path, pair[0].Value)
			if ok && (rest == "" || rest[0] == '.' || rest[0] == '[') {
				return lineOf(pair[1], rest, pair[0].Line)
			}
		}
	case node.Kind == yaml3.SequenceNode:
		number, rest, _ := strings.Cut(strings.TrimPrefix(path, "["), "]")
		if i, err := strconv.Atoi(number); err == nil && i >= 0 && i < len(node.Content) {
			return lineOf(node.Content[i], rest, node.Content[i].Line)
		}
	}
	return line
}
