package watch

import (
	"context"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"

	"github.com/weftnet/weft/models/api/v1alpha1"
)

// TestCustomSource: absence is an empty list and a watch that ends, told once; and what was there is listed anew.
func TestCustomSource(t *testing.T) {
	gone, told := false, 0
	r := &fakeResource{err: func() error {
		if gone {
			return apierrors.NewNotFound(v1alpha1.EgressIPs.GroupResource(), "")
		}
		return nil
	}}
	s := &customSource{resource: r, told: func(error) { told++ }}
	if _, err := s.List(metav1.ListOptions{}); err != nil || told != 0 {
		t.Errorf("list: %v, told %d times", err, told)
	}
	if w, err := s.Watch(metav1.ListOptions{}); err != nil || w != r.watch {
		t.Errorf("watch: %v %v", w, err)
	}
	gone = true
	if _, err := s.Watch(metav1.ListOptions{}); !apierrors.IsResourceExpired(err) {
		t.Errorf("the watch after it went: %v, want one that asks for a list", err)
	}
	list, err := s.List(metav1.ListOptions{})
	if err != nil || len(list.(*unstructured.UnstructuredList).Items) != 0 {
		t.Errorf("list: %v %v", list, err)
	}
	w, err := s.Watch(metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if event, open := <-w.ResultChan(); open { // it ends, or the test does not
		t.Errorf("event %v", event)
	}
	if told != 1 {
		t.Errorf("told %d times", told)
	}
	gone, r.watch = false, nil
	if _, err := s.Watch(metav1.ListOptions{}); !apierrors.IsResourceExpired(err) {
		t.Errorf("the watch after it came: %v, want one that asks for a list", err)
	}
	if w, err := s.Watch(metav1.ListOptions{}); err != nil || w != r.watch {
		t.Errorf("watch: %v %v", w, err)
	}
	r.err = func() error { return apierrors.NewServiceUnavailable("starting") }
	if _, err := s.List(metav1.ListOptions{}); !apierrors.IsServiceUnavailable(err) {
		t.Errorf("an API server that is away has no objects: %v", err)
	}
}

// fakeResource lists nothing, or fails.
type fakeResource struct {
	dynamic.ResourceInterface
	err   func() error
	watch watch.Interface
}

func (r *fakeResource) List(context.Context, metav1.ListOptions) (*unstructured.UnstructuredList, error) {
	if err := r.err(); err != nil {
		return nil, err
	}
	return &unstructured.UnstructuredList{}, nil
}

func (r *fakeResource) Watch(context.Context, metav1.ListOptions) (watch.Interface, error) {
	if r.watch == nil {
		r.watch = watch.NewFake()
	}
	if err := r.err(); err != nil {
		return nil, err
	}
	return r.watch, nil
}
