//go:build ansible

package ansible

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/weftnet/weft/test/lab/image"
)

const (
	weftImage = "registry.example/weft:lab"
	// onNodes makes the nodes hosts of the controllers, too, and asPods has them be pods there.
	onNodes = "[weft_controllers]\nl1\nl2\n"
	asPods  = onNodes + "[all:vars]\nweft_image=" + weftImage + "\n"
)

// weftRunsAsPods: those who want pods instead of units have the roles put them in their place, node by node, and can go
// back.
func weftRunsAsPods(t *testing.T) {
	install(t)
	archive := imageOfWeft(t)
	for _, node := range []string{"l1", "l2"} {
		if out, err := servers.TryWith(archive, "exec", node, "--", "ctr", "--namespace", "k8s.io", "images", "import",
			"-"); err != nil {
			t.Fatal(out, err)
		}
	}
	with, without := inventoryAnd(t, asPods), inventoryAnd(t, onNodes)
	play(t, "site.yml", with...)
	for _, node := range []string{"l1", "l2"} {
		if left := servers.On(t, node, "sh", "-c",
			"cd /etc/systemd/system; ls weft-node.service weft-controller.service 2> /dev/null || true"); left != "" {
			t.Errorf("%s has units beside its pods: %s", node, left)
		}
		for _, part := range []string{"weft-node", "weft-controller"} {
			servers.Kubectl(t, "wait", "--namespace=kube-system", "--for=condition=Ready", "--timeout=60s", "pod",
				"--selector=app.kubernetes.io/name="+part, "--field-selector=spec.nodeName="+node)
		}
	}
	// The centrals are no controllers any more: what pods there are get their network by pods alone.
	noController(t, centrals...)
	eventually(t, 60*time.Second, "a pod leads", func() error {
		_, err := leaseHolder("weft-controller", "l1", "l2")
		return err
	})
	awaitCluster(t)
	servers.Kubectl(t, "delete", "pod", "--namespace=kube-system", "--selector=app.kubernetes.io/name=weft-node",
		"--field-selector=spec.nodeName=l1")
	awaitConnections(t)
	hitsAreCounted(t)
	changesNothing(t, "site.yml", with...)
	play(t, "verify.yml", with...)

	podsAreRestored(t, without)

	manifests := t.TempDir()
	play(t, "manifests.yml", append(with, "--extra-vars", "weft_manifests_dir="+manifests)...)
	servers.Kubectl(t, "apply", "--dry-run=server", "--recursive", "--filename="+manifests)

	play(t, "controllers.yml", without...)
	play(t, "nodes.yml", without...)
	for what, labelled := range map[string]string{"pods": "app.kubernetes.io/part-of=weft",
		"nodes": "weft.net/weft-node"} {
		if left := servers.Kubectl(t, "get", what, "--namespace=kube-system", "--selector="+labelled, "--output=name",
			"--ignore-not-found"); left != "" {
			t.Errorf("back at units there are %s labelled %s: %s", what, labelled, left)
		}
	}

	// In an inventory where they are no controllers they have nothing of one left, and the Northbound is closed to them.
	play(t, "site.yml")
	noController(t, "l1", "l2")
	eventually(t, 60*time.Second, "a central's controller leads", func() error {
		_, err := leaseHolder("weft-controller", centrals...)
		return err
	})
	awaitConnections(t)
}

// inventoryAnd are the arguments for the lab's inventory and more of it.
func inventoryAnd(t *testing.T, more string) []string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "more.ini")
	if err := os.WriteFile(file, []byte(more), 0o644); err != nil {
		t.Fatal(err)
	}
	return []string{"--inventory", servers.Must(t, "control", "--", "printenv", "ANSIBLE_INVENTORY"), "--inventory", file}
}

// podsAreRestored: restore.yml ends the controllers' pods and brings them back, also where nobody says again that there
// are pods. An inventory that has other controllers is refused before any of them has ended: they could not reach the
// Northbound after it.
func podsAreRestored(t *testing.T, with []string) {
	t.Helper()
	out, _ := play(t, "backup.yml", with...)
	backup := backupPath.FindStringSubmatch(out)
	if backup == nil {
		t.Fatalf("backup.yml names no backup:\n%s", out)
	}
	from := []string{"-e", "weft_restore_from=" + backup[1]}
	const controllers = "--selector=app.kubernetes.io/name=weft-controller"
	pods := func() string {
		return servers.Kubectl(t, "get", "pods", "--namespace=kube-system", controllers,
			"--output=jsonpath={.items[*].metadata.uid}")
	}
	before := pods()
	refused(t, "restore.yml", from, "weft_controllers of the inventory lacks the controllers' nodes l1, l2")
	if now := pods(); now != before {
		t.Errorf("a refused restore.yml has ended pods: before %s, now %s", before, now)
	}
	play(t, "restore.yml", append(with, from...)...)
	for uid := range strings.FieldsSeq(before) {
		if now := pods(); strings.Contains(now, uid) {
			t.Errorf("the controllers' pods went on while the databases were restored: before %s, now %s", before, now)
		}
	}
	servers.Kubectl(t, "wait", "--namespace=kube-system", "--for=condition=Ready", "--timeout=60s", "pod", controllers)
	servers.Apply(t, agnhost("restored", "l1", "hostNetwork: false"), waits...)
	servers.Kubectl(t, "wait", "--for=condition=Ready", "--timeout=120s", "pod/restored")
	awaitConnections(t)
}

// noController is on hosts that have been taken out of weft_controllers, and nothing that opens the Northbound.
func noController(t *testing.T, hosts ...string) {
	t.Helper()
	for _, host := range hosts {
		if left := servers.On(t, host, "sh", "-c", "ls -d /etc/systemd/system/weft-controller* /etc/weft/*controller* "+
			"/etc/weft/pki/*controller* 2> /dev/null || true"); left != "" {
			t.Errorf("%s is no controller any more, and has %s", host, left)
		}
	}
}

var library = regexp.MustCompile(`(?m)(?:=> |^\s*)(/\S+) \(0x`)

// imageOfWeft is like a release's image weft-node, made without Debian's archive: the lab's root file system with weft
// and ovs-ofctl.
func imageOfWeft(t *testing.T) string {
	t.Helper()
	scratch := t.TempDir()
	ovn := filepath.Join(repository(), "bin/lab/ovn/root")
	const loader, libraries, program = "/usr/lib64/ld-linux-x86-64.so.2", "/usr/lib/x86_64-linux-gnu", "/usr/bin/ovs-ofctl"
	list, err := exec.Command(ovn+loader, "--library-path", ovn+libraries, "--list", ovn+program).Output()
	if err != nil {
		t.Fatal(err)
	}
	wrapper := filepath.Join(scratch, "ovs-ofctl")
	if err := os.WriteFile(wrapper, []byte("#!/bin/sh\nexec /ovs"+loader+" --library-path /ovs"+libraries+" /ovs"+program+
		" \"$@\"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	files := []image.File{
		{Name: "usr/local/bin/weft", Source: current.program("weft"), Mode: 0o755},
		{Name: "usr/local/bin/ovs-ofctl", Source: wrapper, Mode: 0o755},
		{Name: "ovs" + loader, Source: ovn + loader, Mode: 0o755},
		{Name: "ovs" + program, Source: ovn + program, Mode: 0o755},
	}
	for _, found := range library.FindAllStringSubmatch(string(list), -1) {
		if strings.HasPrefix(found[1], ovn+libraries) {
			files = append(files, image.File{Name: "ovs" + libraries + "/" + filepath.Base(found[1]), Source: found[1],
				Mode: 0o644})
		}
	}
	layer := filepath.Join(scratch, "weft.layer")
	var text, archive bytes.Buffer
	if err := image.WriteLayer(&text, files); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(layer, text.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := image.WriteArchive(&archive, "amd64", []image.Image{{
		Names: []string{weftImage}, Entrypoint: []string{"weft"},
		Layers: []string{filepath.Join(repository(), "bin/lab/images/rootfs.tar"), layer},
	}}); err != nil {
		t.Fatal(err)
	}
	return archive.String()
}
