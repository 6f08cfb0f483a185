// Package prometheus runs Debian's Prometheus in tests, with the alerts of docs/monitoring.
package prometheus

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/weftnet/weft/node/nodetest"
	"github.com/weftnet/weft/test/freeport"
)

// Program is the path of one of Prometheus' programs: prometheus or promtool.
func Program(tb testing.TB, name string) string {
	tb.Helper()
	unpacked := filepath.Join(repository(tb), "bin", "lab", "prometheus", "usr", "bin", name)
	if _, err := os.Stat(unpacked); err == nil {
		return unpacked
	}
	path, err := exec.LookPath(name)
	if err != nil {
		tb.Fatalf("%s is not here: run `make prometheus`, or have it in PATH", name)
	}
	return path
}

// repository is the folder of go.mod.
func repository(tb testing.TB) string {
	tb.Helper()
	root, err := os.Getwd()
	if err != nil {
		tb.Fatal(err)
	}
	for root != "/" {
		if _, err := os.Stat(filepath.Join(root, "go.mod")); err == nil {
			return root
		}
		root = filepath.Dir(root)
	}
	tb.Fatal("the test does not run in the repository")
	return ""
}

// Rules are a file of rules.
type Rules struct {
	Groups []struct {
		Name  string `json:"name"`
		Rules []Rule `json:"rules"`
	} `json:"groups"`
}

// Rule is an alert.
type Rule struct {
	Alert       string            `json:"alert"`
	Expr        string            `json:"expr"`
	For         string            `json:"for,omitempty"`
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
}

// Alerts are those of docs/monitoring.
func Alerts(tb testing.TB) (r Rules) {
	tb.Helper()
	read(tb, filepath.Join(repository(tb), "docs", "monitoring", "alerts.yaml"), &r)
	return r
}

// read reads a file of YAML that has nothing but what the target knows.
func read(tb testing.TB, file string, target any) {
	tb.Helper()
	text, err := os.ReadFile(file)
	if err == nil {
		err = yaml.UnmarshalStrict(text, target)
	}
	if err != nil {
		tb.Fatalf("%s: %v", file, err)
	}
}

// Server is a Prometheus that scrapes each second.
type Server struct {
	tb      testing.TB
	address string
}

// Start scrapes targets, each HOST:PORT by the name of its job. The alerts are those of docs/monitoring, without a time
// for which their cause has to last.
func Start(tb testing.TB, targets map[string]string) *Server {
	tb.Helper()
	folder := tb.TempDir()
	rules := Alerts(tb)
	for _, group := range rules.Groups {
		for i := range group.Rules {
			group.Rules[i].For = ""
		}
	}
	type static struct {
		Targets []string `json:"targets"`
	}
	var jobs []map[string]any
	for job, address := range targets {
		jobs = append(jobs, map[string]any{"job_name": job, "static_configs": []static{{[]string{address}}}})
	}
	write(tb, filepath.Join(folder, "alerts.yaml"), rules)
	write(tb, filepath.Join(folder, "prometheus.yaml"), map[string]any{"scrape_configs": jobs,
		"global":     map[string]string{"scrape_interval": "1s", "evaluation_interval": "1s"},
		"rule_files": []string{"alerts.yaml"}})
	s := &Server{tb, freeport.Address(tb)}
	log, err := os.Create(filepath.Join(folder, "log"))
	if err != nil {
		tb.Fatal(err)
	}
	defer log.Close()
	command := exec.Command(Program(tb, "prometheus"), "--config.file="+filepath.Join(folder, "prometheus.yaml"),
		"--storage.tsdb.path="+filepath.Join(folder, "data"), "--web.listen-address="+s.address)
	command.Stdout, command.Stderr = log, log
	if err := command.Start(); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		_ = command.Process.Kill()
		_ = command.Wait() // how it ends is of no matter: it was killed
		if text, err := os.ReadFile(log.Name()); err == nil && tb.Failed() {
			tb.Logf("Prometheus:\n%s", text)
		}
	})
	return s
}

func write(tb testing.TB, file string, content any) {
	tb.Helper()
	text, err := yaml.Marshal(content)
	if err == nil {
		err = os.WriteFile(file, text, 0o600)
	}
	if err != nil {
		tb.Fatal(err)
	}
}

// Await waits until an alert fires with the labels, and returns its summary.
func (s *Server) Await(alert string, labels map[string]string) (summary string) {
	s.tb.Helper()
	s.await(func(firing []firing) error {
		for _, f := range firing {
			if f.is(alert, labels) {
				summary = f.Annotations["summary"]
				return nil
			}
		}
		return fmt.Errorf("%s does not fire for %v; these do: %v", alert, labels, firing)
	})
	return summary
}

// AwaitEnd waits until an alert does not fire with the labels, and all targets are scraped.
func (s *Server) AwaitEnd(alert string, labels map[string]string) {
	s.tb.Helper()
	s.await(func(firing []firing) error {
		for _, f := range firing {
			if f.is(alert, labels) || f.is("WeftTargetDown", nil) {
				return fmt.Errorf("%v fires", f.Labels)
			}
		}
		return nil
	})
}

// firing is an alert that fires.
type firing struct {
	Labels, Annotations map[string]string
	State               string
}

func (f firing) is(alert string, labels map[string]string) bool {
	for name, value := range labels {
		if f.Labels[name] != value {
			return false
		}
	}
	return f.State == "firing" && f.Labels["alertname"] == alert
}

// await waits for a state of the alerts. Before something was scraped there is none.
func (s *Server) await(condition func([]firing) error) {
	s.tb.Helper()
	nodetest.Eventually(s.tb, 20*time.Second, func() error {
		var scraped struct{ Data struct{ Result []any } }
		const query = "max_over_time(scrape_samples_scraped[1h]) > 0"
		if err := s.get("/api/v1/query?query="+url.QueryEscape(query), &scraped); err != nil {
			return err
		}
		if len(scraped.Data.Result) == 0 {
			return errors.New("nothing was scraped yet")
		}
		var answer struct{ Data struct{ Alerts []firing } }
		if err := s.get("/api/v1/alerts", &answer); err != nil {
			return err
		}
		return condition(answer.Data.Alerts)
	})
}

func (s *Server) get(path string, answer any) error {
	response, err := http.Get("http://" + s.address + path)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", path, response.Status)
	}
	return json.NewDecoder(response.Body).Decode(answer)
}
