package node

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/windows"

	"github.com/weftnet/weft/models/hostfile"
	"github.com/weftnet/weft/node/statefile"
)

var lockHostFile = &hostfile.File{
	Path: "{state-dir}/weft-node.lock", Mode: statefile.Mode,
	Content: "Nothing. The agent and `weft node release` each lock it for as long as they run, so that only one of them " +
		"works on the host's adapter (Windows).",
	Loss: "It is made again at the next start.",
}

// errLocked: another process works on the host's adapter.
var errLocked = errors.New("another `weft node`, or a `weft node release`, is still at work on the host's adapter: " +
	"stop the agent (weft service stop), and wait until its process has ended (`weft service status` prints stopped)")

// lockState locks an agent's folder until the file is closed, or the process ends however it does. The CNI plugin's
// pipe is not enough: an agent opens it late, closes it first, and goes on with the HNS network.
func lockState(folder string) (*os.File, error) {
	path := lockHostFile.In(folder)
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, lockHostFile.Mode)
	if err != nil {
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	// Far behind the file's end: Windows keeps others from what is locked, and the file is to be readable.
	err = windows.LockFileEx(windows.Handle(file.Fd()), windows.LOCKFILE_EXCLUSIVE_LOCK|
		windows.LOCKFILE_FAIL_IMMEDIATELY, 0, 1, 0, &windows.Overlapped{OffsetHigh: 1})
	if err == nil {
		return file, nil
	}
	file.Close()
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) {
		err = errLocked
	}
	return nil, fmt.Errorf("lock %s: %w", path, err)
}
