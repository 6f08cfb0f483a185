package cni_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/Microsoft/go-winio"

	"github.com/weftnet/weft/cni"
)

// testSocket is a pipe's name that no other test has.
func testSocket(t *testing.T) string {
	return fmt.Sprintf(`\\.\pipe\weft-test-%d-%d`, os.Getpid(), time.Now().UnixNano())
}

// prime is for tests under Wine; on Windows nothing answers.
func prime(t *testing.T, socket string) {
	if err := cni.Prime(t.Context(), socket); err != nil {
		t.Log(err)
	}
}

func TestPipeIsLeftToItsOwner(t *testing.T) {
	socket := testSocket(t)
	first, err := cni.Listen(socket)
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	if second, err := cni.Listen(socket); err == nil {
		second.Close()
		t.Error("two agents have one pipe")
	} else if !strings.Contains(err.Error(), "running twice") {
		t.Errorf("got %v", err)
	}
}

func TestPipeOfDeadAgentIsTakenOver(t *testing.T) {
	socket := testSocket(t)
	for range 2 {
		listener, err := cni.Listen(socket)
		if err != nil {
			t.Fatal(err)
		}
		prime(t, socket)
		listener.Close()
	}
}

// Somebody else's pipe of that name is not told about pods.
func TestPipeOfAStrangerIsNotTheAgents(t *testing.T) {
	socket := testSocket(t)
	listener, err := winio.ListenPipe(socket, &winio.PipeConfig{SecurityDescriptor: "O:WDD:(A;;GA;;;WD)"})
	if err != nil {
		t.Skipf("this user may not make a pipe for everybody: %v", err)
	}
	defer listener.Close()
	prime(t, socket)
	go func() {
		if conn, err := listener.Accept(); err == nil {
			conn.Close()
		}
	}()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	if conn, err := cni.Dial(ctx, socket); err == nil {
		conn.Close()
		t.Error("talks to a stranger")
	} else if !strings.Contains(err.Error(), "belongs to") {
		t.Errorf("got %v", err)
	}
}
