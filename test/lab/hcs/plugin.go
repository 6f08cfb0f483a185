package hcs

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os/exec"
	"strings"
)

// Namespaces are those that pods have on a Windows node.
type Namespaces interface {
	AddNamespace(ctx context.Context, id, netns string) error
	DeleteNamespace(ctx context.Context, id string) error
}

// Plugin passes containerd's CNI calls on to a plugin for Windows. It is called as that plugin
// would be, with the path of a network namespace where a Windows containerd names an HCN one.
type Plugin struct {
	Namespaces Namespaces
	// Command runs the plugin.
	Command []string
	Stdin   io.Reader
	Stdout  io.Writer
	Stderr  io.Writer
}

// Run passes on the call that the environment describes, and returns the exit code.
func (p Plugin) Run(ctx context.Context, environ []string) int {
	config, err := io.ReadAll(p.Stdin)
	if err != nil {
		return p.fail(fmt.Errorf("read the network configuration: %w", err))
	}
	vars := map[string]string{}
	for _, v := range environ {
		key, value, _ := strings.Cut(v, "=")
		vars[key] = value
	}
	verb, netns, id := vars["CNI_COMMAND"], vars["CNI_NETNS"], NamespaceID(vars["CNI_CONTAINERID"])
	if verb == "ADD" {
		if err := p.Namespaces.AddNamespace(ctx, id, netns); err != nil {
			return p.fail(err)
		}
	}
	if netns != "" { // DEL comes without one when the namespace is gone
		environ = append(environ, "CNI_NETNS="+id)
	}
	if config, err = inConfig(config, id); err != nil {
		return p.fail(err)
	}
	out := &bytes.Buffer{}
	cmd := exec.CommandContext(ctx, p.Command[0], p.Command[1:]...)
	cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = environ, bytes.NewReader(config), out, p.Stderr
	if err := cmd.Run(); err != nil {
		if out.Len() == 0 { // the plugin has not come to say why
			return p.fail(fmt.Errorf("%s %s: %w", strings.Join(p.Command, " "), verb, err))
		}
		fmt.Fprint(p.Stdout, out)
		return max(1, cmd.ProcessState.ExitCode())
	}
	if verb == "DEL" { // as containerd does when the network is taken down
		if err := p.Namespaces.DeleteNamespace(ctx, id); err != nil {
			return p.fail(err)
		}
	}
	result, err := inResult(out.Bytes(), id, netns)
	if err != nil {
		return p.fail(err)
	}
	if _, err := p.Stdout.Write(result); err != nil {
		return 1
	}
	return 0
}

// tryAgainLater is CNI's code for a failure that may pass.
const tryAgainLater = 11

func (p Plugin) fail(err error) int {
	text, encoding := json.Marshal(map[string]any{"cniVersion": "1.0.0", "code": tryAgainLater, "msg": err.Error()})
	if encoding != nil { // it holds nothing that JSON cannot say
		panic(encoding)
	}
	fmt.Fprintln(p.Stdout, string(text))
	return 1
}

// inConfig names the HCN namespace wherever the previous result names a sandbox.
func inConfig(config []byte, id string) ([]byte, error) {
	var object map[string]json.RawMessage
	if err := json.Unmarshal(config, &object); err != nil {
		return nil, fmt.Errorf("the network configuration: %w", err)
	}
	previous, there := object["prevResult"]
	if !there {
		return config, nil
	}
	renamed, err := renameSandboxes(previous, func(string) string { return id })
	if err != nil {
		return nil, fmt.Errorf("prevResult of the network configuration: %w", err)
	}
	object["prevResult"] = renamed
	return json.Marshal(object)
}

// inResult is the inverse of inConfig. What is no JSON object, as nothing is, stays.
func inResult(result []byte, id, netns string) ([]byte, error) {
	if !bytes.HasPrefix(bytes.TrimSpace(result), []byte("{")) {
		return result, nil
	}
	return renameSandboxes(result, func(sandbox string) string {
		if strings.EqualFold(sandbox, id) {
			return netns
		}
		return sandbox
	})
}

// renameSandboxes of a CNI result's interfaces that have one.
func renameSandboxes(result []byte, rename func(string) string) ([]byte, error) {
	var object map[string]json.RawMessage
	if err := json.Unmarshal(result, &object); err != nil {
		return nil, err
	}
	var interfaces []map[string]any
	if text, there := object["interfaces"]; !there {
		return result, nil
	} else if err := json.Unmarshal(text, &interfaces); err != nil {
		return nil, fmt.Errorf("interfaces: %w", err)
	}
	for _, i := range interfaces {
		if sandbox, ok := i["sandbox"].(string); ok && sandbox != "" {
			i["sandbox"] = rename(sandbox)
		}
	}
	text, err := json.Marshal(interfaces)
	if err != nil {
		return nil, err
	}
	object["interfaces"] = text
	return json.Marshal(object)
}
