package main

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
)

// TestPageIsServedUntilInterrupted at the address that is printed.
func TestPageIsServedUntilInterrupted(t *testing.T) {
	kubeconfig := serving(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"items": []}`)
	})
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	out, printed := io.Pipe()
	root := rootCommand()
	root.SetArgs([]string{"ui", "--no-open", "--kubeconfig", kubeconfig, "--context", "night"})
	root.SetOut(printed)
	ended := make(chan error, 1)
	go func() { ended <- root.ExecuteContext(ctx) }()
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	_, url, _ := strings.Cut(strings.TrimSpace(line), ": ")
	page, key, _ := strings.Cut(url, "#key=")
	if !strings.HasPrefix(page, "http://127.0.0.1:") || len(key) < 26 {
		t.Fatalf("it prints %q", line)
	}
	answer, err := http.Get(page)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(answer.Body)
	if err != nil || !strings.Contains(string(text), "<title>Weft</title>") {
		t.Errorf("%v: it serves %s", err, text)
	}
	if err := answer.Body.Close(); err != nil {
		t.Error(err)
	}
	interrupt()
	if err := <-ended; err != nil {
		t.Errorf("after an interrupt: %v", err)
	}
	if answer, err := http.Get(page); err == nil {
		t.Errorf("it still answers: %s", answer.Status)
	}
}

func TestPageThatIsNotServed(t *testing.T) {
	kubeconfig := serving(t, http.NotFound)
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	port := strconv.Itoa(taken.Addr().(*net.TCPAddr).Port)
	for value, want := range map[string]string{port: "give another one", "65536": "port: 65536 is not from 0 to 65535"} {
		code, _, errs := runCommand(t, "ui", "--no-open", "--kubeconfig", kubeconfig, "--context", "night", "--port", value)
		if code != 3 || !strings.Contains(errs, want) {
			t.Errorf("port %s: exit code %d, %q", value, code, errs)
		}
	}
	code, _, errs := runCommand(t, "ui", "--no-open", "--kubeconfig", "nowhere")
	if code != 3 || !strings.Contains(errs, "nowhere") {
		t.Errorf("without a kubeconfig: exit code %d, %q", code, errs)
	}
}
