package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	api "github.com/weftnet/weft/models/api/observe/v1alpha1"
	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/models/hostfile"
	"github.com/weftnet/weft/node/doctor"
)

const captureHelp = `Capture the packets of a pod, or of a node's tunnels, as pcapng.

It asks the API server, which asks weft observe, which asks the agent of the node: a kubeconfig is all that it needs, and
the right to create captures/attach of observe.weft.net in the namespace of the pod. An administrator gives it, by a
binding to the ClusterRole ` + api.CaptureRole + `. Whoever has it reads all that these pods say and hear. node/NAME needs
the ClusterRole ` + api.NodeCaptureRole + `, for the whole cluster. Agents capture nothing unless their key capture says so.

Of a pod it has what passes the pod's interface, both ways. Of a node it has the GENEVE packets, which carry what OVN sends
from node to node, and nothing else of the node. A filter is then about the packets inside. Where nodes encrypt their
tunnels there are none of these to see.

A filter is a part of what tcpdump takes: tcp, udp, sctp, icmp or arp, "host ADDRESS" and "port NUMBER", each once at
most, with or without "and" between them.

A capture of a Linux node ends after --duration, --packets or --bytes, whichever is first, with Ctrl-C, and when the pod
goes. What is not read in time is dropped and counted.

A Windows node captures by its Packet Monitor (pktmon), and gives the packets when the capture has ended. It captures for
the whole --duration, also when the pod goes: Ctrl-C before that leaves no packet. --packets and --bytes do not end the
capture. They bound the file, which has the first packets of the node's log. The log has the size of --bytes, and 16 MiB at
least: when it is full, the newest packets take the place of the oldest.`

// captureTime is how long all of it may take, beyond the longest capture.
const captureTime = contract.MaxCaptureDuration + contract.CaptureLateness + time.Minute

func captureCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "capture POD|node/NAME",
		Short: "Capture the packets of a pod or of a node's tunnels, for Wireshark",
		Long:  captureHelp,
		Example: "  weft capture -n shop web --filter 'tcp port 443' -w web.pcapng\n" +
			"  weft capture shop/web -w - | wireshark -k -i -\n  weft capture node/l1 --snaplen 128 --duration 2m",
	}
	endsWith(cmd, exitCode{doctor.ExitOK, "the capture has ended at a limit, or because the pod was removed, and the " +
		"file lacks no packet; or you have ended the capture, whether the file lacks packets or not. If you end that of a " +
		"Windows node before --duration is over, the file has no packets"},
		exitCode{doctor.ExitWarning, "you have not ended the capture, and the file lacks packets: they came faster than " +
			"they were read, or the capture broke off"},
		exitCode{doctor.ExitNotAsked, "nothing could be captured, and there is no file; the error says why"})
	f := cmd.Flags()
	contextFlags(f)
	f.StringP("namespace", "n", "", "namespace of a pod named without one; empty: that of the context")
	f.String("filter", "", "which packets, such as \"tcp and host 10.0.0.1 and port 443\"; empty: all")
	f.StringP("write", "w", "", "the file, which must not be there yet; empty: weft-capture-NAME-TIME.pcapng in this "+
		"folder; -: standard output")
	f.Duration("duration", 30*time.Second, "how long to capture, 10m at most")
	f.Int("packets", 0, "how many packets to capture; 0: no bound")
	f.Int("bytes", 100<<20, "how many bytes of pcapng to write, 1 GiB at most")
	f.Int("snaplen", contract.MaxSnapLength, "how many bytes to keep of each packet, 64 at least")
	completeArguments(cmd, 1, podOrNode)
	answering(cmd, doctor.ExitNotAsked, cobra.ExactArgs(1), func(ctx context.Context, s *settings, args []string) error {
		config, namespace, err := contextConfig(s)
		if err != nil {
			return err
		}
		asked, err := captureQuestion(args[0], namespace)
		if err != nil {
			return err
		}
		filter, err := contract.ParseCaptureFilter(s.text("filter"))
		if err != nil {
			return fmt.Errorf("filter: %w", err)
		}
		asked.object = &api.Capture{TypeMeta: metav1.TypeMeta{Kind: api.CaptureKind, APIVersion: api.GroupVersion},
			Spec: api.CaptureSpec{Filter: filter, SnapLength: s.integer("snaplen"), Packets: int64(s.integer("packets")),
				Bytes: int64(s.integer("bytes")), Duration: metav1.Duration{Duration: s.duration("duration")}}}
		file := s.text("write")
		if s.err() != nil {
			return s.err()
		}
		if file == "-" {
			return captureTo(ctx, config, asked, cmd.OutOrStdout(), cmd.ErrOrStderr())
		}
		if file == "" {
			file = fmt.Sprintf("weft-capture-%s-%s.pcapng", asked.name, time.Now().UTC().Format("20060102-150405"))
		}
		return captureInto(ctx, config, asked, file, cmd.ErrOrStderr())
	})
	timeout := f.Lookup("timeout")
	timeout.DefValue, timeout.Usage = captureTime.String(), "how long all of it may take"
	_ = timeout.Value.Set(timeout.DefValue) // it is a duration
	return cmd
}

// captureQuestion reads POD, NAMESPACE/POD or node/NAME.
func captureQuestion(text, namespace string) (q question, err error) {
	end, err := api.ParseTraceEnd(text, namespace)
	if err != nil || end.Kind != api.PodEnd && end.Kind != api.NodeEnd {
		return q, fmt.Errorf("%q is neither a pod, as [NAMESPACE/]NAME, nor node/NAME", text)
	}
	q = question{resource: api.CaptureResource, namespace: end.Namespace, name: end.Name,
		subresource: api.CaptureSubresource, role: api.CaptureRole}
	if end.Kind == api.NodeEnd {
		q.resource, q.role = api.NodeCaptureResource, api.NodeCaptureRole
	}
	return q, nil
}

var captureFile = &hostfile.File{
	Path: "{write}", Mode: 0o600,
	Content: "Packets of a pod, or GENEVE packets of a node, with their contents.",
	Loss:    "The packets are lost.",
}

// captureInto makes a file that only its owner reads, and removes it again if nothing was captured.
func captureInto(ctx context.Context, config *rest.Config, asked question, name string, errs io.Writer) error {
	out, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, captureFile.Mode)
	if err != nil {
		return fmt.Errorf("write: %w; name a file that is not there yet", err)
	}
	err = captureTo(ctx, config, asked, out, errs)
	err = errors.Join(err, out.Close())
	var exit *exitError
	if err != nil && !errors.As(err, &exit) {
		return errors.Join(err, os.Remove(name))
	}
	fmt.Fprintf(errs, "The file is %s. It has all that was in the packets: read it before you hand it on.\n", name)
	return err
}

// captureTo writes packets as they come. Its error is an [exitError] if some of them are missing.
func captureTo(ctx context.Context, config *rest.Config, asked question, to, errs io.Writer) error {
	if file, ok := to.(*os.File); ok && term.IsTerminal(int(file.Fd())) {
		return errors.New("write: packets are no text for a terminal: name a file, or have another program read them")
	}
	config.WarningHandler = rest.NewWarningWriter(errs, rest.WarningWriterOptions{})
	packets, err := asked.stream(ctx, config)
	if err != nil {
		return err
	}
	defer packets.Close()
	fmt.Fprintf(errs, "Capturing %s. Ctrl-C ends it.\n", strings.Trim(asked.namespace+"/"+asked.name, "/"))
	file, err := copyPackets(to, packets)
	switch {
	case file.bytes == 0:
		return err
	case errors.Is(context.Cause(ctx), context.Canceled): // by the user
		fmt.Fprintf(errs, "Packets: %d. You have ended the capture, so how many were dropped is not known.\n",
			file.packets)
		return nil
	case err != nil:
		fmt.Fprintf(errs, "Packets: %d. They are those that came until the error.\n", file.packets)
		return &exitError{doctor.ExitWarning, err}
	}
	fmt.Fprintf(errs, "Packets: %d, and %d more were dropped.\n", file.packets, file.dropped)
	if file.dropped > 0 {
		return &exitError{doctor.ExitWarning, errors.New("packets came faster than they were read: give a filter or a " +
			"shorter --snaplen")}
	}
	return nil
}

// stream gives an answer as it comes.
func (q question) stream(ctx context.Context, config *rest.Config) (io.ReadCloser, error) {
	request, err := q.request(config)
	if err != nil {
		return nil, err
	}
	answer, err := request.Stream(ctx)
	var told apierrors.APIStatus
	if errors.As(err, &told) && told.Status().Details != nil {
		if kind := told.Status().Details.Kind; kind == "pods" || kind == "nodes" {
			return nil, err // it is not the API that is missing
		}
	}
	return answer, q.failure(err)
}
