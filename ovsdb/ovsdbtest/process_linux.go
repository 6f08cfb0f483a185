package ovsdbtest

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// ServerTLS is Server that listens by TLS alone, on a port of the loopback interface.
func ServerTLS(t testing.TB, d Database, cert, key, ca string) *Process {
	t.Helper()
	p := create(t, d)
	p.args = append(p.args, "--remote=pssl:0:127.0.0.1", "--private-key="+key, "--certificate="+cert, "--ca-cert="+ca)
	p.Start()
	p.Endpoint = "ssl:127.0.0.1:" + p.port()
	return p
}

// StartTLSOn starts a killed server on the port that it had.
func (p *Process) StartTLSOn(endpoint string) {
	p.t.Helper()
	port := endpoint[strings.LastIndexByte(endpoint, ':')+1:]
	for i, arg := range p.args {
		if arg == "--remote=pssl:0:127.0.0.1" {
			p.args[i] = "--remote=pssl:" + port + ":127.0.0.1"
		}
	}
	p.Start()
}

// Pause stops the server without closing its connections, as a lost network would; Resume lets it
// go on.
func (p *Process) Pause() { p.cmd.Process.Signal(syscall.SIGSTOP) }

// Resume ends a Pause.
func (p *Process) Resume() { p.cmd.Process.Signal(syscall.SIGCONT) }

// port is where a server that was told port 0 listens.
func (p *Process) port() string {
	p.t.Helper()
	var port string
	waitUntil(p.t, "ovsdb-server listens on a TCP port", func() bool {
		port = listeningPort(p.t, p.cmd.Process.Pid)
		return port != ""
	})
	return port
}

// dieWithParent ends the server even where the test is killed.
func dieWithParent() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }

// listeningPort finds the TCP port that a process listens on by its sockets in /proc.
func listeningPort(t testing.TB, pid int) string {
	t.Helper()
	sockets := map[string]bool{}
	links, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, link := range links {
		if to, err := os.Readlink(link); err == nil {
			if inode, ok := strings.CutPrefix(to, "socket:["); ok {
				sockets[strings.TrimSuffix(inode, "]")] = true
			}
		}
	}
	file, err := os.Open("/proc/net/tcp")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		// sl, local_address, rem_address, st, ... inode; 0A is LISTEN
		fields := strings.Fields(lines.Text())
		if len(fields) < 10 || fields[3] != "0A" || !sockets[fields[9]] {
			continue
		}
		_, hex, _ := strings.Cut(fields[1], ":")
		port, err := strconv.ParseUint(hex, 16, 16)
		if err != nil {
			t.Fatal(err)
		}
		return strconv.FormatUint(port, 10)
	}
	return ""
}
