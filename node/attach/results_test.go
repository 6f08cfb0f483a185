package attach

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/containernetworking/cni/libcni"
	"github.com/containernetworking/cni/pkg/version"

	"github.com/weftnet/weft/node/nodeconfig"
	"github.com/weftnet/weft/node/nodetest"
)

// plugin answers each verb, and counts the calls.
type plugin struct {
	version.PluginDecoder
	calls int
}

func (p *plugin) FindInPath(name string, _ []string) (string, error) { return name, nil }

func (p *plugin) ExecPlugin(context.Context, string, []byte, []string) ([]byte, error) {
	p.calls++
	return []byte(`{"cniVersion":"1.0.0","ips":[{"address":"10.244.1.3/24"}]}`), nil
}

// runtime is what a container runtime has on a host.
type runtime struct {
	*testing.T
	results
	plugin plugin
	libcni *libcni.CNIConfig
}

func newRuntime(t *testing.T) *runtime {
	t.Helper()
	cache := nodetest.Folder(t)
	r := &runtime{T: t, results: newResults(nodeconfig.Config{CNIConfDir: nodetest.Folder(t), CNICacheDir: cache})}
	r.libcni = libcni.NewCNIConfigWithCacheDir(nil, cache, &r.plugin)
	for name, text := range map[string]string{
		"10-weft.conflist":   weftNetwork,
		"20-chain.conflist":  `{"cniVersion":"1.0.0","name":"chain","plugins":[{"type":"weft-cni"},{"type":"portmap"}]}`,
		"30-other.conflist":  `{"cniVersion":"1.0.0","name":"other","plugins":[{"type":"bridge"}]}`,
		"40-single.conf":     `{"cniVersion":"1.0.0","name":"single","type":"weft-cni"}`,
		"50-broken.conflist": `{"cniVersion":`,
		"60-broken.conf":     ``,
	} {
		if err := os.WriteFile(filepath.Join(r.confDir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

const weftNetwork = `{"cniVersion":"1.0.0","name":"weft","plugins":[{"type":"weft-cni"}]}`

var container = strings.Repeat("0123456789abcdef", 4)

// attachment is the one that libcni is asked for.
func (r *runtime) attachment() *libcni.RuntimeConf {
	return &libcni.RuntimeConf{ContainerID: container, IfName: "eth0", NetNS: "/run/netns/n"}
}

// add attaches a container. It returns what libcni keeps.
func (r *runtime) add() string {
	r.Helper()
	list, err := libcni.NetworkConfFromBytes([]byte(weftNetwork))
	if err != nil {
		r.Fatal(err)
	}
	if _, err := r.libcni.AddNetworkList(r.Context(), list, r.attachment()); err != nil {
		r.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(r.folder, "weft-"+container+"-eth0"))
	if err != nil {
		r.Fatal(err)
	}
	return string(text)
}

// write leaves a result of a certain age.
func (r *runtime) write(name, text string, age time.Duration) {
	r.Helper()
	path, written := filepath.Join(r.folder, name), time.Now().Add(-age)
	err := errors.Join(os.MkdirAll(r.folder, 0o700), os.WriteFile(path, []byte(text), 0o600),
		os.Chtimes(path, written, written))
	if err != nil {
		r.Fatal(err)
	}
}

func (r *runtime) has(name string) bool {
	r.Helper()
	_, err := os.Stat(filepath.Join(r.folder, name))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		r.Fatal(err)
	}
	return err == nil
}

func (r *runtime) mustSweep() {
	r.Helper()
	if err := r.sweep(r.Context()); err != nil {
		r.Fatal(err)
	}
}

// TestUnreadableResultsAreRemoved: libcni itself says which of the files it can read.
func TestUnreadableResultsAreRemoved(t *testing.T) {
	r := newRuntime(t)
	complete := r.add()
	for name, text := range map[string]string{
		"complete":           complete,
		"before kinds":       `{"cniVersion":"0.4.0","ips":[{"version":"4","address":"10.244.1.3/24"}]}`,
		"no result":          `{"kind":"cniCacheV1"}`,
		"empty":              "",
		"cut":                complete[:len(complete)/2],
		"blocks not written": strings.Repeat("\x00", len(complete)),
		"no object":          `"text"`,
	} {
		t.Run(name, func(t *testing.T) {
			file := "weft-" + container + "-eth0"
			r.write(file, text, 2*resultAge)
			_, err := r.libcni.GetNetworkListCachedResult(
				&libcni.NetworkConfigList{Name: "weft", CNIVersion: "1.0.0"}, r.attachment())
			r.mustSweep()
			if kept := r.has(file); kept != (err == nil) {
				t.Errorf("libcni says %v, and the file is kept: %v", err, kept)
			}
		})
	}
}

// TestResultsOfOthersAreLeft: the agent removes files of its own networks and of lo, and none that an ADD may be
// writing.
func TestResultsOfOthersAreLeft(t *testing.T) {
	r := newRuntime(t)
	for _, test := range []struct {
		name, file string
		age        time.Duration
		kept       bool
	}{
		{"weft", "weft-" + container + "-eth0", 2 * resultAge, false},
		{"an interface with hyphens", "weft-" + container + "-net-1", 2 * resultAge, false},
		{"weft-cni chained", "chain-" + container + "-eth0", 2 * resultAge, false},
		{"no list", "single-" + container + "-eth0", 2 * resultAge, false},
		{"lo", "cni-loopback-" + container + "-lo", 2 * resultAge, false},
		{"young", "weft-" + container + "-eth1", resultAge / 2, true},
		{"another plugin's", "other-" + container + "-eth0", 2 * resultAge, true},
		{"a network that is not known", "weft-storage-" + container + "-eth0", 2 * resultAge, true},
		{"no container", "weft--eth0", 2 * resultAge, true},
		{"no interface", "weft-" + container, 2 * resultAge, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			r.write(test.file, "", test.age)
			r.mustSweep()
			if kept := r.has(test.file); kept != test.kept {
				t.Errorf("the file is kept: %v", kept)
			}
		})
	}
}

// TestPodWithoutReadableResultIsDetached asks for DEL by DelNetwork. It reads the result as DelNetworkList did before
// libcni 1.2.
func TestPodWithoutReadableResultIsDetached(t *testing.T) {
	r := newRuntime(t)
	r.mustSweep() // the runtime has no folder yet
	r.add()
	network, err := libcni.NetworkPluginConfFromBytes([]byte(`{"cniVersion":"1.0.0","name":"weft","type":"weft-cni"}`))
	if err != nil {
		t.Fatal(err)
	}
	r.write("weft-"+container+"-eth0", "", 2*resultAge)
	r.plugin.calls = 0
	err = r.libcni.DelNetwork(t.Context(), network, r.attachment())
	if err == nil || !strings.Contains(err.Error(), "unexpected end of JSON input") || r.plugin.calls != 0 {
		t.Fatalf("%d calls, %v; libcni passes over a result that it cannot read: is the sweep still needed?",
			r.plugin.calls, err)
	}
	r.mustSweep()
	if err := r.libcni.DelNetwork(t.Context(), network, r.attachment()); err != nil || r.plugin.calls != 1 {
		t.Errorf("%d calls, %v", r.plugin.calls, err)
	}
}

// TestPeriodicSweepTakesResults: also while nothing is known of the database.
func TestPeriodicSweepTakesResults(t *testing.T) {
	n := newBareNode(t)
	n.ovs.Close()
	r := &runtime{T: t, results: n.results}
	r.write("cni-loopback-"+container+"-lo", "", 2*resultAge)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- n.SweepPeriodically(ctx) }()
	nodetest.Eventually(t, nodetest.Patience, func() error {
		if r.has("cni-loopback-" + container + "-lo") {
			return errors.New("the result is left")
		}
		return nil
	})
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
