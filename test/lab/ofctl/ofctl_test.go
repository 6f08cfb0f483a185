package ofctl

import (
	"bytes"
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Arguments, standard input, both outputs and the exit code arrive.
func TestCall(t *testing.T) {
	program := filepath.Join(t.TempDir(), "ovs-ofctl")
	script := "#!/bin/sh\nfor a; do echo \"<$a>\"; done\n[ \"$2\" != - ] || cat\necho problem >&2\nexit 3\n"
	if err := os.WriteFile(program, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- Serve(ctx, listener, program) }()
	for _, test := range []struct{ args, stdout string }{
		{"dump-flows br ex", "<dump-flows>\n<br ex>\n"},
		{"add-flow -", "<add-flow>\n<->\nadd priority=1,actions=drop\n"},
	} {
		var stdout, stderr bytes.Buffer
		command, rest, _ := strings.Cut(test.args, " ")
		code, err := Call(listener.Addr().String(), []string{command, rest},
			strings.NewReader("add priority=1,actions=drop\n"), &stdout, &stderr)
		if err != nil || code != 3 || stdout.String() != test.stdout || stderr.String() != "problem\n" {
			t.Errorf("%s: code %d, %v, stdout %q, stderr %q", test.args, code, err, &stdout, &stderr)
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
