//go:build ansible

package windows

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// option is what ansible-doc says of a module's option.
type option struct {
	Type, Elements string
	Required       bool
	Choices        any
	Aliases        []string
}

// documented are the modules' options by name, aliases too.
func documented(t *testing.T, modules []string) map[string]map[string]option {
	t.Helper()
	cmd := exec.Command("ansible-doc", append([]string{"-j"}, modules...)...)
	cmd.Env = append(os.Environ(), ansibleConfig(t), "LC_ALL=C.UTF-8")
	output, err := cmd.Output()
	check(t, err)
	var answer map[string]struct {
		Doc struct{ Options map[string]option }
	}
	check(t, json.Unmarshal(output, &answer))
	found := map[string]map[string]option{}
	for _, module := range modules {
		entry, known := answer[module]
		if !known {
			t.Fatalf("ansible-doc does not know %s", module)
		}
		found[module] = map[string]option{}
		for name, o := range entry.Doc.Options {
			found[module][name] = o
			for _, alias := range o.Aliases {
				found[module][alias] = option{Type: o.Type, Elements: o.Elements, Choices: o.Choices}
			}
		}
	}
	return found
}

// fits: the value is of the option's type and among its choices. A text is taken for a number or a truth value, as
// modules do.
func (o option) fits(v any) string {
	if v == nil {
		return ""
	}
	if s, templated := v.(string); templated && strings.Contains(s, "{{") {
		return ""
	}
	if choices := texts(o.Choices); len(choices) > 0 && o.Type != "list" && !slices.Contains(choices, text(v)) &&
		o.Type != "bool" {
		return "is none of " + strings.Join(choices, ", ")
	}
	ok := true
	switch o.Type {
	case "int", "float":
		_, err := strconv.ParseFloat(text(v), 64)
		ok = err == nil
	case "bool":
		ok = slices.Contains([]string{"true", "false", "yes", "no", "True", "False"}, text(v))
	case "list":
		items, isList := v.([]any)
		ok = isList || o.Elements == "str" || o.Elements == ""
		for _, item := range items {
			if problem := (option{Type: o.Elements, Choices: o.Choices}).fits(item); problem != "" {
				return "has an item that " + problem
			}
		}
	case "dict":
		_, ok = v.(map[string]any)
	case "str", "path":
		switch v.(type) {
		case map[string]any, []any:
			ok = false
		}
	}
	if !ok {
		return "is no " + o.Type
	}
	return ""
}

// internal are options that action plugins add for their module.
var internal = map[string][]string{
	"win_copy":     {"files", "directories", "symlinks", "_copy_mode", "_original_basename"},
	"async_status": {"_async_dir"},
}

// arguments compares every module that was run with its documentation.
func (b *bench) arguments(t *testing.T) {
	t.Helper()
	names := map[string]string{"win_firewall_rule": "community.windows.", "win_unzip": "community.windows.",
		"async_status": "ansible.builtin.", "ping": "ansible.builtin.", "win_ping": "ansible.windows."}
	qualified := func(name string) string {
		if prefix, ok := names[name]; ok {
			return prefix + name
		}
		return "ansible.windows." + name
	}
	used := []string{}
	for _, m := range b.machines {
		for _, c := range m.calls {
			if name := qualified(c.module); !slices.Contains(used, name) {
				used = append(used, name)
			}
		}
	}
	if len(used) < 12 {
		t.Errorf("only %v were run", used)
	}
	docs := documented(t, used)
	for _, m := range b.machines {
		for _, c := range m.calls {
			compare(t, m.name+": "+c.module, docs[qualified(c.module)], c.args, internal[c.module], true)
		}
	}
}

func compare(t *testing.T, what string, options map[string]option, args map[string]any, more []string, whole bool) {
	t.Helper()
	for name, v := range args {
		o, known := options[name]
		switch {
		case !known && !slices.Contains(more, name):
			t.Errorf("%s has no option %s", what, name)
		case known:
			if problem := o.fits(v); problem != "" {
				t.Errorf("%s: %s=%v %s", what, name, v, problem)
			}
		}
	}
	for name, o := range options {
		if o.Required && args[name] == nil && !slices.ContainsFunc(o.Aliases, func(alias string) bool {
			return args[alias] != nil
		}) && whole {
			t.Errorf("%s lacks %s", what, name)
		}
	}
}

// TestEveryTaskHasOptionsThatExist compares what is written in the roles, for tasks that no test runs and action
// plugins that run no module of their name.
func TestEveryTaskHasOptionsThatExist(t *testing.T) {
	files, err := filepath.Glob("../../../ansible/roles/*windows/tasks/*.yml")
	check(t, err)
	type task struct {
		where, module string
		args          map[string]any
	}
	var tasks []task
	modules := []string{}
	var walk func(where string, items []any)
	walk = func(where string, items []any) {
		for _, item := range items {
			fields, ok := item.(map[string]any)
			if !ok {
				t.Fatalf("%s: a task that is none: %v", where, item)
			}
			for name, v := range fields {
				args, isMap := v.(map[string]any)
				switch {
				case name == "block" || name == "rescue" || name == "always":
					walk(where, v.([]any))
				case strings.Count(name, ".") == 2 && isMap && !strings.HasSuffix(name, ".set_fact"):
					tasks = append(tasks, task{where + ": " + text(fields["name"]), name, args})
					if !slices.Contains(modules, name) {
						modules = append(modules, name)
					}
				}
			}
		}
	}
	for _, file := range files {
		content, err := os.ReadFile(file)
		check(t, err)
		var items []any
		check(t, yaml.Unmarshal(content, &items))
		walk(filepath.Base(file), items)
	}
	if len(tasks) < 60 {
		t.Errorf("only %d tasks were found", len(tasks))
	}
	docs := documented(t, modules)
	for _, one := range tasks {
		compare(t, one.where, docs[one.module], one.args, nil, true)
	}
}
