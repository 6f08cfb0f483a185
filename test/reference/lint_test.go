package reference

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	dto "github.com/prometheus/client_model/go"
)

// TestMetricsFollowConventions: Prometheus' own linter has nothing to say about any metric that the code makes.
func TestMetricsFollowConventions(t *testing.T) {
	source, err := ReadSource(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	found, err := metrics(source)
	if err != nil || len(found) < 50 {
		t.Fatalf("%d metrics were read: %v", len(found), err)
	}
	var families []*dto.MetricFamily
	for _, m := range found {
		families = append(families, familyOf(m))
	}
	problems, err := promlint.NewWithMetricFamilies(families).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

// familyOf is a metric as it is scraped, with one sample.
func familyOf(m metric) *dto.MetricFamily {
	kind := dto.MetricType(dto.MetricType_value[strings.ToUpper(m.kind)])
	sample := &dto.Metric{}
	for _, label := range m.labels {
		sample.Label = append(sample.Label, &dto.LabelPair{Name: &label, Value: new(string)})
	}
	return &dto.MetricFamily{Name: &m.name, Help: &m.help, Type: &kind, Metric: []*dto.Metric{sample}}
}

// TestTheLinterIsAsked about names, kinds and labels.
func TestTheLinterIsAsked(t *testing.T) {
	for _, m := range []metric{{name: "weft_things", kind: "counter", help: "Things."},
		{name: "weft_took_milliseconds", kind: "gauge", help: "Time."},
		{name: "weft_things", kind: "gauge", help: "Things.", labels: []string{"itsName"}}} {
		if problems, err := promlint.NewWithMetricFamilies([]*dto.MetricFamily{familyOf(m)}).Lint(); err != nil ||
			len(problems) == 0 {
			t.Errorf("%+v passes: %v", m, err)
		}
	}
}
