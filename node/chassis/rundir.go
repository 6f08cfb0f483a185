//go:build linux

package chassis

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weftnet/weft/models/hostfile"
	"github.com/weftnet/weft/models/signal"
)

const (
	maxSocketPath  = 107 // of sun_path's 108 bytes the last is a zero
	databaseSocket = "db.sock"
	bridgeSocket   = "br-int.mgmt"        // the integration bridge is br-int on all nodes
	controlSocket  = "ovn-controller.ctl" // a link to ownSocket of the one that runs
	ownSocket      = "ovn-controller.%d.ctl"
	longestSocket  = len("/ovn-controller.4194304.ctl") // Linux has no higher PID
	shortestFolder = 24
)

// runDir has a folder for each node that is held, and a lock that this process and all its children
// have open: who gets it knows that the ones before are dead.
type runDir struct {
	path string
	lock *os.File
}

// lockPatience is for the children of a process that was just killed.
const lockPatience = 5 * time.Second

var (
	lockFile = &hostfile.File{
		Path: "{run-dir}/lock", Mode: 0o600,
		Content: "The identity of the `weft chassis` that uses the folder, and when it started.",
		Loss:    "The next one makes it again, and may have to wait until the Lease of the former one has expired.",
	}
	// ownerFile marks a folder as ours.
	ownerFile = &hostfile.File{
		Path: "{run-dir}/NODE/weft-node", Mode: 0o600,
		Content: "The name of the node that the folder is for. The folder also has the sockets of the node's ovn-controller.",
		Loss:    "Nothing. `weft chassis` makes the folder again when it takes the node.",
	}
)

// openRunDir takes the folder for this process and removes what a former one has left. predecessor
// is that one's instance, empty if there was none.
func openRunDir(ctx context.Context, path, instance string) (dir *runDir, predecessor string, err error) {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, "", fmt.Errorf("run-dir: %w", err)
	}
	lock, err := os.OpenFile(lockFile.In(path), os.O_RDWR|os.O_CREATE, lockFile.Mode)
	if err != nil {
		return nil, "", fmt.Errorf("run-dir: %w", err)
	}
	dir = &runDir{path, lock}
	predecessor, err = dir.acquire(ctx, instance)
	if err != nil {
		lock.Close()
		return nil, "", fmt.Errorf("run-dir: %s: %w", path, err)
	}
	return dir, predecessor, nil
}

func (d *runDir) acquire(ctx context.Context, instance string) (predecessor string, err error) {
	for deadline := time.Now().Add(lockPatience); ; {
		err := unix.Flock(int(d.lock.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			break
		}
		if !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) {
			return "", fmt.Errorf("lock: %w", err)
		}
		if time.Now().After(deadline) || ctx.Err() != nil {
			return "", errors.New("another `weft chassis` or its ovn-controllers use it; end them, or give each its own run-dir")
		}
		signal.Sleep(ctx, 50*time.Millisecond)
	}
	text, err := io.ReadAll(io.LimitReader(d.lock, 1024))
	if err != nil {
		return "", err
	}
	if err := d.lock.Truncate(0); err != nil {
		return "", err
	}
	if _, err := d.lock.WriteAt([]byte(instance), 0); err != nil {
		return "", err
	}
	return string(text), d.clean()
}

// clean removes the nodes' folders of a process that has died.
func (d *runDir) clean() error {
	entries, err := os.ReadDir(d.path)
	if err != nil {
		return err
	}
	var errs []error
	for _, entry := range entries {
		folder := filepath.Join(d.path, entry.Name())
		if _, err := os.Lstat(ownerFile.In(folder)); entry.IsDir() && err == nil {
			errs = append(errs, os.RemoveAll(folder))
		}
	}
	return errors.Join(errs...)
}

// folder is where a node's sockets are; their addresses are bounded.
func (d *runDir) folder(node string) string {
	return filepath.Join(d.path, shortened(node, maxSocketPath-len(d.path)-len("/")-longestSocket))
}

// make makes a node's folder, empty and for root only.
func (d *runDir) make(node string) (folder string, err error) {
	folder = d.folder(node)
	if strings.ContainsAny(node, "/\x00") || filepath.Dir(folder) != filepath.Clean(d.path) {
		return "", fmt.Errorf("node %q has a name that cannot be a folder's", node)
	}
	if err := os.RemoveAll(folder); err != nil {
		return "", err
	}
	if err := os.Mkdir(folder, 0o700); err != nil {
		return "", err
	}
	return folder, os.WriteFile(ownerFile.In(folder), []byte(node+"\n"), ownerFile.Mode)
}

// close leaves the instance's name in the lock: whoever reads it there knows that it is dead.
func (d *runDir) close() error { return errors.Join(d.clean(), d.lock.Close()) }
