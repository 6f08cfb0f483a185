//go:build ansible

package windows

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/weftnet/weft/test/hns"
)

// wineHost is the Wine under a machine: its drive C: is the prefix's.
type wineHost struct {
	env     []string
	service *hns.Service
}

const (
	adapterAddress = "172.30.0.3/24"
	installedWeft  = `C:\Program Files\weft\weft.exe`
)

// newWineHost makes a prefix over the lab's, with an emulated HNS whose adapter is Ethernet.
func newWineHost(t *testing.T, root string, env ...string) (host *wineHost, drive string) {
	t.Helper()
	base := filepath.Join(root, "bin/lab/wine/prefix")
	if _, err := os.Stat(base); errors.Is(err, fs.ErrNotExist) {
		t.Fatal("there is no Wine prefix: run `make bin/lab/wine/.complete`")
	}
	scratch := "/run/wine"
	over := filepath.Join(scratch, "prefix")
	for _, folder := range []string{over, filepath.Join(scratch, "upper"), filepath.Join(scratch, "work")} {
		check(t, os.MkdirAll(folder, 0o700))
	}
	check(t, unix.Mount("overlay", over, "overlay", 0, fmt.Sprintf("lowerdir=%s,upperdir=%s/upper,workdir=%s/work", base,
		scratch, scratch)))
	adapter := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "Ethernet", MTU: 1500}, PeerName: "underlay"}
	check(t, netlink.LinkAdd(adapter))
	for _, name := range []string{"Ethernet", "underlay"} {
		link, err := netlink.LinkByName(name)
		check(t, err)
		check(t, netlink.LinkSetUp(link))
	}
	address, err := netlink.ParseAddr(adapterAddress)
	check(t, err)
	check(t, netlink.AddrAdd(adapter, address))
	log := slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))
	plane, err := hns.NewLinux(log)
	check(t, err)
	service, err := hns.New(hns.Config{DataPlane: plane, Log: log, StateFile: filepath.Join(t.TempDir(), "state")})
	check(t, err)
	calls, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 2)
	go func() { ended <- hns.ServeRPC(ctx, calls, service, plane.Host()) }()
	go func() { ended <- plane.Run(ctx) }()
	host = &wineHost{env: slices.Concat(hns.WineEnv(over, t.TempDir(), calls.Addr().String()), env), service: service}
	// While somebody is there Windows is up: without anybody Wine ends its services, and starts those that start with
	// Windows when the next program comes.
	session := exec.Command(hns.WineProgram, "cmd.exe")
	session.Env = host.env
	stays, err := session.StdinPipe()
	check(t, err)
	check(t, session.Start())
	t.Cleanup(func() {
		stays.Close()
		_ = session.Wait() // it ends as the server does
		server := exec.Command(hns.WineServer, "-k")
		server.Env = host.env
		_ = server.Run() // the process namespace ends with the test anyway
		cancel()
		for range 2 {
			check(t, <-ended)
		}
		calls.Close()
	})
	return host, filepath.Join(over, "drive_c")
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// run runs a Windows program; output is what it prints, or its errors where it prints nothing.
func (h *wineHost) run(m *machine, program string, words ...string) (output string, rc int) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, hns.WineProgram, append([]string{program}, words...)...)
	cmd.Env = h.env
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	cmd.WaitDelay = 5 * time.Second // what Wine leaves running may hold the pipes
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) && !errors.Is(err, exec.ErrWaitDelay) {
		m.fail("run %s %q: %v", program, words, err)
	}
	if stdout.Len() == 0 {
		return stderr.String(), cmd.ProcessState.ExitCode()
	}
	return stdout.String(), cmd.ProcessState.ExitCode()
}

func (h *wineHost) weft(m *machine, argv ...string) (string, int) {
	return h.run(m, argv[0], argv[1:]...)
}

var value = regexp.MustCompile(`(?m)^\s+(\w+)\s+REG_\w+\s+(.*?)\s*$`)

// look reads what the service control manager has of the agent's service. It only keeps the recovery actions.
func (h *wineHost) look(m *machine) {
	delete(m.services, agentService)
	output, rc := h.run(m, "reg", "query", `HKLM\System\CurrentControlSet\Services\`+agentService)
	if rc != 0 {
		return
	}
	found := &service{Dependencies: []string{"hns"}, Recovery: make([]map[string]any, 3)}
	for _, match := range value.FindAllStringSubmatch(output, -1) {
		switch match[1] {
		case "ImagePath":
			found.Path = match[2]
		case "Start":
			found.Start = map[string]string{"0x2": "auto"}[match[2]]
		}
	}
	state, _ := h.weft(m, installedWeft, "service", "status")
	found.Running = strings.TrimSpace(state) == "running"
	m.services[agentService] = found
}

// makeNetwork is what the agent does to the adapter, and what it writes down of it.
func (h *wineHost) makeNetwork(t *testing.T, m *machine) {
	t.Helper()
	reply := h.service.Call("HcnCreateNetwork", "", 0, `{"Name":"weft","Type":"Transparent","SchemaVersion":{"Major":2,"Minor":0},
		"Policies":[{"Type":"NetAdapterName","Settings":{"NetworkAdapterName":"Ethernet"}}]}`)
	var network struct{ ID string }
	id := networkID.FindString(fmt.Sprintf("%+v %s", reply, h.state(t)))
	if network.ID = id; id == "" {
		t.Fatalf("no network: %+v", reply)
	}
	content, err := json.Marshal(map[string]any{"adapter": "Ethernet", "mac": "", "addresses": []string{adapterAddress},
		"routes": []any{},
		"dns":    map[string]any{}, "dhcp": false, "network": network.ID, "ready": true})
	check(t, err)
	m.write(`C:\ProgramData\weft\host.json`, content)
}

var networkID = regexp.MustCompile(`[0-9A-F]{8}(-[0-9A-F]{4}){3}-[0-9A-F]{12}`)

func (h *wineHost) state(t *testing.T) string {
	t.Helper()
	state, err := h.service.Control([]string{"state"})
	check(t, err)
	return state
}

// holder is the device that has the host's address.
func holder(t *testing.T) string {
	t.Helper()
	links, err := netlink.LinkList()
	check(t, err)
	for _, link := range links {
		addresses, err := netlink.AddrList(link, netlink.FAMILY_V4)
		check(t, err)
		for _, a := range addresses {
			if a.IPNet.String() == adapterAddress {
				return link.Attrs().Name
			}
		}
	}
	return ""
}
