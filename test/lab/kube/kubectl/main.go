// Command kubectl is Kubernetes' own. It is apart from hyperkube because tests start it hundreds of times: with all of
// Kubernetes in one binary each start costs three times the processor time, before it asks anything.
package main

import (
	"k8s.io/component-base/cli"
	kubectl "k8s.io/kubectl/pkg/cmd"
	kubectlutil "k8s.io/kubectl/pkg/cmd/util"
)

func main() {
	if err := cli.RunNoErrOutput(kubectl.NewDefaultKubectlCommand()); err != nil {
		kubectlutil.CheckErr(err)
	}
}
