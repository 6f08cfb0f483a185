// Command links names the links of documents that lead nowhere: to a file that the repository lacks, or to a heading
// that the document there lacks.
//
//	links FILE…
//
// It runs in the repository's root, to which the files are relative. Links to other sites are left out: they fail
// without anybody's mistake.
package main

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"
)

func main() {
	found := 0
	pages := newRepository(os.DirFS("."))
	for _, name := range os.Args[1:] {
		broken, err := pages.broken(path.Clean(name))
		if err != nil {
			fmt.Fprintln(os.Stderr, "links:", err)
			os.Exit(2)
		}
		for _, finding := range broken {
			found++
			fmt.Println(finding)
		}
	}
	if found > 0 {
		os.Exit(1)
	}
}

// repository has the files that links lead to, and the documents that were read so far.
type repository struct {
	files     fs.FS
	documents map[string]document // by path
}

func newRepository(files fs.FS) *repository {
	return &repository{files: files, documents: map[string]document{}}
}

// read gives a document, which it reads once.
func (r *repository) read(name string) (document, error) {
	if d, ok := r.documents[name]; ok {
		return d, nil
	}
	content, err := fs.ReadFile(r.files, name)
	if err != nil {
		return document{}, err
	}
	d := parse(string(content))
	r.documents[name] = d
	return d, nil
}

// broken are the links of a document that lead nowhere, each as PATH:LINE: and the reason, in the order of its lines.
func (r *repository) broken(name string) ([]string, error) {
	from, err := r.read(name)
	if err != nil {
		return nil, err
	}
	var found []string
	for _, l := range from.links {
		if reason := r.fault(name, l.target); reason != "" {
			found = append(found, fmt.Sprintf("%s:%d: %s: %s", name, l.line, l.target, reason))
		}
	}
	return found, nil
}

// fault is why a link of the document name leads nowhere, and empty if it leads somewhere or to another site.
func (r *repository) fault(name, target string) string {
	if strings.Contains(target, ":") {
		return ""
	}
	file, anchor, _ := strings.Cut(target, "#")
	to := name
	if file != "" {
		to = path.Join(path.Dir(name), file)
	}
	if !fs.ValidPath(to) {
		return "leads out of the repository"
	}
	if _, err := fs.Stat(r.files, to); err != nil {
		return "no file " + to
	}
	if anchor == "" {
		return ""
	}
	d, err := r.read(to)
	if err != nil {
		return "no document: " + err.Error()
	}
	if !d.anchors[anchor] {
		return fmt.Sprintf("no heading #%s in %s", anchor, to)
	}
	return ""
}
