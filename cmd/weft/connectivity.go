package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/weftnet/weft/connectivity"
	"github.com/weftnet/weft/node/doctor"
)

// exitNotPassed ends a test of the network that has found a fault.
const exitNotPassed = 1

func connectivityCommand() *cobra.Command {
	return group("connectivity", "Try the network with pods", doctor.ExitNotAsked, connectivityTestCommand())
}

const connectivityHelp = `Test the network by pods on nodes of both systems, which ask each other in every way.

It makes a namespace of its own with a unique name, whose pods run the image agnhost of Kubernetes' own tests. They are
asked by the API server's proxy of pods, so a kubeconfig and rights of Kubernetes are all that it needs
(docs/operations.md has the ClusterRole). Without --nodes it takes at most two nodes of each system, which are Ready and
not cordoned.

The ways: from pod to pod on the same node, on another one, and on one of the other system, by TCP and UDP; large
answers and datagrams; ClusterIPs, NodePorts of each node, and those of a Service with externalTrafficPolicy Local; from
pods to hosts, and from hosts to pods; what a NetworkPolicy allows and refuses; the cluster's DNS; and with --outside a
server outside. It asks by each address family that the cluster's Services have.

The table says how many questions of each way have passed. Those of the column AGAIN have passed when they were asked
once more. Below the table are the questions that have failed, and what was left out. The namespace is removed in the
end, also after an interrupt. A second interrupt leaves it.`

func connectivityTestCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "test",
		Short:   "Run pods on nodes of both systems, and test all ways between them",
		Long:    connectivityHelp,
		Example: "  weft connectivity test\n  weft connectivity test --nodes l1,w1 --outside 203.0.113.7:80",
	}
	endsWith(cmd, exitCode{doctor.ExitOK, "all connections that were tested have passed"},
		exitCode{exitNotPassed, "a connection has failed, or the test could not remove its namespace from the cluster"},
		exitCode{doctor.ExitNotAsked, "there is no report; the error says why"})
	f := cmd.Flags()
	contextFlags(f)
	f.StringP("output", "o", "text", "form of the report: text, json or yaml")
	f.StringSlice("nodes", nil, "nodes to test, cordoned and tainted ones too; empty: up to two of each system that are "+
		"Ready and not cordoned")
	f.Int("max-nodes", 8, "how many nodes are tested at most; twice as many nodes mean four times as many "+
		"connections")
	f.String("image", "registry.k8s.io/e2e-test-images/agnhost:2.59", "image of agnhost for Linux nodes")
	f.String("windows-image", "", "image of agnhost for Windows nodes; empty: that of the key image")
	f.String("outside", "", "HOST:PORT of an HTTP server outside, which pods ask; empty: none is asked")
	f.Bool("host-network", true, "run a pod in the host's network of each Linux node, to test connections from "+
		"hosts. The namespace then has Pod Security's level privileged, and otherwise restricted")
	f.Int("host-port", 18080, "port of these pods on the hosts; no other program of the hosts may use it")
	f.Duration("start-timeout", 10*time.Minute, "how long the pods may take to start, with the pull of their images")
	f.Bool("keep", false, "leave the namespace and its pods, to look at them")
	return answering(cmd, doctor.ExitNotAsked, cobra.NoArgs, func(_ context.Context, s *settings, _ []string) error {
		write, known := connectivityForms[s.text("output")]
		options, err := connectivityOptions(s)
		switch {
		case err != nil:
			return err
		case !known:
			return fmt.Errorf("output: %q is none of \"text\", \"json\" and \"yaml\"", s.text("output"))
		}
		test, err := newConnectivityTest(s, cmd.ErrOrStderr())
		if err != nil {
			return err
		}
		test.Options = options
		return runConnectivityTest(cmd, test, write) // for longer than databases may take
	})
}

func connectivityOptions(s *settings) (connectivity.Options, error) {
	o := connectivity.Options{Nodes: s.list("nodes"), MaxNodes: s.integer("max-nodes"), Image: s.text("image"),
		Outside: s.text("outside"), HostNetwork: s.boolean("host-network"), HostPort: s.integer("host-port"),
		StartTimeout: s.duration("start-timeout"), Keep: s.boolean("keep")}
	o.WindowsImage = cmp.Or(s.text("windows-image"), o.Image)
	return o, errors.Join(s.err(), o.Check())
}

// newConnectivityTest asks the cluster of the kubeconfig, and tells of its progress.
func newConnectivityTest(s *settings, progress io.Writer) (*connectivity.Test, error) {
	config, _, err := contextConfig(s)
	if err != nil {
		return nil, err
	}
	config.QPS, config.Timeout = -1, s.duration("timeout")
	config.WarningHandler = rest.NewWarningWriter(progress, rest.WarningWriterOptions{Deduplicate: true})
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	lines := log.New(progress, "", 0) // several questions are asked at once
	return &connectivity.Test{Client: client, Asker: connectivity.Proxy{Client: client.CoreV1().RESTClient()},
		Say: func(format string, args ...any) { lines.Print(shown(fmt.Sprintf(format, args...))) }}, s.err()
}

// connectivityForms write a report.
var connectivityForms = map[string]func(w screen, r *connectivity.Report) error{
	"text": writeConnectivity,
	"json": func(w screen, r *connectivity.Report) error {
		encoder := json.NewEncoder(w)
		encoder.SetIndent("", "  ")
		return encoder.Encode(r)
	},
	"yaml": func(w screen, r *connectivity.Report) error {
		text, err := yaml.Marshal(r)
		if err == nil {
			_, err = fmt.Fprintf(w, "---\n%s", text)
		}
		return err
	},
}

// runConnectivityTest ends with the exit code of what the report says.
func runConnectivityTest(cmd *cobra.Command, test *connectivity.Test,
	write func(screen, *connectivity.Report) error) error {
	stop := context.AfterFunc(cmd.Context(), func() {
		test.Say("interrupted; a second interrupt ends at once, and removes nothing")
		signal.Reset(os.Interrupt, syscall.SIGTERM)
	})
	defer stop()
	report, err := test.Run(cmd.Context())
	if report == nil {
		return err
	}
	if err := write(newScreen(cmd.OutOrStdout()), report); err != nil {
		return err
	}
	if err != nil || report.Result != connectivity.Passed {
		return &exitError{exitNotPassed, err}
	}
	return nil
}
