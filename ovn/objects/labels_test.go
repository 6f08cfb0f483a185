package objects

import (
	"testing"

	"k8s.io/apimachinery/pkg/labels"
)

func TestLabelSets(t *testing.T) {
	parsed := func(selector string) labels.Selector {
		s, err := labels.Parse(selector)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	set := NewLabelSet(map[string]string{"b": "2", "a": "1", "empty": ""})
	if set != NewLabelSet(map[string]string{"a": "1", "b": "2", "empty": ""}) || set == NewLabelSet(nil) ||
		NewLabelSet(nil) != NewLabelSet(map[string]string{}) {
		t.Error("equal sets differ, or others are equal")
	}
	for selector, want := range map[string]bool{"a=1": true, "a=2": false, "c": false, "!c": true, "empty": true,
		"empty=": true, "b in (1,2)": true, "": true} {
		if got := parsed(selector).Matches(set); got != want {
			t.Errorf("%q matches: %v", selector, got)
		}
	}
	if !parsed("!a").Matches(LabelSet{}) || (LabelSet{}).Has("") || set.Get("a") != "1" {
		t.Error("no labels are some, or the other way round")
	}
}
