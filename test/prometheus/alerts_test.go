package prometheus

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/weftnet/weft/test/reference"
)

// TestAlertsFire: promtool plays the causes of each alert, and its own one fires.
func TestAlertsFire(t *testing.T) {
	folder := t.TempDir()
	for name, from := range map[string]string{"alerts.test.yaml": filepath.Join("testdata", "alerts.test.yaml"),
		"alerts.yaml": filepath.Join(repository(t), "docs", "monitoring", "alerts.yaml")} {
		text, err := os.ReadFile(from)
		if err == nil {
			err = os.WriteFile(filepath.Join(folder, name), text, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	promtool(t, "test", "rules", filepath.Join(folder, "alerts.test.yaml"))
	var played struct {
		RuleFiles []string         `json:"rule_files"`
		Tests     []map[string]any `json:"tests"`
	}
	read(t, filepath.Join("testdata", "alerts.test.yaml"), &played)
	names := map[string]struct{}{}
	for _, test := range played.Tests {
		name, _ := test["name"].(string)
		names[name] = struct{}{}
	}
	for _, rule := range all(Alerts(t)) {
		if _, is := names[rule.Alert]; !is {
			t.Errorf("testdata/alerts.test.yaml has no test of %s", rule.Alert)
		}
	}
}

// promtool runs it to its end.
func promtool(t *testing.T, arguments ...string) {
	t.Helper()
	if output, err := exec.Command(Program(t, "promtool"), arguments...).CombinedOutput(); err != nil {
		t.Errorf("promtool %s: %v\n%s", strings.Join(arguments, " "), err, output)
	}
}

func all(r Rules) (rules []Rule) {
	for _, group := range r.Groups {
		rules = append(rules, group.Rules...)
	}
	return rules
}

// TestAlertsSayWhatToDo: each has a severity, a summary, and a section of docs/monitoring.md to which it leads.
func TestAlertsSayWhatToDo(t *testing.T) {
	const page = "https://github.com/weftnet/weft/blob/main/docs/monitoring.md#"
	text, err := os.ReadFile(filepath.Join(repository(t), "docs", "monitoring.md"))
	if err != nil {
		t.Fatal(err)
	}
	sections := map[string]string{}
	for section := range strings.SplitSeq(string(text), "\n### ") {
		name, rest, _ := strings.Cut(section, "\n")
		sections[name] = rest
	}
	rules := all(Alerts(t))
	for _, rule := range rules {
		severity := rule.Labels["severity"]
		section, is := sections[rule.Alert]
		switch {
		case !is:
			t.Errorf("docs/monitoring.md has no section %s", rule.Alert)
		case !strings.HasPrefix(strings.TrimSpace(section), "*"+severity+".*"):
			t.Errorf("the section %s does not begin with the severity %q", rule.Alert, severity)
		case !strings.Contains(section, "\n- "):
			t.Errorf("the section %s does not say what to do", rule.Alert)
		}
		if rule.Annotations["runbook_url"] != page+strings.ToLower(rule.Alert) || rule.Annotations["summary"] == "" {
			t.Errorf("%s: the annotations are %v", rule.Alert, rule.Annotations)
		}
	}
	if len(sections) != len(rules)+1 {
		t.Errorf("docs/monitoring.md has %d sections for %d alerts", len(sections)-1, len(rules))
	}
}

var weftMetric = regexp.MustCompile(`\bweft_[a-z0-9_]+`)

// TestMetricsExist: alerts and dashboard name only metrics that Weft has.
func TestMetricsExist(t *testing.T) {
	source, err := reference.ReadSource(repository(t))
	if err != nil {
		t.Fatal(err)
	}
	exist, err := source.MetricNames()
	if err != nil {
		t.Fatal(err)
	}
	expressions := map[string]string{}
	for _, rule := range all(Alerts(t)) {
		expressions["alert "+rule.Alert] = rule.Expr
	}
	for _, p := range readDashboard(t).Panels {
		for _, target := range p.Targets {
			expressions["panel "+p.Title] += " " + target.Expr
		}
	}
	for place, expression := range expressions {
		for _, name := range weftMetric.FindAllString(expression, -1) {
			if _, is := exist[name]; !is {
				t.Errorf("%s: there is no metric %s; docs/reference/metrics.md lists all", place, name)
			}
		}
	}
}

// TestExamplesHaveTheSameJobs: Prometheus on hosts and the operator's know Weft's programs by the same names.
func TestExamplesHaveTheSameJobs(t *testing.T) {
	folder := filepath.Join(repository(t), "docs", "monitoring")
	var hosts struct {
		ScrapeConfigs []struct {
			JobName string `json:"job_name"`
		} `json:"scrape_configs"`
	}
	text, err := os.ReadFile(filepath.Join(folder, "scrape.yaml"))
	if err == nil {
		err = yaml.Unmarshal(text, &hosts)
	}
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]struct{}{}
	for _, job := range hosts.ScrapeConfigs {
		want[job.JobName] = struct{}{}
	}
	text, err = os.ReadFile(filepath.Join(folder, "kube-prometheus.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]struct{}{}
	for document := range strings.SplitSeq(string(text), "\n---\n") {
		got[jobOf(t, document)] = struct{}{}
	}
	if !maps.Equal(got, want) {
		t.Errorf("the operator's jobs are %v, those of hosts %v", got, want)
	}
}

// jobOf is the name that a PodMonitor or a ScrapeConfig gives its job, which is the object's own.
func jobOf(t *testing.T, document string) string {
	t.Helper()
	type relabelings []struct{ TargetLabel, Replacement string }
	var object struct {
		Kind     string
		Metadata struct{ Name string }
		Spec     struct {
			PodMetricsEndpoints []struct{ Relabelings relabelings }
			Relabelings         relabelings
		}
	}
	if err := yaml.Unmarshal([]byte(document), &object); err != nil {
		t.Fatal(err)
	}
	all := object.Spec.Relabelings
	for _, endpoint := range object.Spec.PodMetricsEndpoints {
		all = append(all, endpoint.Relabelings...)
	}
	for _, r := range all {
		if r.TargetLabel == "job" && r.Replacement == object.Metadata.Name {
			return r.Replacement
		}
	}
	t.Errorf("%s %s does not name its job as itself", object.Kind, object.Metadata.Name)
	return ""
}

// TestScrapeConfigurationIsRead by promtool, beside the alerts to which it refers.
func TestScrapeConfigurationIsRead(t *testing.T) {
	promtool(t, "check", "config", filepath.Join(repository(t), "docs", "monitoring", "scrape.yaml"))
}
