package main

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// completionTime bounds how long a user waits for names after a press of Tab.
const completionTime = 3 * time.Second

// candidates are what a user may go on to type. There are none where the API server does not answer, or the user has no
// right to list: a shell has no place for an error.
type candidates func(ctx context.Context, client rest.Interface, namespace, begun string) []string

// flagNames are what flags of commands that ask a cluster take.
var flagNames = map[string]candidates{
	"namespace": namespaceNames, "node": nodeNames, "pod": podNames, "service": serviceNames,
	"from": podOrNode, "to": anyEnd,
}

// completeFlags has shells complete the flags of a command that asks a cluster.
func completeFlags(cmd *cobra.Command) {
	if cmd.Flags().Lookup("context") == nil {
		return
	}
	for flag, values := range flagNames {
		if cmd.Flags().Lookup(flag) != nil { // RegisterFlagCompletionFunc fails only for others, and if called twice
			_ = cmd.RegisterFlagCompletionFunc(flag,
				func(cmd *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
					return completed(cmd, begun, values)
				})
		}
	}
	_ = cmd.RegisterFlagCompletionFunc("context",
		func(cmd *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
			return beginning(begun, contextNames(cmd)), cobra.ShellCompDirectiveNoFileComp
		})
}

// completeArguments has shells complete a command's arguments, of which there are so many.
func completeArguments(cmd *cobra.Command, count int, values candidates) {
	cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
		if len(args) >= count {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return completed(cmd, begun, values)
	}
}

func completed(cmd *cobra.Command, begun string, from candidates) ([]string, cobra.ShellCompDirective) {
	list := beginning(begun, askNames(cmd, begun, from))
	directive := cobra.ShellCompDirectiveNoFileComp
	if slices.ContainsFunc(list, func(name string) bool { return strings.HasSuffix(name, "/") }) {
		directive |= cobra.ShellCompDirectiveNoSpace
	}
	return list, directive
}

func askNames(cmd *cobra.Command, begun string, from candidates) []string {
	s, err := loadSettings(cmd)
	if err != nil {
		return nil
	}
	config, namespace, err := contextConfig(s)
	if err != nil {
		return nil
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), completionTime)
	defer cancel()
	return from(ctx, client.RESTClient(), namespace, begun)
}

// contextNames are those of the kubeconfig that the command would read.
func contextNames(cmd *cobra.Command) []string {
	s, err := loadSettings(cmd)
	if err != nil {
		return nil
	}
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = s.text("kubeconfig")
	kubeconfig, err := rules.Load()
	if err != nil {
		return nil
	}
	var list []string
	for name := range kubeconfig.Contexts {
		list = append(list, name)
	}
	return list
}

// beginning are the names that begin as a user has begun, sorted.
func beginning(begun string, all []string) []string {
	list := slices.DeleteFunc(all, func(name string) bool { return !strings.HasPrefix(name, begun) })
	slices.Sort(list)
	return list
}

// listNames lists a resource by its path, each object with a prefix before its name.
func listNames(ctx context.Context, client rest.Interface, prefix string, path ...string) []string {
	text, err := client.Get().AbsPath(path...).SetHeader("Accept",
		"application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1").Do(ctx).Raw()
	var found metav1.PartialObjectMetadataList
	if err != nil || json.Unmarshal(text, &found) != nil {
		return nil
	}
	var list []string
	for i := range found.Items {
		list = append(list, prefix+found.Items[i].Name)
	}
	return list
}

func namespaceNames(ctx context.Context, client rest.Interface, _, _ string) []string {
	return listNames(ctx, client, "", "/api/v1/namespaces")
}

func nodeNames(ctx context.Context, client rest.Interface, _, _ string) []string {
	return listNames(ctx, client, "", "/api/v1/nodes")
}

func podNames(ctx context.Context, client rest.Interface, namespace, _ string) []string {
	return listNames(ctx, client, "", "/api/v1/namespaces", namespace, "pods")
}

func serviceNames(ctx context.Context, client rest.Interface, namespace, _ string) []string {
	return listNames(ctx, client, "", "/api/v1/namespaces", namespace, "services")
}

// podOrNode is [NAMESPACE/]POD or node/NAME.
func podOrNode(ctx context.Context, client rest.Interface, namespace, begun string) []string {
	head, _, within := strings.Cut(begun, "/")
	switch {
	case within && head == "node":
		return listNames(ctx, client, "node/", "/api/v1/nodes")
	case within:
		return listNames(ctx, client, head+"/", "/api/v1/namespaces", head, "pods")
	}
	return append(podNames(ctx, client, namespace, begun), "node/")
}

// anyEnd is an end of a connection: [NAMESPACE/]POD, svc/[NAMESPACE/]NAME or node/NAME.
func anyEnd(ctx context.Context, client rest.Interface, namespace, begun string) []string {
	service, isService := strings.CutPrefix(begun, "svc/")
	if !isService {
		list := podOrNode(ctx, client, namespace, begun)
		if !strings.Contains(begun, "/") {
			list = append(list, "svc/")
		}
		return list
	}
	if other, _, within := strings.Cut(service, "/"); within {
		return listNames(ctx, client, "svc/"+other+"/", "/api/v1/namespaces", other, "services")
	}
	return listNames(ctx, client, "svc/", "/api/v1/namespaces", namespace, "services")
}

// podOrService is [NAMESPACE/]POD or svc/[NAMESPACE/]NAME.
func podOrService(ctx context.Context, client rest.Interface, namespace, begun string) []string {
	return slices.DeleteFunc(anyEnd(ctx, client, namespace, begun), func(name string) bool {
		return strings.HasPrefix(name, "node/")
	})
}
