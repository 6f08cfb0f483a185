package main

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/weftnet/weft/node/nodeconfig"
	"github.com/weftnet/weft/node/nodetest"
)

const goodNode = "--node-name=w1 --ovn-southbound=ssl:192.0.2.1:6642 --encap-address=192.0.2.10 --tunnel-ca=a " +
	"--tunnel-certificate=b --tunnel-private-key=c"

// TestCommandsRefuseWhatTheyCannotWorkWith runs the real commands; none gets as far as a connection.
func TestCommandsRefuseWhatTheyCannotWorkWith(t *testing.T) {
	for _, c := range []struct {
		args, want string // want: words that the error has
	}{
		{"node --node-name=w1", "ovn-southbound encap-address tunnel-ca tunnel-certificate tunnel-private-key"},
		{"node " + goodNode + " --gateway=all", "gateway all"},
		{"node " + goodNode + " --gateway=shared --gateway-addresses=192.0.2.110/24", "gateway-addresses shared"},
		{"node " + goodNode + " --gateway=none --chassis=both", "chassis both"},
		{"node " + goodNode + " --gateway=none --cni-socket=C:\\weft.sock", "cni-socket pipe"},
		{"node " + goodNode + " --gateway=none --ovs-database=tcp:127.0.0.1:16640", "ovs-openflow"},
		{"node " + goodNode + " --gateway=none --state-dir=weft", "state-dir"},
		{"node " + goodNode + " --gateway=none --conntrack-lookup=sometimes", "conntrack-lookup sometimes auto true false"},
		{"node " + goodNode + " --gateway=none --conntrack-lookup=", "conntrack-lookup auto"},
		{"node " + goodNode + " --gateway-bridge=br-ex", "gateway-bridge"},
		{"node " + goodNode + " --gateway=none --service", "service start"},
		{"node release now", "unknown command now"},
		{"node release --state-dir=weft --cni-socket=C:\\weft.sock", "release uplink"},
		{"service start --ready=soon", "ready soon"},
		{"service remove", "unknown command remove"},
		{"service install -- --node-name=w1", "ovn-southbound"},
		{"service install -- " + goodNode + " --gateway=none --service", "--service goes without saying"},
		{"service install -- " + goodNode + " --gateway=none now", "now"},
		{"service install -- --no-such-key", "no-such-key"},
	} {
		t.Run(c.args, func(t *testing.T) {
			root := rootCommand()
			root.SetArgs(strings.Fields(c.args))
			root.SetOut(io.Discard)
			root.SetErr(io.Discard)
			err := root.ExecuteContext(t.Context())
			if err == nil {
				t.Fatal("no error")
			}
			for word := range strings.FieldsSeq(c.want) {
				if !strings.Contains(err.Error(), word) {
					t.Errorf("no word of %s in:\n%v", word, err)
				}
			}
		})
	}
}

// documented is a command of weft.exe in a document, up to what the shell takes or the text goes on with.
var documented = regexp.MustCompile("weft\\.exe ([a-z](?:[^`|>#\\n ]| [^`|>#\\n ])*)")

// accepts says why a command line would be refused before the command does anything.
func accepts(words []string) (*cobra.Command, error) {
	cmd, args, err := rootCommand().Find(words)
	if err != nil {
		return nil, err
	}
	if err := cmd.ParseFlags(args); err != nil {
		return nil, err
	}
	if !cmd.Runnable() {
		return nil, errors.New("it is no command of its own")
	}
	return cmd, cmd.ValidateArgs(cmd.Flags().Args())
}

// TestDocumentedCommandsAreThere: weft.exe takes each command that the pages on Windows nodes name.
func TestDocumentedCommandsAreThere(t *testing.T) {
	var pages []byte
	for _, page := range []string{"windows.md", "windows-driver.md"} {
		text, err := os.ReadFile("../../docs/" + page)
		if err != nil {
			t.Fatal(err)
		}
		pages = append(pages, text...)
	}
	found := documented.FindAllStringSubmatch(string(pages), -1)
	if len(found) < 10 {
		t.Fatalf("the document has only %d commands", len(found))
	}
	for _, m := range found {
		if _, err := accepts(strings.Fields(m[1])); err != nil {
			t.Errorf("weft.exe %s: %v", m[1], err)
		}
	}
}

// TestTheTrialsCommands goes through the steps of docs/windows.md's first trial. Each command can be typed as it
// stands: the agent's keys that it needs are in the file that it names, which is the whole one that the page links.
func TestTheTrialsCommands(t *testing.T) {
	trial := section(t, "### A first trial, step by step")
	var verbs []string
	for _, m := range documented.FindAllStringSubmatch(trial, -1) {
		line := strings.ReplaceAll(m[1], `C:\ProgramData\weft\weft.yaml`, "../../test/ansible/windows/testdata/weft.yaml")
		cmd, err := accepts(strings.Fields(line))
		if err != nil {
			t.Errorf("weft.exe %s: %v", m[1], err)
			continue
		}
		verb := strings.TrimPrefix(cmd.CommandPath(), "weft ")
		verbs = append(verbs, verb)
		switch verb {
		case "service install":
			_, err = checkArguments(cmd.Flags().Args())
		case "node release":
			var s *settings
			if s, err = loadSettings(cmd); err == nil {
				_, err = nodeConfig(s)
			}
		}
		if err != nil {
			t.Errorf("weft.exe %s: %v", m[1], err)
		}
	}
	want := []string{"doctor", "doctor", "service install", "service start", "service stop", "node release",
		"service start", "service uninstall"}
	if !slices.Equal(verbs, want) {
		t.Errorf("the trial's commands are %q, want %q", verbs, want)
	}
}

// The key conntrack-lookup was a boolean once, and takes what it took then.
func TestConntrackLookupIsReadInAllWays(t *testing.T) {
	for text, want := range map[string]string{
		"": nodeconfig.LookupAuto, "--conntrack-lookup": nodeconfig.LookupOn, "--conntrack-lookup=true": nodeconfig.LookupOn,
		"--conntrack-lookup=1":     nodeconfig.LookupOn,
		"--conntrack-lookup=false": nodeconfig.LookupOff, "--conntrack-lookup=auto": nodeconfig.LookupAuto,
		"conntrack-lookup: auto": nodeconfig.LookupAuto, "conntrack-lookup: true": nodeconfig.LookupOn,
		"conntrack-lookup: false":   nodeconfig.LookupOff,
		"conntrack-lookup: 'false'": nodeconfig.LookupOff,
	} {
		t.Run(text, func(t *testing.T) {
			if config, err := readSystemConfig(t, text); err != nil || config.ConntrackLookup != want {
				t.Errorf("%q, %v; want %q", config.ConntrackLookup, err, want)
			}
		})
	}
}

// readSystemConfig reads a flag, or a file of that text.
func readSystemConfig(t *testing.T, text string) (config nodeconfig.Config, err error) {
	t.Helper()
	args := []string{text}
	if !strings.HasPrefix(text, "--") {
		file := filepath.Join(nodetest.Folder(t), "weft.yaml")
		if err := os.WriteFile(file, []byte(text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		args = []string{"--config", file}
	}
	cmd := &cobra.Command{Use: "try"}
	cmd.Flags().String("config", "", "")
	systemFlags(cmd.Flags(), nodeconfig.Default())
	if err := cmd.ParseFlags(args); err != nil {
		t.Fatal(err)
	}
	s, err := loadSettings(cmd)
	if err != nil {
		t.Fatal(err)
	}
	systemConfig(s, &config)
	return config, s.err()
}

// FTP and TFTP pass only where the node is told so.
func TestConntrackFTPIsRead(t *testing.T) {
	for text, want := range map[string]bool{"": false, "--conntrack-ftp": true, "conntrack-ftp: true": true} {
		if config, err := readSystemConfig(t, text); err != nil || config.ConntrackFTP != want {
			t.Errorf("%q: %t, %v", text, config.ConntrackFTP, err)
		}
	}
}

func TestServicesCommandLineIsQuoted(t *testing.T) {
	got := commandLine(`C:\Program Files\weft\weft.exe`,
		[]string{"node", "--service", `--config=C:\Program Data\weft.yaml`, `--node-name=a"b`})
	want := `"C:\Program Files\weft\weft.exe" node --service "--config=C:\Program Data\weft.yaml" --node-name=a\"b`
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
