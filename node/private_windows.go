package node

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"unsafe"

	"golang.org/x/sys/windows"
)

// folderAccess: Administrators and LocalSystem alone, for all that is and will be below. Unlike other
// folders, those in ProgramData may be made by every user of the machine.
const folderAccess = "O:BAD:P(A;OICI;FA;;;SY)(A;OICI;FA;;;BA)"

// privateFolder makes a folder below the agent's own, which [SecureFolder] has closed to others.
func privateFolder(path string) error { return os.MkdirAll(path, 0o700) }

// SecureFolder makes the agent's folder. One that is there already becomes the Administrators', and
// what others may do with it ends; a file or a link in its place is refused.
func SecureFolder(path string) error {
	access, err := windows.SecurityDescriptorFromString(folderAccess)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	name, err := windows.UTF16PtrFromString(path)
	if err != nil {
		return fmt.Errorf("folder %s: %w", path, err)
	}
	attributes := &windows.SecurityAttributes{SecurityDescriptor: access}
	attributes.Length = uint32(unsafe.Sizeof(*attributes))
	err = windows.CreateDirectory(name, attributes)
	if err == nil {
		return nil
	}
	if !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("make folder %s: %w", path, err)
	}
	info, err := os.Lstat(path)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return fmt.Errorf("%s is no folder; remove it", path)
	}
	return takeFolder(path, access)
}

func takeFolder(path string, access *windows.SECURITY_DESCRIPTOR) error {
	owner, _, err := access.Owner()
	if err != nil {
		return err
	}
	list, _, err := access.DACL()
	if err != nil {
		return err
	}
	err = windows.SetNamedSecurityInfo(path, windows.SE_FILE_OBJECT,
		windows.OWNER_SECURITY_INFORMATION|windows.DACL_SECURITY_INFORMATION|windows.PROTECTED_DACL_SECURITY_INFORMATION,
		owner, nil, list, nil)
	if err != nil {
		return fmt.Errorf("close folder %s to all but Administrators: %w; run the agent as LocalSystem or as an Administrator", path, err)
	}
	return nil
}
