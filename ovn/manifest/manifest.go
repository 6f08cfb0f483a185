// Package manifest reads Kubernetes objects out of files, as far as network policies depend on them: policies of
// every kind, namespaces, nodes, pods, and workloads, each of which stands for one pod.
package manifest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Set is what was read.
type Set struct {
	// Objects are of kinds that policies depend on; each stands there once.
	Objects []runtime.Object
	// Others are how many objects there were of kinds that they do not depend on.
	Others map[string]int
	// where objects are written, by "Kind namespace/name".
	where map[string]string
}

// Where is the place of an object, by "Kind namespace/name", as FILE:LINE; "" if it is not among those read.
func (s *Set) Where(object string) string { return s.where[object] }

// Read reads files, directories with all that they have, and in where a path is "-". An object that names
// no namespace is in the given one. The error tells of everything that cannot be read, by file and line.
func Read(in io.Reader, namespace string, paths ...string) (*Set, error) {
	r := &reader{Set: Set{Others: map[string]int{}, where: map[string]string{}}, namespace: namespace, workloads: map[string]string{}}
	for _, path := range paths {
		r.path(in, path)
	}
	if err := errors.Join(r.errs...); err != nil {
		return nil, err
	}
	r.settle()
	return &r.Set, nil
}

type reader struct {
	Set
	namespace string
	// workloads are the pods that stand for one, by what they stand for.
	workloads map[string]string
	errs      []error
}

func (r *reader) path(in io.Reader, path string) {
	if path == "-" {
		r.file("standard input", in)
		return
	}
	info, err := os.Stat(path)
	switch {
	case err != nil:
		r.errs = append(r.errs, err)
	case !info.IsDir():
		r.open(path)
	default:
		r.directory(path)
	}
}

// directory reads all manifests under a path, but for what is hidden.
func (r *reader) directory(path string) {
	found := false
	err := filepath.WalkDir(path, func(file string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case file != path && strings.HasPrefix(entry.Name(), ".") && entry.IsDir():
			return fs.SkipDir
		case entry.IsDir() || strings.HasPrefix(entry.Name(), ".") || !slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(file)):
			return nil
		}
		found = true
		r.open(file)
		return nil
	})
	if err == nil && !found {
		err = fmt.Errorf("%s: has no file that ends in .yaml, .yml or .json", path)
	}
	if err != nil {
		r.errs = append(r.errs, err)
	}
}

func (r *reader) open(path string) {
	file, err := os.Open(path)
	if err != nil {
		r.errs = append(r.errs, err)
		return
	}
	defer file.Close()
	r.file(path, file)
}

func (r *reader) file(name string, in io.Reader) {
	text, err := io.ReadAll(in)
	if err != nil {
		r.errs = append(r.errs, fmt.Errorf("%s: %w", name, err))
		return
	}
	for _, d := range documents(text) {
		if err := r.document(fmt.Sprintf("%s:%d", name, d.content), d); err != nil {
			r.errs = append(r.errs, fmt.Errorf("%s:%d: %w", name, d.line(err), err))
		}
	}
}

// document is a part of a file.
type document struct {
	text    []byte
	first   int // the number of its first line
	content int // the number of the first line that says anything
}

// documents are the parts of a file between lines of three dashes.
func documents(text []byte) []document {
	text = bytes.TrimPrefix(text, []byte("\ufeff"))
	list := []document{{first: 1}}
	number := 0
	for line := range bytes.Lines(text) {
		number++
		d := &list[len(list)-1]
		if rest, ok := bytes.CutPrefix(line, []byte("---")); ok && (len(rest) == 0 || bytes.IndexByte([]byte(" \t\r\n"), rest[0]) >= 0) {
			list = append(list, document{first: number})
			d = &list[len(list)-1]
			line = rest
		}
		if said := bytes.TrimSpace(line); d.content == 0 && len(said) > 0 && said[0] != '#' {
			d.content = number
		}
		d.text = append(d.text, line...)
	}
	return slices.DeleteFunc(list, func(d document) bool { return d.content == 0 })
}

func key(o metav1.Object) string {
	if o.GetNamespace() == "" {
		return o.GetName()
	}
	return o.GetNamespace() + "/" + o.GetName()
}

// settle gives pods names and nodes that do not collide with others.
func (r *reader) settle() {
	nodes, taken := map[string]bool{}, map[string]bool{}
	for _, o := range r.Objects {
		switch o := o.(type) {
		case *corev1.Node:
			nodes[o.Name] = true
		case *corev1.Pod:
			taken[key(o)] = taken[key(o)] || r.workloads[string(o.UID)] == ""
		}
	}
	for _, o := range r.Objects {
		p, ok := o.(*corev1.Pod)
		if !ok {
			continue
		}
		if !nodes[p.Spec.NodeName] {
			p.Spec.NodeName = "" // it is on none of those known
		}
		kind := r.workloads[string(p.UID)]
		if kind == "" {
			continue
		}
		if taken[key(p)] {
			p.Name += "-" + strings.ToLower(kind)
		}
		taken[key(p)] = true
	}
}
