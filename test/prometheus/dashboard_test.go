package prometheus

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// dashboard is what is checked of Grafana's model.
type dashboard struct {
	Title, UID, Description string
	Templating              struct{ List []variable }
	Panels                  []panel
}

type variable struct{ Name, Type, Query any }

type panel struct {
	ID                       int
	Type, Title, Description string
	Datasource               source
	GridPos                  struct{ X, Y, W, H int }
	FieldConfig              struct{ Defaults struct{ Unit string } }
	Targets                  []target
}

type target struct {
	Expr       string
	Datasource source
}

type source struct{ Type, UID string }

func readDashboard(t *testing.T) (d dashboard) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(repository(t), "docs", "monitoring", "dashboard.json"))
	if err == nil {
		err = json.Unmarshal(text, &d)
	}
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// TestDashboardFollowsRules, those of Grafana's dashboard-linter, which the dashboard has passed (2026-11-26, commit
// 1be3836 of the linter): data source, job and instance that the reader chooses, and panels that say what they show, in
// which unit.
func TestDashboardFollowsRules(t *testing.T) {
	d := readDashboard(t)
	if d.Title == "" || d.UID == "" || d.Description == "" {
		t.Error("the dashboard needs a title, a uid and a description")
	}
	if len(d.Templating.List) == 0 || d.Templating.List[0].Name != "datasource" ||
		d.Templating.List[0].Type != "datasource" || d.Templating.List[0].Query != "prometheus" {
		t.Error("the first variable must be the data source")
	}
	ids, titles := map[int]struct{}{}, map[string]struct{}{}
	for _, p := range d.Panels {
		if _, twice := ids[p.ID]; twice || p.ID == 0 {
			t.Errorf("panel %q has no id of its own", p.Title)
		}
		if _, twice := titles[p.Title]; twice || p.Title == "" {
			t.Errorf("two panels have the title %q, or one has none", p.Title)
		}
		ids[p.ID], titles[p.Title] = struct{}{}, struct{}{}
		if p.Type != "row" {
			for _, wrong := range wrongWith(p) {
				t.Errorf("panel %q: %s", p.Title, wrong)
			}
		}
	}
}

// ofWeft are the metrics of a question, with their selectors.
var ofWeft = regexp.MustCompile(`\b(?:weft|process)_\w+(?:\{[^}]*\})?`)

// wrongWith is what a panel lacks.
func wrongWith(p panel) (wrong []string) {
	chosen := source{"prometheus", "${datasource}"}
	if p.Description == "" {
		wrong = append(wrong, "it has no description")
	}
	if p.FieldConfig.Defaults.Unit == "" {
		wrong = append(wrong, "it has no unit")
	}
	if p.Datasource != chosen || len(p.Targets) == 0 {
		wrong = append(wrong, "it does not use the data source that the reader chooses, or asks nothing")
	}
	for _, target := range p.Targets {
		switch {
		case target.Datasource != chosen:
			wrong = append(wrong, "a question does not use the data source that the reader chooses")
		case strings.Contains(target.Expr, "rate(") && !strings.Contains(target.Expr, "[$__rate_interval]"):
			wrong = append(wrong, "rate() needs $__rate_interval, which fits the scrape interval")
		}
		for _, metric := range ofWeft.FindAllString(target.Expr, -1) {
			if !strings.Contains(metric, `job=~"$job"`) || !strings.Contains(metric, `instance=~"$instance"`) {
				wrong = append(wrong, fmt.Sprintf("%s is not of the job and the instance that the reader chooses", metric))
			}
		}
	}
	return wrong
}

// TestPanelsHavePlaces: none is over another, or wider than the page.
func TestPanelsHavePlaces(t *testing.T) {
	const width = 24
	taken := map[[2]int]string{}
	for _, p := range readDashboard(t).Panels {
		at := p.GridPos
		if at.X < 0 || at.X+at.W > width || at.W*at.H == 0 {
			t.Errorf("panel %q does not fit: %+v", p.Title, at)
		}
		for x := at.X; x < at.X+at.W; x++ {
			for y := at.Y; y < at.Y+at.H; y++ {
				if other := taken[[2]int{x, y}]; other != "" {
					t.Fatalf("panel %q is over %q", p.Title, other)
				}
				taken[[2]int{x, y}] = p.Title
			}
		}
	}
}

// TestWrongPanelsAreFound: the rules are asked.
func TestWrongPanelsAreFound(t *testing.T) {
	p := panel{Targets: []target{{"rate(x[5m])", source{"prometheus", "${datasource}"}},
		{"x", source{"prometheus", "abc"}}}}
	if wrong := wrongWith(p); len(wrong) != 5 {
		t.Errorf("found: %q", wrong)
	}
}

// TestDashboardsQuestionsAreRead: promtool takes each for a rule.
func TestDashboardsQuestionsAreRead(t *testing.T) {
	type recording struct {
		Record string `json:"record"`
		Expr   string `json:"expr"`
	}
	var rules []recording
	for _, p := range readDashboard(t).Panels {
		for i, target := range p.Targets {
			rules = append(rules, recording{fmt.Sprintf("panel:%d:%d", p.ID, i),
				strings.NewReplacer("$__rate_interval", "5m").Replace(target.Expr)})
		}
	}
	text, err := yaml.Marshal(map[string]any{"groups": []map[string]any{{"name": "dashboard", "rules": rules}}})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "rules.yaml")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	promtool(t, "check", "rules", file)
}
