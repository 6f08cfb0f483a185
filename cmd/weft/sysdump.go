package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	api "github.com/weftnet/weft/models/api/observe/v1alpha1"
	"github.com/weftnet/weft/models/hostfile"
	"github.com/weftnet/weft/models/version"
	"github.com/weftnet/weft/node/doctor"
	"github.com/weftnet/weft/ovn/observe/sysdump"
)

const sysdumpHelp = `Collect what support needs of a cluster into one archive, a .tar.gz.

The archive has what weft status, version and topology say; Nodes, Weft's objects, policies, Leases and Weft's Events; both
databases of OVN; the metrics of nodes' agents; and the logs of Weft's pods, where its programs are pods. Its index.json
says what is there, and what is missing and why. Progress is on standard error.

It needs a kubeconfig, and the ClusterRole ` + api.NetworkDumpRole + ` by a ClusterRoleBinding for what weft observe tells, and
rights to list and get the rest, as a cluster administrator has. What the user may not read is missing.

Secrets and ConfigMaps are not read, and of a pod's spec only the node's name is kept. Of annotations only those of
weft.net/ have their values. Values with the name of a secret, and texts that look like keys, tokens or passwords, are
left out. Other secrets may be there, and names and addresses are: read the archive before you hand it on.

An archive has 1 GiB at most before it is compressed.`

// sysdumpTime is how long all of it may take.
const sysdumpTime = 10 * time.Minute

func sysdumpCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "sysdump",
		Short:   "Collect what support needs into one archive, and leave out secrets that it recognizes",
		Long:    sysdumpHelp,
		Example: "  weft sysdump\n  weft sysdump --file case-17.tar.gz --context production",
	}
	endsWith(cmd, exitCode{doctor.ExitOK, "the archive has everything"},
		exitCode{doctor.ExitWarning, "something is missing in the archive; standard error and index.json say what"},
		exitCode{doctor.ExitNotAsked, "there is no archive; the error says why"})
	f := cmd.Flags()
	contextFlags(f)
	f.String("file", "", "the archive, which must not be there yet; empty: weft-sysdump-TIME.tar.gz in this folder; -: "+
		"standard output")
	answering(cmd, doctor.ExitNotAsked, cobra.NoArgs, func(ctx context.Context, s *settings, _ []string) error {
		name := "weft-sysdump-" + time.Now().UTC().Format("20060102-150405")
		file := s.text("file")
		config, _, err := contextConfig(s)
		if err != nil {
			return err
		}
		if file == "-" {
			return collect(ctx, config, name, cmd.OutOrStdout(), cmd.ErrOrStderr())
		}
		if file == "" {
			file = name + ".tar.gz"
		}
		return collectInto(ctx, config, name, file, cmd.ErrOrStderr())
	})
	timeout := f.Lookup("timeout")
	timeout.DefValue, timeout.Usage = sysdumpTime.String(), "how long all of it may take"
	_ = timeout.Value.Set(timeout.DefValue) // it is a duration
	return cmd
}

var sysdumpFile = &hostfile.File{
	Path: "{file}", Mode: 0o600,
	Content: "What support needs, without secrets that `weft sysdump` recognizes. Names and addresses are in it.",
	Loss:    "Collect it again.",
}

// collectInto makes a file that only its owner reads, and removes it again if there is no archive in it.
func collectInto(ctx context.Context, config *rest.Config, name, file string, errs io.Writer) error {
	out, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, sysdumpFile.Mode)
	if err != nil {
		return fmt.Errorf("file: %w; name one that is not there yet", err)
	}
	err = collect(ctx, config, name, out, errs)
	err = errors.Join(err, out.Close())
	var exit *exitError
	if err != nil && !errors.As(err, &exit) {
		return errors.Join(err, os.Remove(file))
	}
	fmt.Fprintf(errs, "The archive is %s. It has names and addresses: read it before you hand it on.\n", file)
	return err
}

// collect writes the archive, and tells what it does. Its error is an [exitError] if something is missing.
func collect(ctx context.Context, config *rest.Config, name string, to, errs io.Writer) error {
	config = rest.CopyConfig(config)
	config.QPS = -1 // one request at a time
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	if _, err := client.Discovery().ServerVersion(); err != nil {
		return fmt.Errorf("ask the API server: %w", err)
	}
	collector := sysdump.Collector{Kubernetes: client.RESTClient(), Version: version.Version(), Folder: name,
		Progress: func(e sysdump.Entry) {
			if e.Bytes > 0 {
				fmt.Fprintf(errs, "%10d  %s\n", e.Bytes, shown(e.File))
			}
			if e.Error != "" {
				fmt.Fprintf(errs, "   missing  %s: %s\n", shown(e.File), shown(e.Error))
			}
		}}
	index, err := collector.Collect(ctx, to)
	if err != nil {
		return err
	}
	if index.Incomplete() {
		return &exitError{code: doctor.ExitWarning}
	}
	return nil
}
