package cni

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/weftnet/weft/models/hostfile"
)

// DefaultSocket is where agent and plugin meet when nobody says otherwise.
const DefaultSocket = LinuxSocket

// Dial connects the plugin to the agent at socket, [DefaultSocket] if empty.
func Dial(ctx context.Context, socket string) (net.Conn, error) {
	if socket == "" {
		socket = DefaultSocket
	}
	return (&net.Dialer{}).DialContext(ctx, "unix", socket)
}

var socketFile = &hostfile.File{
	Path: "{cni-socket}", Mode: 0o600,
	Content: "The socket at which weft-cni finds the agent. Its folder has the mode 0700. On Windows it is a named pipe.",
	Loss:    "The agent makes it again when it starts.",
}

// Listen opens the agent's end of socket, which root alone can reach: its folder has mode 0700,
// the socket 0600, and a peer of another user is turned away. A socket that another process still
// serves is left to it.
func Listen(socket string) (net.Listener, error) {
	if err := privateFolder(filepath.Dir(socket)); err != nil {
		return nil, fmt.Errorf("listen for the cni plugin: %w", err)
	}
	if conn, err := net.Dial("unix", socket); err == nil {
		conn.Close()
		return nil, fmt.Errorf("listen for the cni plugin: another process serves %s; is `weft node` running twice?", socket)
	}
	if err := os.Remove(socket); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("listen for the cni plugin: %w", err)
	}
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: socket, Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("listen for the cni plugin: %w", err)
	}
	if err := os.Chmod(socket, socketFile.Mode); err != nil {
		listener.Close()
		return nil, fmt.Errorf("listen for the cni plugin: %w", err)
	}
	return &rootListener{UnixListener: listener, owner: uint32(os.Geteuid())}, nil
}

// privateFolder makes the folder. One that others may enter is refused, not changed: it may be
// the system's.
func privateFolder(folder string) error {
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return err
	}
	info, err := os.Stat(folder)
	if err != nil {
		return err
	}
	if info.Mode().Perm()&0o077 != 0 {
		return fmt.Errorf("others may enter %s (mode %04o); run `chmod 700 %s`, or set cni-socket to a path in a folder "+
			"of its own",
			folder, info.Mode().Perm(), folder)
	}
	return nil
}

// rootListener accepts peers of one user: the agent's own, which is root.
type rootListener struct {
	*net.UnixListener
	owner uint32
}

func (l *rootListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.AcceptUnix()
		if err != nil {
			return nil, err
		}
		uid, err := peerUID(conn)
		if err == nil && uid == l.owner {
			return conn, nil
		}
		slog.Warn("turned away a peer on the cni socket", "uid", uid, "error", err)
		conn.Close()
	}
}

func peerUID(conn *net.UnixConn) (uint32, error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return 0, err
	}
	var credentials *unix.Ucred
	var failure error
	if err := raw.Control(func(fd uintptr) {
		credentials, failure = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	}); err != nil {
		return 0, err
	}
	if failure != nil {
		return 0, failure
	}
	return credentials.Uid, nil
}

// Leftover says whether an attachment's device is still on this node.
func Leftover(attachment Attachment) bool {
	_, err := net.InterfaceByName(HostInterface(attachment))
	return err == nil
}
