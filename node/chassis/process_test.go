//go:build linux

package chassis

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/weftnet/weft/node/nodetest"
	"github.com/weftnet/weft/test/freeport"
)

// hostMark in the environment turns this program into a chassis host; its value is the Config in JSON.
const hostMark = "WEFT_TEST_CHASSIS_HOST"

func hostProcess() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	var config Config
	if err := json.Unmarshal([]byte(os.Getenv(hostMark)), &config); err != nil {
		panic(err)
	}
	if err := Run(ctx, config); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// hostProgram is a chassis host in a process of its own.
type hostProgram struct {
	tb     testing.TB
	config Config
	*exec.Cmd
	log    string
	exited chan struct{}
}

func startProgram(tb testing.TB, config Config) *hostProgram {
	tb.Helper()
	config.MetricsAddress = freeport.Address(tb)
	text, err := json.Marshal(config)
	if err != nil {
		tb.Fatal(err)
	}
	program, err := os.Executable()
	if err != nil {
		tb.Fatal(err)
	}
	p := &hostProgram{tb: tb, config: config, Cmd: exec.Command(program), exited: make(chan struct{}),
		log: filepath.Join(tb.TempDir(), "log")}
	file, err := os.Create(p.log)
	if err != nil {
		tb.Fatal(err)
	}
	defer file.Close()
	p.Env, p.Stdout, p.Stderr = append(os.Environ(), hostMark+"="+string(text)), file, file
	if err := p.Start(); err != nil {
		tb.Fatal(err)
	}
	go func() {
		_ = p.Wait() // tests kill it
		close(p.exited)
	}()
	tb.Cleanup(func() {
		p.kill()
		if content, err := os.ReadFile(p.log); tb.Failed() && err == nil {
			lines := strings.Split(string(content), "\n")
			tb.Logf("host %s:\n%s", config.Identity, strings.Join(lines[max(0, len(lines)-60):], "\n"))
		}
	})
	return p
}

func (p *hostProgram) kill() {
	_ = p.Process.Kill() // it may have ended
	<-p.exited
}

// terminate ends it as systemd does.
func (p *hostProgram) terminate() {
	p.tb.Helper()
	if err := p.Process.Signal(syscall.SIGTERM); err != nil {
		p.tb.Fatal(err)
	}
	select {
	case <-p.exited:
	case <-time.After(nodetest.Patience):
		p.tb.Fatal("it does not end")
	}
	if code := p.ProcessState.ExitCode(); code != 0 {
		p.tb.Errorf("it ended with %d", code)
	}
}

// ready is what /readyz says.
func (p *hostProgram) ready() (string, error) {
	return p.get("readyz")
}

func (p *hostProgram) get(what string) (string, error) {
	answer, err := http.Get("http://" + p.config.MetricsAddress + "/" + what)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	var text strings.Builder
	if _, err := fmt.Fprint(&text, answer.StatusCode, " "); err != nil {
		return "", err
	}
	buffer := make([]byte, 1<<20)
	for {
		n, err := answer.Body.Read(buffer)
		text.Write(buffer[:n])
		if err != nil {
			return text.String(), nil
		}
	}
}

// awaitState waits until /readyz says so of a node.
func (p *hostProgram) awaitState(node string, words ...string) {
	p.tb.Helper()
	nodetest.Eventually(p.tb, 30*time.Second, func() error {
		text, err := p.ready()
		if err != nil {
			return err
		}
		for line := range strings.SplitSeq(text, "\n") {
			if !strings.HasPrefix(line, node+" ") {
				continue
			}
			for _, word := range words {
				if !strings.Contains(line, word) {
					return fmt.Errorf("%q", line)
				}
			}
			return nil
		}
		return fmt.Errorf("it does not hold %s: %s", node, text)
	})
}

// processesIn are those whose working directory is below a folder.
func processesIn(folder string) []int {
	var found []int
	links, _ := filepath.Glob("/proc/[0-9]*/cwd") // the pattern is valid
	for _, link := range links {
		target, err := os.Readlink(link)
		if err != nil || !strings.HasPrefix(target, folder+"/") {
			continue
		}
		var pid int
		if _, err := fmt.Sscanf(link, "/proc/%d/cwd", &pid); err == nil {
			found = append(found, pid)
		}
	}
	return found
}
