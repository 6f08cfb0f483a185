// Package ofctl stands in for ovs-ofctl.exe in the lab. A Windows node has that program beside its Open
// vSwitch; the lab's Windows nodes have a Linux one, which a program under Wine cannot run or reach by its unix
// sockets. So what the agent finds as ovs-ofctl.exe carries arguments and standard input to loopback inside
// the machine, where the real ovs-ofctl is run with them. It is no part of what is shipped.
package ofctl

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os/exec"
	"time"
)

// Address is where the stand-in finds the real program.
const Address = "127.0.0.1:19799"

const limit = 30 * time.Second

// A request is a call of the program, an answer how it ended.
type (
	request struct {
		Args  []string
		Stdin []byte
	}
	answer struct {
		Stdout, Stderr []byte
		Code           int
	}
)

// Call runs the program at the other side of address as if it were here, and returns its exit code.
func Call(address string, args []string, stdin io.Reader, stdout, stderr io.Writer) (int, error) {
	ask := request{Args: args}
	if readsInput(args) {
		var err error
		if ask.Stdin, err = io.ReadAll(stdin); err != nil {
			return 0, fmt.Errorf("read the standard input: %w", err)
		}
	}
	conn, err := net.DialTimeout("tcp", address, limit)
	if err != nil {
		return 0, fmt.Errorf("reach the lab's ovs-ofctl: %w", err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(limit)); err != nil {
		return 0, err
	}
	if err := json.NewEncoder(conn).Encode(ask); err != nil {
		return 0, fmt.Errorf("call the lab's ovs-ofctl: %w", err)
	}
	var got answer
	if err := json.NewDecoder(conn).Decode(&got); err != nil {
		return 0, fmt.Errorf("hear from the lab's ovs-ofctl: %w", err)
	}
	_, first := stdout.Write(got.Stdout)
	_, second := stderr.Write(got.Stderr)
	return got.Code, errors.Join(first, second)
}

// readsInput: a program that reads what nobody writes would wait for it.
func readsInput(args []string) bool { return len(args) > 0 && args[len(args)-1] == "-" }

// Serve runs the program for whoever calls, until ctx ends.
func Serve(ctx context.Context, listener net.Listener, program string) error {
	defer context.AfterFunc(ctx, func() { listener.Close() })()
	for {
		conn, err := listener.Accept()
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		go func() {
			defer conn.Close()
			if err := run(ctx, conn, program); err != nil {
				slog.Error("run ovs-ofctl for a Windows program", "err", err)
			}
		}()
	}
}

func run(ctx context.Context, conn net.Conn, program string) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	if err := conn.SetDeadline(time.Now().Add(limit)); err != nil {
		return err
	}
	var ask request
	if err := json.NewDecoder(conn).Decode(&ask); err != nil {
		return err
	}
	command := exec.CommandContext(ctx, program, ask.Args...)
	command.Stdin = bytes.NewReader(ask.Stdin)
	var stdout, stderr bytes.Buffer
	command.Stdout, command.Stderr = &stdout, &stderr
	err := command.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return err
	}
	return json.NewEncoder(conn).Encode(answer{stdout.Bytes(), stderr.Bytes(), command.ProcessState.ExitCode()})
}
