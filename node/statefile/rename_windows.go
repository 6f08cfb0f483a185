package statefile

import (
	"errors"
	"os"
	"time"

	"golang.org/x/sys/windows"
)

// busy is how long another program may have the file open.
const busy = 10 * time.Second

// rename waits for whoever has the file open, such as the doctor or a virus scanner: Windows replaces no file that
// somebody has open without FILE_SHARE_DELETE (documentation of MoveFileEx and CreateFile).
func rename(from, to string) error {
	for deadline := time.Now().Add(busy); ; time.Sleep(10 * time.Millisecond) {
		err := os.Rename(from, to)
		held := errors.Is(err, windows.ERROR_ACCESS_DENIED) || errors.Is(err, windows.ERROR_SHARING_VIOLATION)
		if !held || time.Now().After(deadline) {
			return err
		}
	}
}
