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
const (
	folderAccess  = "O:BAD:P(A;OICI;FA;;;SY)(A;OICI;FA;;;BA)"
	contentAccess = "O:BAD:(A;;FA;;;SY)(A;;FA;;;BA)"
)

// SecureFolder makes the agent's folder. One that is there already becomes the Administrators' with all that is in
// it, and what others may do with it ends; a file or a link in its place, or a link in it, is refused.
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
	if err := takeFolder(path, access); err != nil {
		return err
	}
	return takeContents(path)
}

func takeFolder(path string, access *windows.SECURITY_DESCRIPTOR) error {
	return take(path, access, windows.PROTECTED_DACL_SECURITY_INFORMATION)
}

// take makes a file or a folder the Administrators', with an access list that its folder adds to, or does not.
func take(path string, access *windows.SECURITY_DESCRIPTOR, inherits windows.SECURITY_INFORMATION) error {
	owner, _, err := access.Owner()
	if err != nil {
		return err
	}
	list, _, err := access.DACL()
	if err != nil {
		return err
	}
	err = windows.SetNamedSecurityInfo(path, windows.SE_FILE_OBJECT,
		windows.OWNER_SECURITY_INFORMATION|windows.DACL_SECURITY_INFORMATION|inherits, owner, nil, list, nil)
	if err != nil {
		return fmt.Errorf("close %s to all but Administrators: %w; run the agent as LocalSystem or as an Administrator",
			path, err)
	}
	return nil
}

// takeContents gives what is in a folder the folder's own access list. Who has prepared a file there could go on
// reading or writing it otherwise, since nobody has to pass a folder to open a file whose name he knows.
func takeContents(path string) error {
	access, err := windows.SecurityDescriptorFromString(contentAccess)
	if err != nil {
		return err
	}
	return filepath.WalkDir(path, func(name string, entry fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist): // gone meanwhile
			return nil
		case err != nil:
			return err
		case name == path:
			return nil
		case !entry.IsDir() && !entry.Type().IsRegular():
			return fmt.Errorf("%s is neither a folder nor a file; remove it", name)
		}
		err = take(name, access, windows.UNPROTECTED_DACL_SECURITY_INFORMATION)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	})
}
