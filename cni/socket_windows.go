package cni

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"github.com/Microsoft/go-winio"
	"golang.org/x/sys/windows"
)

// DefaultSocket is where agent and plugin meet when nobody says otherwise.
const DefaultSocket = WindowsSocket

// pipeAccess: the pipe is the Administrators' and has no access for anybody but them and LocalSystem.
// go-winio refuses clients from other machines by itself (FILE_PIPE_REJECT_REMOTE_CLIENTS), and makes
// its first instance with FILE_CREATE, which fails where somebody else has the name already.
const pipeAccess = "O:BAG:SYD:P(A;;GA;;;SY)(A;;GA;;;BA)"

// Dial connects the plugin to the agent at socket, [DefaultSocket] if empty. A pipe that is not
// LocalSystem's or the Administrators' is not the agent's: whoever may run programs on the node can
// take its name while no agent has it.
func Dial(ctx context.Context, socket string) (net.Conn, error) {
	if socket == "" {
		socket = DefaultSocket
	}
	conn, err := winio.DialPipeContext(ctx, socket)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", socket, err)
	}
	if err := ownedBySystem(conn); err != nil {
		conn.Close()
		return nil, fmt.Errorf("pipe %s: %w", socket, err)
	}
	return conn, nil
}

func ownedBySystem(conn net.Conn) error {
	file, ok := conn.(interface{ Fd() uintptr })
	if !ok {
		return errors.New("has no handle whose owner could be asked for")
	}
	descriptor, err := windows.GetSecurityInfo(windows.Handle(file.Fd()), windows.SE_KERNEL_OBJECT,
		windows.OWNER_SECURITY_INFORMATION)
	if err != nil {
		return fmt.Errorf("read its owner: %w", err)
	}
	owner, _, err := descriptor.Owner()
	if err != nil {
		return fmt.Errorf("read its owner: %w", err)
	}
	if !owner.IsWellKnown(windows.WinLocalSystemSid) && !owner.IsWellKnown(windows.WinBuiltinAdministratorsSid) {
		return fmt.Errorf("belongs to %s and not to the Administrators or LocalSystem: it is not the agent's", owner)
	}
	return nil
}

// Listen opens the agent's end of socket, a named pipe that Administrators and LocalSystem of this
// machine alone can reach. A pipe that another process serves is left to it.
func Listen(socket string) (net.Listener, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	// Wine lets a second process listen on a pipe.
	if conn, err := winio.DialPipeContext(ctx, socket); err == nil {
		conn.Close()
		return nil, fmt.Errorf("listen for the cni plugin: another process serves %s; is `weft node` running twice?", socket)
	}
	listener, err := winio.ListenPipe(socket, &winio.PipeConfig{SecurityDescriptor: pipeAccess})
	if errors.Is(err, windows.ERROR_ACCESS_DENIED) || errors.Is(err, os.ErrExist) {
		return nil, fmt.Errorf("listen for the cni plugin: another process serves %s; is `weft node` running twice? (%w)",
			socket, err)
	}
	if err != nil {
		return nil, fmt.Errorf("listen for the cni plugin: %w", err)
	}
	return listener, nil
}

// Prime takes the first instance of a pipe that [Listen] has just made out of the way. On Windows
// clients cannot connect to it, since go-winio opens it without the right to read or write; under Wine
// the first one can, and then waits for ever. It is for agents under Wine alone.
func Prime(ctx context.Context, socket string) error {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	conn, err := winio.DialPipeContext(ctx, socket)
	if err != nil {
		return fmt.Errorf("take the first instance of pipe %s: %w", socket, err)
	}
	return conn.Close()
}

// Leftover says whether an attachment's endpoint may still be on this node. The plugin cannot know:
// endpoints are HNS's, and to ask it needs more than a program that starts for each call should load.
// So a DEL without agent is tried again, and the runtime keeps the sandbox until an agent answers.
func Leftover(Attachment) bool { return true }
