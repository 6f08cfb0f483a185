//go:build cluster

package cluster

import (
	"strings"
	"testing"
	"time"

	"helm.sh/helm/v3/pkg/action"
	helmchart "helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	helmrelease "helm.sh/helm/v3/pkg/release"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/weftnet/weft/test/lab"
)

const (
	namespace = "kube-system"
	// patience is Helm's with pods that are to be Ready.
	patience = 4 * time.Minute
)

// helm is Helm as the lab's administrator runs it, and the chart of the release.
type helm struct {
	*action.Configuration
	chart *helmchart.Chart
}

// newHelm reaches the API server in the lab's own network.
func newHelm(t *testing.T) helm {
	t.Helper()
	running, err := lab.Open(cluster.Name, lab.StateDir(cluster.Name))
	if err != nil {
		t.Fatal(err)
	}
	flags := genericclioptions.NewConfigFlags(false).WithWrapConfigFn(func(c *rest.Config) *rest.Config {
		c.Dial = running.Dial
		return c
	})
	kubeconfig, space := running.Kubeconfig(), namespace
	flags.KubeConfig, flags.Namespace = &kubeconfig, &space
	h := helm{Configuration: &action.Configuration{}}
	if err := h.Init(flags, namespace, "secrets", t.Logf); err != nil {
		t.Fatal(err)
	}
	if h.chart, err = loader.LoadFile(file(t, "weft-*.tgz")); err != nil {
		t.Fatal(err)
	}
	return h
}

// install installs the chart over the rights that are there, and returns when its pods are Ready.
func (h helm) install(t *testing.T, values ...string) *helmrelease.Release {
	t.Helper()
	install := action.NewInstall(h.Configuration)
	install.ReleaseName, install.Namespace, install.TakeOwnership = "weft", namespace, true
	install.Wait, install.Timeout = true, patience
	installed, err := install.RunWithContext(t.Context(), h.chart, valuesOf(t, values...))
	if err != nil {
		t.Fatal(err)
	}
	return installed
}

// upgrade gives the chart other values, and returns when its pods are Ready.
func (h helm) upgrade(t *testing.T, values ...string) *helmrelease.Release {
	t.Helper()
	upgrade := action.NewUpgrade(h.Configuration)
	upgrade.Namespace, upgrade.TakeOwnership = namespace, true
	upgrade.Wait, upgrade.Timeout = true, patience
	upgraded, err := upgrade.RunWithContext(t.Context(), "weft", h.chart, valuesOf(t, values...))
	if err != nil {
		t.Fatal(err)
	}
	return upgraded
}

// uninstall takes the chart off, and finds what it has left of its objects.
func (h helm) uninstall(t *testing.T, installed *helmrelease.Release) {
	t.Helper()
	uninstall := action.NewUninstall(h.Configuration)
	uninstall.Wait, uninstall.Timeout = true, patience
	if _, err := uninstall.Run("weft"); err != nil {
		t.Fatal(err)
	}
	objects, err := h.KubeClient.Build(strings.NewReader(installed.Manifest), false)
	if err != nil {
		t.Fatal(err)
	}
	if len(objects) == 0 {
		t.Error("the chart has made no object")
	}
	for _, object := range objects {
		if err := object.Get(); !apierrors.IsNotFound(err) {
			t.Errorf("%s is still there: %v", object.ObjectName(), err)
		}
	}
}

// valuesOf are some values, of which later ones overrule former ones.
func valuesOf(t *testing.T, texts ...string) map[string]any {
	t.Helper()
	all := map[string]any{}
	for _, text := range texts {
		var values map[string]any
		if err := yaml.Unmarshal([]byte(text), &values); err != nil {
			t.Fatalf("%v: %s", err, text)
		}
		all = chartutil.MergeTables(values, all)
	}
	return all
}
