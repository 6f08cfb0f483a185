// Package manifest reads Kubernetes objects out of files, as far as network policies depend on them: policies of
// every kind, namespaces, nodes, pods, and workloads, each of which stands for one pod.
package manifest

import (
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
	// Problems are what an API server would refuse.
	Problems []Problem
	// Notes are what else there is to know, each with its FILE:LINE.
	Notes []string

	places map[string]place // of objects, by "Kind namespace/name"
}

// Problem is why an API server would refuse an object.
type Problem struct {
	Object string // as "NetworkPolicy prod/web"
	Field  string // as "spec.ingress[0].ports[0].port"
	Text   string
}

func (p Problem) String() string { return p.Object + ": Invalid: " + p.Field + ": " + p.Text }

// Where is the place of an object, by "Kind namespace/name", or of a field in it, as FILE:LINE; "" if it is not
// among those read.
func (s *Set) Where(object, field string) string {
	if at, ok := s.places[object]; ok {
		return at.at(field)
	}
	return ""
}

// Read reads files, directories with all that they have, and in where a path is "-". An object that names
// no namespace is in the given one. One that an earlier path had already takes that one's place. The error tells
// of everything that cannot be read, by file and line.
func Read(in io.Reader, namespace string, paths ...string) (*Set, error) {
	r := &reader{namespace: namespace, others: map[string]int{}, byName: map[string]*entry{}}
	for _, path := range paths {
		r.source++
		r.path(in, path)
	}
	if err := errors.Join(r.errs...); err != nil {
		return nil, err
	}
	return r.set(), nil
}

type reader struct {
	namespace string
	source    int // the number of the path that is read
	found     int // how many objects there are, of any kind
	entries   []*entry
	byName    map[string]*entry // by "Kind namespace/name"
	others    map[string]int
	notes     []string
	errs      []error
}

// entry is an object that was read.
type entry struct {
	name     string // as "NetworkPolicy prod/web"
	place    place
	object   metav1.Object
	workload string // the kind, if it is a workload, whose pod the object is then
	problems []Problem
}

// wrong keeps an error of a field, or of the whole object where it names none.
func (r *reader) wrong(at place, field, format string, args ...any) {
	where := at.at(field)
	if at.item != "" {
		where += ": " + at.item
	}
	r.errs = append(r.errs, fmt.Errorf("%s: %s", where, fmt.Sprintf(format, args...)))
}

func (r *reader) path(in io.Reader, path string) {
	found, errs, name := r.found, len(r.errs), path
	if path == "-" {
		name = "standard input"
		r.file(name, in)
	} else if info, err := os.Stat(path); err != nil {
		r.errs = append(r.errs, err)
	} else if info.IsDir() {
		r.directory(path)
	} else {
		r.open(path)
	}
	if r.found == found && len(r.errs) == errs {
		r.errs = append(r.errs, fmt.Errorf("%s: has no object of Kubernetes", name))
	}
}

// directory reads all manifests under a path, except for what is hidden.
func (r *reader) directory(path string) {
	found := false
	err := filepath.WalkDir(path, func(file string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case file != path && strings.HasPrefix(entry.Name(), ".") && entry.IsDir():
			return fs.SkipDir
		case entry.IsDir() || strings.HasPrefix(entry.Name(), ".") || !slices.Contains([]string{".yaml", ".yml", ".json"},
			filepath.Ext(file)):
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
	for _, d := range documents(name, r.source, text) {
		r.document(d)
	}
}

func key(o metav1.Object) string {
	if o.GetNamespace() == "" {
		return o.GetName()
	}
	return o.GetNamespace() + "/" + o.GetName()
}

// set is what was read. Pods have names and nodes that do not collide with others.
func (r *reader) set() *Set {
	s := &Set{Others: r.others, Notes: r.notes, places: map[string]place{}}
	nodes, taken := map[string]bool{}, map[string]bool{}
	for _, e := range r.entries {
		s.Objects = append(s.Objects, e.object.(runtime.Object))
		s.Problems = append(s.Problems, e.problems...)
		s.places[e.name] = e.place
		switch o := e.object.(type) {
		case *corev1.Node:
			nodes[o.Name] = true
		case *corev1.Pod:
			taken[key(o)] = taken[key(o)] || e.workload == ""
		}
	}
	for _, e := range r.entries {
		p, ok := e.object.(*corev1.Pod)
		if !ok {
			continue
		}
		if !nodes[p.Spec.NodeName] {
			p.Spec.NodeName = "" // it is on none of those known
		}
		if e.workload == "" {
			continue
		}
		if taken[key(p)] {
			p.Name += "-" + strings.ToLower(e.workload)
		}
		taken[key(p)] = true
	}
	return s
}
