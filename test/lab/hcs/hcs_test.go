package hcs

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// story is an HNS that remembers what it was told.
type story struct {
	told []string
	err  error
}

func (s *story) tell(words ...string) error {
	s.told = append(s.told, strings.Join(words, " "))
	return s.err
}

func (s *story) AddNamespace(_ context.Context, id, netns string) error {
	return s.tell("add", id, netns)
}
func (s *story) DeleteNamespace(_ context.Context, id string) error { return s.tell("delete", id) }
func (s *story) Start(_ context.Context, id string) error           { return s.tell("start", id) }
func (s *story) Stop(_ context.Context, id string) error            { return s.tell("stop", id) }

const (
	sandbox = "8f14e45fceea167a"
	netns   = "/var/run/netns/cni-1234"
)

func TestNamespaceIDsAreGUIDsAndStay(t *testing.T) {
	id := NamespaceID(sandbox)
	if !regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`).MatchString(id) {
		t.Errorf("%s is no random GUID", id)
	}
	if NamespaceID(sandbox) != id || NamespaceID("other") == id {
		t.Error("an ID does not follow from the sandbox's alone")
	}
}

// run calls a plugin that is a shell script, as containerd would.
func run(t *testing.T, hns *story, script, config string, environ ...string) (out string, code int) {
	t.Helper()
	stdout := &bytes.Buffer{}
	p := Plugin{Namespaces: hns, Command: []string{"sh", "-c", script}, Stdin: strings.NewReader(config), Stdout: stdout,
		Stderr: os.Stderr}
	code = p.Run(t.Context(), append([]string{"PATH=" + os.Getenv("PATH"), "CNI_CONTAINERID=" + sandbox}, environ...))
	return stdout.String(), code
}

func TestAddNamesTheNamespaceToThePluginAndTheSandboxToContainerd(t *testing.T) {
	hns := &story{}
	out, code := run(t, hns,
		`printf '{"interfaces":[{"name":"eth0","sandbox":"%s"},{"name":"host"}],"ips":[]}' "$(echo $CNI_NETNS | tr a-f A-F)"`,
		`{"name":"weft"}`, "CNI_COMMAND=ADD", "CNI_NETNS="+netns)
	if want := `{"interfaces":[{"name":"eth0","sandbox":"` + netns + `"},{"name":"host"}],"ips":[]}`; out != want ||
		code != 0 {
		t.Errorf("the result is %d, %s; want %s", code, out, want)
	}
	if want := []string{"add " + NamespaceID(sandbox) + " " + netns}; !slices.Equal(hns.told, want) {
		t.Errorf("HNS was told %q, want %q", hns.told, want)
	}
}

func TestPreviousResultsNameTheNamespace(t *testing.T) {
	// The plugin answers with what it was given.
	script := `cat`
	config := `{"name":"weft","prevResult":{"interfaces":[{"name":"eth0","sandbox":"` + netns + `"}]}}`
	out, code := run(t, &story{}, script, config, "CNI_COMMAND=CHECK", "CNI_NETNS="+netns)
	if want := `{"name":"weft","prevResult":{"interfaces":[{"name":"eth0","sandbox":"` + NamespaceID(sandbox) +
		`"}]}}`; out != want || code != 0 {
		t.Errorf("the plugin got %s (%d), want %s", out, code, want)
	}
}

func TestDelRemovesTheNamespaceAfterwards(t *testing.T) {
	for name, c := range map[string]struct {
		script string
		code   int
		told   []string
	}{
		"done":   {`[ -z "$CNI_NETNS" ]`, 0, []string{"delete " + NamespaceID(sandbox)}},
		"failed": {`echo '{"code":11}'; exit 1`, 1, nil},
	} {
		hns := &story{}
		if _, code := run(t, hns, c.script, `{}`, "CNI_COMMAND=DEL", "CNI_NETNS="); code != c.code ||
			!slices.Equal(hns.told, c.told) {
			t.Errorf("%s: %d, and HNS was told %q", name, code, hns.told)
		}
	}
}

func TestFailuresAreCNIErrors(t *testing.T) {
	for name, c := range map[string]struct {
		hns           error
		config        string
		script, wants string
	}{
		"of the plugin": {nil, `{}`, `echo '{"code":7,"msg":"bad config"}'; exit 1`,
			`{"code":7,"msg":"bad config"}`},
		"of HNS":                        {errors.New("HNS hangs"), `{}`, `echo never; exit 0`, "HNS hangs"},
		"of a plugin that cannot run":   {nil, `{}`, `exit 126`, "exit status 126"},
		"of a configuration":            {nil, `no JSON`, `exit 0`, "the network configuration"},
		"of a result that is cut short": {nil, `{}`, `echo '{"interfaces":'`, "unexpected end"},
	} {
		out, code := run(t, &story{err: c.hns}, c.script, c.config, "CNI_COMMAND=ADD", "CNI_NETNS="+netns)
		if code == 0 || !strings.Contains(out, c.wants) || !strings.Contains(out, `"code"`) {
			t.Errorf("%s: %d, %s", name, code, out)
		}
	}
}

func TestHNSHearsOfPodsFirstContainersOnly(t *testing.T) {
	const pod = `{"annotations":{"io.kubernetes.cri.container-type":"sandbox"},"linux":{"namespaces":[{"type":"network","path":"/var/run/netns/x"}]}}`
	for name, c := range map[string]struct{ config, args, want string }{
		"a sandbox starts":  {pod, "--log /x start ID", "start"},
		"a sandbox goes":    {pod, "delete --force ID", "stop"},
		"a sandbox is made": {pod, "create --bundle /x ID", ""},
		"one on the host's network": {
			`{"annotations":{"io.kubernetes.cri.container-type":"sandbox"},"linux":{"namespaces":[{"type":"pid"}]}}`, "start ID",
			""},
		"another container of the pod": {
			`{"annotations":{"io.kubernetes.cri.container-type":"container"},"linux":{"namespaces":[{"type":"network","path":"/x"}]}}`, "start ID", ""},
		"one that containerd has lost":  {"", "delete ID", ""},
		"runc is asked for its version": {"", "--version", ""},
	} {
		bundles := t.TempDir()
		if c.config != "" {
			if err := os.Mkdir(filepath.Join(bundles, "ID"), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(bundles, "ID", "config.json"), []byte(c.config), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		hns := &story{}
		if err := BeforeRunc(t.Context(), hns, bundles, strings.Fields(c.args)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		var want []string
		if c.want != "" {
			want = []string{c.want + " " + NamespaceID("ID")}
		}
		if !slices.Equal(hns.told, want) {
			t.Errorf("%s: HNS was told %q, want %q", name, hns.told, want)
		}
	}
}
