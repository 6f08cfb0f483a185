package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	api "github.com/weftnet/weft/models/api/observe/v1alpha1"
)

var update = flag.Bool("update", false, "write the golden files anew")

// runPolicy gives the exit code, 0 without an error, and what was printed, by whichever way.
func runPolicy(t *testing.T, in string, args ...string) (code int, printed string) {
	t.Helper()
	var out bytes.Buffer
	root := rootCommand()
	root.SetArgs(append([]string{"policy"}, args...))
	root.SetIn(strings.NewReader(in))
	root.SetOut(&out)
	root.SetErr(&out)
	cmd, err := root.ExecuteContextC(t.Context())
	var exit *exitError
	switch {
	case err == nil:
	case !errors.As(err, &exit):
		t.Fatalf("%v has no exit code", err)
	default:
		code = exit.code
		if exit.err != nil {
			out.WriteString("weft: " + exit.err.Error() + "\n")
		}
	}
	checkExit(t, cmd, code)
	return code, out.String()
}

// checkExit fails the test if a command that says its exit codes has ended with another one.
func checkExit(t *testing.T, cmd *cobra.Command, code int) {
	t.Helper()
	codes := exitCodes(cmd)
	if len(codes) > 0 && !slices.ContainsFunc(codes, func(c exitCode) bool { return c.number == code }) {
		t.Errorf("%s has ended with %d, and its help has no such code", cmd.CommandPath(), code)
	}
}

// golden compares a text with a file of testdata/policy.
func golden(t *testing.T, name, got string) {
	t.Helper()
	got = strings.ReplaceAll(got, `\`, "/") // paths on Windows
	file := filepath.Join("testdata", "policy", name+".golden")
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != strings.ReplaceAll(string(want), "\r\n", "\n") {
		t.Errorf("it is not as in %s (go test -update writes it anew):\n%s", file, got)
	}
}

func TestPolicyCheck(t *testing.T) {
	const shop = "-f testdata/policy/shop "
	for _, c := range []struct {
		name, args string
		code       int
	}{
		{"summary", shop, 0},
		{"allowed", shop + "--from prod/web --to prod/db:5432", 0},
		{"isolated", shop + "--from test/probe --to prod/db:5432", exitRefused},
		{"outside", shop + "--from prod/web --to 192.0.2.200:443", exitRefused},
		{"denied", shop + "--from test/probe --to prod/db:22/tcp", exitRefused},
		{"baseline", shop + "--from prod/web --to test/probe:53/udp --family ipv4", exitRefused},
		{"one-family", shop + "-f testdata/policy/families.yaml --from mixed/a --to mixed/b:80", exitRefused},
		{"met", shop + "--expect testdata/policy/reachability.txt", 0},
		{"unmet", shop + "--expect testdata/policy/unmet.txt", exitRefused},
		{"bad", "-f testdata/policy/bad", exitUnasked},
		{"unreadable", "-f testdata/policy/unreadable.yaml", exitUnasked},
		{"unclear", shop + "--expect testdata/policy/unclear.txt", exitUnasked},
	} {
		t.Run(c.name, func(t *testing.T) {
			code, printed := runPolicy(t, "", append([]string{"check"}, strings.Fields(c.args)...)...)
			if code != c.code {
				t.Errorf("exit code %d, not %d", code, c.code)
			}
			golden(t, c.name, printed)
		})
	}
}

func TestPolicyCheckReadsStandardInput(t *testing.T) {
	const pods = `{"apiVersion": "v1", "kind": "PodList", "items": [{"metadata": {"name": "a"}}, {"metadata": {"name": "b"}}]}`
	if code, printed := runPolicy(t, pods, "check", "-f", "-", "--from", "a", "--to", "b:80", "--namespace",
		"shop"); code != 0 ||
		!strings.HasPrefix(printed, "shop/a -> shop/b:80/tcp: allowed\n") || !strings.Contains(printed,
		"no policy selects it: allowed by default") {
		t.Errorf("exit code %d:\n%s", code, printed)
	}
}

// TestPolicyCheckOfAChange: what is not applied yet is read after what runs, and takes its place. A pipe that gives
// nothing is an error.
func TestPolicyCheckOfAChange(t *testing.T) {
	const runs = `{"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": {"namespace": "prod", "name": "db"}, "spec": {"podSelector": {"matchLabels": {"app": "db"}}}}`
	change := []string{"check", "-f", "-", "-f", "testdata/policy/shop", "--from", "prod/web", "--to", "prod/db:5432"}
	if code, printed := runPolicy(t, runs, change...); code != 0 || !strings.Contains(printed,
		"NetworkPolicy prod/db takes the place of the one at standard input:1\n") {
		t.Errorf("exit code %d:\n%s", code, printed)
	}
	if code, printed := runPolicy(t, "", change...); code != exitUnasked ||
		printed != "weft: standard input: has no object of Kubernetes\n" {
		t.Errorf("exit code %d:\n%s", code, printed)
	}
}

// TestPolicyCheckAsks for what an API server does, with the line of the field.
func TestPolicyCheckAsks(t *testing.T) {
	const policy = "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: a}\nspec:\n  podSelector: " +
		"{}\n  ingress:\n  - ports:\n    - port: \"80\"\n"
	const want = "standard input:8: error: NetworkPolicy default/a: Invalid: spec.ingress[0].ports[0].port: \"80\" " +
		"in quotes"
	if code, printed := runPolicy(t, policy, "check", "-f", "-"); code != exitUnasked || !strings.HasPrefix(printed,
		want) || !strings.HasSuffix(printed, "weft: 1 problem; see above\n") {
		t.Errorf("exit code %d:\n%s", code, printed)
	}
}

// TestPolicyMistakes: none gets as far as an answer, and each is told what is wrong.
func TestPolicyMistakes(t *testing.T) {
	const shop = "check -f testdata/policy/shop "
	t.Setenv("KUBECONFIG", serving(t, http.NotFound))
	for _, c := range []struct{ args, want string }{
		{"bogus", "bogus explain check hits"},
		{"chek -f x", "chek explain check hits"},
		{"--nosuch", "nosuch"},
		{"check", "filename"},
		{"check -f a.yaml b.yaml", "b.yaml -f directory"},
		{"check -f testdata/policy/nosuch.yaml", "nosuch.yaml"},
		{"check now -f x", "now"},
		{"check --nosuch", "nosuch"},
		{"check -f x --timeout 1s", "unknown flag --timeout"},
		{shop + "--from prod/web", "from, to: both"},
		{shop + "--from prod/web --to prod/db:1 --expect x", "expect from"},
		{shop + "--from prod/wep --to prod/db:1", "no pod prod/wep"},
		{shop + "--from prod/web --to svc/prod/web:80", "Service pods"},
		{shop + "--from prod/web --to 192.0.2.1:80 --family ipv6", "192.0.2.1 ipv6"},
		{shop + "--from prod/web --to prod/db:1 --family ipv5", "family ipv5"},
		{shop + "--from prod/web --to prod/db:1 --pod-cidrs 10.0.0.0", "pod-cidrs 10.0.0.0"},
		{shop + "--expect testdata/policy/nosuch.txt", "expect nosuch.txt"},
		{"check -f - --expect -", "expect standard input"},
		{"explain prod/web", "2 arg"},
		{"explain prod/web prod/db:80 --kubeconfig testdata/nosuch", "kubeconfig testdata/nosuch"},
		{"explain prod/web prod/db --context night", "prod/db port"},
		{"explain prod/web node/l1:22 --context night", "node/l1 address"},
		{"explain prod/web prod/db:80 --family all", "family all"},
		{"hits --kubeconfig testdata/nosuch", "kubeconfig testdata/nosuch"},
		{"hits --output xml", "output xml"},
		{"hits --timeout soon", "timeout soon"},
		{"hits now", "unknown command now"},
	} {
		t.Run(c.args, func(t *testing.T) {
			code, printed := runPolicy(t, "", strings.Fields(c.args)...)
			if code != exitUnasked {
				t.Errorf("exit code %d", code)
			}
			for word := range strings.FieldsSeq(c.want) {
				if !strings.Contains(printed, word) {
					t.Errorf("no word of %s in:\n%s", word, printed)
				}
			}
		})
	}
}

func TestPolicyHitsAreWritten(t *testing.T) {
	var text, written bytes.Buffer
	const answer = `{"kind":"PolicyHitsList","nodesAsked":3,"nodesUnanswered":1,"items":[
		{"policy":"NetworkPolicy prod/db","rule":"isolation from ingress","action":"Deny","packets":3,"bytes":222,"nodes":[{"node":"n1","packets":3,"bytes":222}]},
		{"policy":"NetworkPolicy prod/db","rule":"spec.ingress[0], port http (8080/tcp)","action":"Accept","packets":1152921504606846977,"bytes":1125899906842624,
		 "nodes":[{"node":"n1","packets":1152921504606846976,"bytes":1125899906842560},{"node":"w1","packets":1,"bytes":64}]}]}`
	list := &api.PolicyHitsList{}
	if err := errors.Join(json.Unmarshal([]byte(answer), list), writeHits(&text, list, false),
		writeHits(&text, list, true), writeJSONAnswer(&written, []byte(answer))); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		reasons []api.Unanswered
		want    string
	}{{nil, "1 of 3 nodes"}, {[]api.Unanswered{{Node: "n2", Reason: "it is off"}}, "node n2: it is off"}} {
		list.Unanswered = c.reasons
		if err := unanswered(list); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %q", err, c.want)
		}
	}
	if list.NodesUnanswered = 0; unanswered(list) != nil {
		t.Error("all have answered, and there is an error")
	}
	golden(t, "hits", text.String()+written.String())
}

// TestTheTutorialsChecks runs each `weft policy check` of docs/tutorial.md, whose output stands below it.
func TestTheTutorialsChecks(t *testing.T) {
	t.Chdir("../..")
	page, err := os.ReadFile("docs/tutorial.md")
	if err != nil {
		t.Fatal(err)
	}
	const block, command = "```\n", "$ bin/weft policy check "
	checks := 0
	for _, text := range strings.Split(strings.ReplaceAll(string(page), "\r\n", "\n"), block) {
		line, want, _ := strings.Cut(text, "\n")
		args, isCheck := strings.CutPrefix(line, command)
		if !isCheck {
			continue
		}
		checks++
		if _, printed := runPolicy(t, "", append([]string{"check"}, strings.Fields(args)...)...); printed != want {
			t.Errorf("%s\nprints\n%s\nand not\n%s", line, printed, want)
		}
	}
	if checks == 0 {
		t.Error("the tutorial checks no policy")
	}
}
