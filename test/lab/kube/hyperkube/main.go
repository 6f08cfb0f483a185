// Command hyperkube is a whole Kubernetes in one binary: etcd, the control plane and kubelet, chosen by the name it is
// run under or by its first argument. Linked once, it costs the lab a fraction of what six binaries would.
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"

	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
)

func main() {
	name := filepath.Base(os.Args[0])
	if name == "hyperkube" {
		if len(os.Args) < 2 {
			fmt.Fprintln(os.Stderr, "usage: hyperkube "+
				"etcd|kube-apiserver|kube-controller-manager|kube-scheduler|kubelet ARGS")
			os.Exit(2)
		}
		os.Args = os.Args[1:]
		name = os.Args[0]
	}
	var cmd *cobra.Command
	switch name {
	case "etcd":
		etcdmain.Main(os.Args)
		return
	case "kube-apiserver":
		cmd = apiserver.NewAPIServerCommand()
	case "kube-controller-manager":
		cmd = controllermanager.NewControllerManagerCommand()
	case "kube-scheduler":
		cmd = scheduler.NewSchedulerCommand()
	case "kubelet":
		cmd = kubelet.NewKubeletCommand(context.Background())
	default:
		fmt.Fprintf(os.Stderr, "hyperkube: no component is called %q\n", name)
		os.Exit(2)
	}
	os.Exit(cli.Run(cmd))
}
