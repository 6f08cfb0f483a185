package machine

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

func TestHierarchiesAreFoundWhereTheyAreMounted(t *testing.T) {
	for name, test := range map[string]struct {
		cgroup, mountinfo string
		want              []hierarchy
	}{
		"one controller each": {
			cgroup: "2:memory:/user/1\n1:cpu:/\n0::/\n",
			mountinfo: "30 29 0:26 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n31 29 0:27 / /sys/fs/cgroup/memory rw - " +
				"cgroup cgroup rw,memory\n32 29 0:28 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n",
			want: []hierarchy{{"memory", "/sys/fs/cgroup/memory/user/1"}, {"cpu", "/sys/fs/cgroup/cpu"}},
		},
		"joint controllers and systemd's own": {
			cgroup: "3:cpu,cpuacct:/a\n1:name=systemd:/b\n",
			mountinfo: "30 29 0:26 / /sys/fs/cgroup/cpu,cpuacct rw shared:9 - cgroup cgroup rw,cpu,cpuacct\n31 29 0:27 / " +
				"/sys/fs/cgroup/systemd rw - cgroup cgroup rw,xattr,name=systemd\n",
			want: []hierarchy{{"cpu,cpuacct", "/sys/fs/cgroup/cpu,cpuacct/a"},
				{"name=systemd", "/sys/fs/cgroup/systemd/b"}},
		},
		"a container's": {
			cgroup:    "1:memory:/docker/1234/inner\n",
			mountinfo: "30 29 0:26 /docker/1234 /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n",
			want:      []hierarchy{{"memory", "/sys/fs/cgroup/memory/inner"}},
		},
		"not mounted": {cgroup: "1:rdma:/\n"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := hierarchies(test.cgroup, test.mountinfo); !reflect.DeepEqual(got, test.want) {
				t.Errorf("got %v, want %v", got, test.want)
			}
		})
	}
}

func TestTheUnifiedHierarchyIsFoundBesideOthers(t *testing.T) {
	const mounted = "30 29 0:26 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n32 29 0:28 %s /sys/fs/cgroup/unified rw " +
		"shared:9 - cgroup2 cgroup2 rw\n"
	for name, test := range map[string]struct{ cgroup, mountinfo, want string }{
		"a root": {"1:cpu:/\n0::/\n", fmt.Sprintf(mounted, "/"), "/sys/fs/cgroup/unified"},
		"a service's": {"1:cpu:/\n0::/system.slice/x.service\n", fmt.Sprintf(mounted, "/"),
			"/sys/fs/cgroup/unified/system.slice/x.service"},
		"a container's": {"0::/docker/1234/inner\n", fmt.Sprintf(mounted, "/docker/1234"), "/sys/fs/cgroup/unified/inner"},
	} {
		if got, err := unifiedDir(test.cgroup, test.mountinfo); err != nil || got != test.want {
			t.Errorf("%s: %q (%v), want %s", name, got, err, test.want)
		}
	}
	if dir, err := unifiedDir("1:cpu:/\n0::/\n",
		"30 29 0:26 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n"); err == nil || !strings.Contains(err.Error(),
		"mount -t cgroup2") {
		t.Errorf("one that is mounted nowhere is at %q (%v)", dir, err)
	}
}

func TestSpecsSurviveTheirFile(t *testing.T) {
	spec := &Spec{Lab: "weft", Name: "l1", LabDir: t.TempDir(),
		Interfaces: []Interface{{Name: "eth0", Addresses: []string{"192.0.2.1/24"}, MTU: 1500}},
		Components: []Component{{Name: "etcd", Command: []string{"etcd"}, Ready: Probe{TCP: "127.0.0.1:1"},
			Finish: [][]string{{"true"}}}}}
	if err := spec.Write(); err != nil {
		t.Fatal(err)
	}
	if got, err := Read(spec.LabDir, "l1"); err != nil || !reflect.DeepEqual(got, spec) {
		t.Errorf("got %+v (%v), want %+v", got, err, spec)
	}
}

// supervise runs components until the test ends, and returns the client of their machine.
func supervise(t *testing.T, components ...Component) (*Supervisor, *Client) {
	t.Helper()
	spec := &Spec{Name: "m", LabDir: t.TempDir(), Components: components}
	if err := spec.Write(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	supervisor := NewSupervisor(spec)
	ended := make(chan struct{})
	go func() {
		supervisor.Run(ctx)
		close(ended)
	}()
	go supervisor.ServeControl(ctx) //nolint:errcheck // ends with the test
	t.Cleanup(func() { cancel(); <-ended })
	return supervisor, NewClient(spec.LabDir, "m")
}

// patience is how long a test waits for what has to happen, on the busiest of machines.
const patience = 2 * time.Minute

// statusOf polls until the component's status is as wanted.
func statusOf(t *testing.T, client *Client, component string, wanted func(ComponentStatus) bool) ComponentStatus {
	t.Helper()
	var last ComponentStatus
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		status, err := client.Status(t.Context())
		if err != nil {
			continue // the control socket comes up beside the components
		}
		for _, last = range status.Components {
			if last.Name == component && wanted(last) {
				return last
			}
		}
	}
	t.Fatalf("%s is %+v", component, last)
	return last
}

func running(c ComponentStatus) bool { return c.State == StateRunning }

func TestAKilledComponentComesBack(t *testing.T) {
	_, client := supervise(t, Component{Name: "sleeper", Command: []string{"sleep", "1000"}})
	before := statusOf(t, client, "sleeper", running)
	if err := client.Kill(t.Context(), "sleeper"); err != nil {
		t.Fatal(err)
	}
	after := statusOf(t, client, "sleeper", func(c ComponentStatus) bool { return running(c) && c.PID != before.PID })
	if after.Restarts != 1 {
		t.Errorf("it was restarted %d times", after.Restarts)
	}
}

func TestTheEndOfAVitalComponentIsTheMachines(t *testing.T) {
	// One that ends in its orderly way says so.
	const polite = "trap 'exit 0' TERM; while :; do sleep 0.01; done"
	for name, test := range map[string]struct {
		command string
		end     func(*Client) error
		off     bool
	}{
		"fails":      {"sleep 0.2; exit 133", nil, false},
		"is killed":  {"exec sleep 1000", func(c *Client) error { return c.Kill(t.Context(), "system") }, false},
		"shuts down": {"sleep 0.2; exit 0", nil, true},
		"is shut down": {polite, func(c *Client) error {
			_, err := c.call(t.Context(), "POST", "/restart/system")
			return err
		}, false},
		"is switched off": {polite, func(c *Client) error { _, err := c.call(t.Context(), "POST", "/off"); return err },
			true},
	} {
		t.Run(name, func(t *testing.T) {
			supervisor, client := supervise(t, Component{Name: "system", Command: []string{"sh", "-c", test.command},
				Vital: true})
			statusOf(t, client, "system", running)
			if test.end != nil {
				if err := test.end(client); err != nil {
					t.Fatal(err)
				}
			}
			select {
			case <-supervisor.reboot:
			case <-time.After(patience):
				t.Fatal("the machine goes on")
			}
			if off := IsOff(client.labDir, client.name); off != test.off {
				t.Errorf("the machine stays off: %v, want %v", off, test.off)
			}
			if err := os.Remove(rebootFile(client.labDir, client.name)); err != nil {
				t.Errorf("the lab is not told that this was wanted: %v", err)
			}
		})
	}
}

func TestAVitalComponentThatNeverServedIsTriedAgain(t *testing.T) {
	_, client := supervise(t, Component{Name: "system", Command: []string{"false"}, Ready: Probe{Path: "/nowhere"},
		Vital: true})
	statusOf(t, client, "system", func(c ComponentStatus) bool { return c.Restarts >= 2 })
}

func TestFilesAreWrittenAsTheyAreTold(t *testing.T) {
	root, source := t.TempDir(), filepath.Join(t.TempDir(), "source")
	if err := os.WriteFile(source, []byte("copied"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, f := range []File{
		{Path: "/etc/plain", Content: "plain"},
		{Path: "/etc/secret", Source: source, Mode: 0o600},
		{Path: "/etc/link", Content: "/etc/plain", Mode: os.ModeSymlink},
		{Path: "/etc/link", Content: "secret", Mode: os.ModeSymlink}, // in the former one's place
	} {
		if err := f.write(root); err != nil {
			t.Fatal(err)
		}
	}
	content, err := os.ReadFile(root + "/etc/link")
	if err != nil || string(content) != "copied" {
		t.Errorf("by the link one reads %q (%v)", content, err)
	}
	for name, want := range map[string]os.FileMode{"plain": 0o644, "secret": 0o600} {
		if info, err := os.Stat(root + "/etc/" + name); err != nil || info.Mode() != want {
			t.Errorf("%s: %v (%v), want mode %v", name, info, err, want)
		}
	}
}

func TestRestartIsOrderlyAndWaits(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "story")
	_, client := supervise(t, Component{
		Name:    "polite",
		Prepare: [][]string{{"sh", "-c", "echo prepare >> " + file}},
		Command: []string{"sh", "-c", "trap 'echo bye >> " + file + "; exit' TERM; echo up >> " + file + "; touch " + dir +
			"/ready; while :; do sleep 0.01; done"},
		Ready:  Probe{Path: dir + "/ready"},
		Finish: [][]string{{"sh", "-c", "echo finish >> " + file}},
	})
	statusOf(t, client, "polite", running)
	if err := client.Restart(t.Context(), "polite"); err != nil {
		t.Fatal(err)
	}
	story, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	want := "prepare up finish bye prepare"
	if got := strings.Join(strings.Fields(string(story)), " "); !strings.HasPrefix(got, want) ||
		strings.Count(got, "finish") != 2 {
		t.Errorf("the story is %q", got)
	}
}

func TestWhatIsStoppedStaysSoUntilItIsRestarted(t *testing.T) {
	_, client := supervise(t, Component{Name: "idle", Command: []string{"sleep", "1h"}})
	before := statusOf(t, client, "idle", running)
	if err := client.Stop(t.Context(), "idle"); err != nil {
		t.Fatal(err)
	}
	statusOf(t, client, "idle", func(c ComponentStatus) bool { return c.State == StateStopped && c.PID == 0 && !c.OK() })
	for verb, end := range map[string]func(context.Context, string) error{"kill": client.Kill, "stop": client.Stop} {
		if err := end(t.Context(), "idle"); err == nil || !strings.Contains(err.Error(), "does not run: it is stopped") {
			t.Errorf("%s: the error is: %v", verb, err)
		}
	}
	if err := client.Restart(t.Context(), "idle"); err != nil {
		t.Fatal(err)
	}
	after := statusOf(t, client, "idle", running)
	if after.PID == before.PID || after.Restarts != 0 {
		t.Errorf("it was %+v, and is %+v", before, after)
	}
}

func TestRepeatedCommandsRunAsLongAsTheirComponent(t *testing.T) {
	file := filepath.Join(t.TempDir(), "story")
	_, client := supervise(t, Component{
		Name: "tended", Command: []string{"sleep", "1000"},
		Finish: [][]string{{"sh", "-c", "echo ready >> " + file}},
		// A failure of one is the log's matter, not the component's end.
		Repeat:      [][]string{{"sh", "-c", "echo tend >> " + file + "; exit 1"}},
		RepeatEvery: 10 * time.Millisecond,
	})
	for deadline := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		story, err := os.ReadFile(file)
		if strings.HasPrefix(string(story), "ready\ntend\ntend\n") {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("the story is %q (%v)", story, err)
		}
	}
	if status := statusOf(t, client, "tended", running); status.Restarts != 0 {
		t.Errorf("it was restarted %d times", status.Restarts)
	}
}

func TestComponentsWaitForWhatTheyNeed(t *testing.T) {
	file := filepath.Join(t.TempDir(), "needed")
	_, client := supervise(t,
		Component{Name: "dependent", Command: []string{"sleep", "1000"}, WaitFor: []Probe{{Path: file}}},
		Component{Name: "once", Command: []string{"true"}, Once: true})
	statusOf(t, client, "once", func(c ComponentStatus) bool { return c.State == StateDone })
	waiting := statusOf(t, client, "dependent", func(c ComponentStatus) bool { return c.State == StateWaiting })
	if !strings.Contains(waiting.Detail, file) {
		t.Errorf("it does not say that it waits for %s: %+v", file, waiting)
	}
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	statusOf(t, client, "dependent", running)
}

func TestWhatIsDoneCannotBeEnded(t *testing.T) {
	_, client := supervise(t, Component{Name: "once", Command: []string{"true"}, Once: true})
	statusOf(t, client, "once", func(c ComponentStatus) bool { return c.State == StateDone })
	// What cannot come would be waited for until the deadline.
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for verb, end := range map[string]func(context.Context, string) error{"kill": client.Kill, "stop": client.Stop,
		"restart": client.Restart} {
		err := end(ctx, "once")
		if err == nil || ctx.Err() != nil || !strings.Contains(err.Error(), "once on m runs once") {
			t.Errorf("%s: the error is: %v", verb, err)
		} else if err.Error() != strings.TrimSpace(err.Error()) {
			t.Errorf("%s: the error has blanks around it: %q", verb, err)
		}
	}
}

func TestWhatDoesNotRunSaysWhy(t *testing.T) {
	_, client := supervise(t, Component{Name: "dependent", Command: []string{"true"},
		WaitFor: []Probe{{Path: "/nonexistent"}}})
	statusOf(t, client, "dependent", func(c ComponentStatus) bool { return c.State == StateWaiting && c.Detail != "" })
	if err := client.Kill(t.Context(), "dependent"); err == nil || !strings.Contains(err.Error(), "/nonexistent") {
		t.Errorf("the error is: %v", err)
	}
}

func TestWhatEndsAtOnceIsRetriedAndExplained(t *testing.T) {
	supervisor, client := supervise(t, Component{Name: "broken", Command: []string{"sh", "-c", "echo why; exit 3"}})
	failed := statusOf(t, client, "broken", func(c ComponentStatus) bool {
		return c.Restarts >= 2 && c.State == StateBackoff && c.Detail != ""
	})
	if !strings.Contains(failed.Detail, "exit status 3") {
		t.Errorf("the status says %q", failed.Detail)
	}
	log, err := os.ReadFile(LogFile(supervisor.spec.LabDir, "m", "broken"))
	if err != nil || !strings.Contains(string(log), "why") {
		t.Errorf("its log is %q (%v)", log, err)
	}
	if err := client.Kill(t.Context(), "absent"); err == nil || !strings.Contains(err.Error(), "broken") {
		t.Errorf("an unknown component's error should list those there are: %v", err)
	}
}

func TestARebootEndsTheMachineOnceItIsAnswered(t *testing.T) {
	supervisor, client := supervise(t, Component{Name: "sleeper", Command: []string{"sleep", "1000"}})
	ended := make(chan error, 1)
	go func() { ended <- supervisor.awaitReboot(t.Context()) }()
	statusOf(t, client, "sleeper", running)
	if _, err := client.call(t.Context(), "POST", "/reboot"); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != errReboot {
		t.Errorf("the machine ends with: %v", err)
	}
	dir := supervisor.spec.LabDir
	if !rebooted(dir, "m") {
		t.Error("the machine's end looks like an accident")
	}
	if rebooted(dir, "m") {
		t.Error("its next end does not look like one")
	}
}

func TestPendingNamesWhatDoesNotWork(t *testing.T) {
	status := Status{Components: []ComponentStatus{{Name: "a", State: StateRunning}, {Name: "b", State: StateBackoff,
		Detail: "exit status 1"}, {Name: "c", State: StateDone}}}
	if got := status.pending(); got != "b is backoff exit status 1" {
		t.Errorf("it says %q", got)
	}
}
