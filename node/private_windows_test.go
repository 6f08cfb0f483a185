package node

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/windows"

	"github.com/weftnet/weft/node/nodetest"
)

// A folder that somebody else has prepared becomes the Administrators'.
func TestFolderIsClosedToOthers(t *testing.T) {
	path := nodetest.Folder(t) + `\made\by\weft`
	for range 2 { // made, and found
		if err := SecureFolder(path); err != nil {
			t.Fatal(err)
		}
		found, err := windows.GetNamedSecurityInfo(path, windows.SE_FILE_OBJECT,
			windows.OWNER_SECURITY_INFORMATION|windows.DACL_SECURITY_INFORMATION)
		if err != nil {
			t.Fatal(err)
		}
		everybody, err := windows.CreateWellKnownSid(windows.WinWorldSid)
		if err != nil {
			t.Fatal(err)
		}
		if text := found.String(); !underWine() &&
			(strings.Contains(text, ";;;WD)") || strings.Contains(text, everybody.String())) {
			t.Errorf("the folder has %s", text)
		}
	}
}

// What somebody has put into the folder before is closed to him, too, and a link, by which he would have other
// files changed, is refused.
func TestWhatIsInTheFolderIsClosedToOthers(t *testing.T) {
	path := nodetest.Folder(t) + `\weft`
	planted := path + `\below\tls.key`
	if err := os.MkdirAll(filepath.Dir(planted), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(planted, []byte("planted"), 0o600); err != nil {
		t.Fatal(err)
	}
	open, err := windows.SecurityDescriptorFromString("D:P(A;;FA;;;WD)")
	if err != nil {
		t.Fatal(err)
	}
	list, _, err := open.DACL()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{filepath.Dir(planted), planted} {
		if err := windows.SetNamedSecurityInfo(name, windows.SE_FILE_OBJECT,
			windows.DACL_SECURITY_INFORMATION|windows.PROTECTED_DACL_SECURITY_INFORMATION, nil, nil, list, nil); err != nil {
			t.Fatal(err)
		}
	}
	// Wine's everybody has no more than the bits of a mode.
	writable := func(text string) bool {
		return strings.Contains(text, "FA;;;WD)") || strings.Contains(text, "0x1301ff;;;WD)")
	}
	access := func() string {
		found, err := windows.GetNamedSecurityInfo(planted, windows.SE_FILE_OBJECT, windows.DACL_SECURITY_INFORMATION)
		if err != nil {
			t.Fatal(err)
		}
		return found.String()
	}
	if text := access(); !writable(text) {
		t.Fatalf("the file is not open to others: %s", text)
	}
	if err := SecureFolder(path); err != nil {
		t.Fatal(err)
	}
	if text := access(); writable(text) || !underWine() && strings.Contains(text, ";;;WD)") {
		t.Errorf("the file has %s", text)
	}
	if text, err := os.ReadFile(planted); err != nil || string(text) != "planted" {
		t.Errorf("the agent itself reads %q, %v", text, err)
	}
	if err := os.Symlink(planted, path+`\link`); err != nil || underWine() { // whose links Go takes for files
		t.Logf("no link is tried: %v", err)
		return
	}
	if err := SecureFolder(path); err == nil || !strings.Contains(err.Error(), "neither a folder nor a file") {
		t.Errorf("a link in the folder: %v", err)
	}
}

// underWine: it keeps no more of an access list than the mode bits of a Unix file.
func underWine() bool {
	return windows.NewLazySystemDLL("ntdll.dll").NewProc("wine_get_version").Find() == nil
}
