package doctor

import (
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"strings"
	"unsafe"

	"golang.org/x/sys/windows"
)

// signatureOf says who signed a file, in the file itself or by a catalog, and what Windows thinks of it.
func signatureOf(path string) (signer string, refused, unknown error) {
	file, err := os.Open(path)
	if err != nil {
		return "", nil, err
	}
	defer file.Close()
	signature, err := embeddedSignature(file)
	if errors.Is(err, errUnsigned) {
		return catalogSignature(file, path)
	}
	if err != nil {
		return "", nil, fmt.Errorf("%s: %w", path, err)
	}
	certificate, err := signerOf(signature)
	if err != nil {
		return "", nil, fmt.Errorf("%s: %w", path, err)
	}
	path16, err := windows.UTF16PtrFromString(path)
	if err != nil {
		return "", nil, err
	}
	info := windows.WinTrustFileInfo{Size: uint32(unsafe.Sizeof(windows.WinTrustFileInfo{})), FilePath: path16}
	return certificate.Subject.CommonName, verify(windows.WTD_CHOICE_FILE, unsafe.Pointer(&info)), nil
}

// verify is Windows' verdict, without a question to the network for revoked certificates.
func verify(choice uint32, what unsafe.Pointer) error {
	data := windows.WinTrustData{
		Size: uint32(unsafe.Sizeof(windows.WinTrustData{})), UIChoice: windows.WTD_UI_NONE,
		RevocationChecks: windows.WTD_REVOKE_NONE, UnionChoice: choice,
		FileOrCatalogOrBlobOrSgnrOrCert: what, StateAction: windows.WTD_STATEACTION_VERIFY,
	}
	verdict := windows.WinVerifyTrustEx(windows.InvalidHWND, &windows.WINTRUST_ACTION_GENERIC_VERIFY_V2, &data)
	data.StateAction = windows.WTD_STATEACTION_CLOSE
	// frees; the verdict stands
	_ = windows.WinVerifyTrustEx(windows.InvalidHWND, &windows.WINTRUST_ACTION_GENERIC_VERIFY_V2, &data)
	return verdict
}

var (
	wintrust            = windows.NewLazySystemDLL("wintrust.dll")
	procAcquireContext2 = wintrust.NewProc("CryptCATAdminAcquireContext2")
	procReleaseContext  = wintrust.NewProc("CryptCATAdminReleaseContext")
	procCalcHash2       = wintrust.NewProc("CryptCATAdminCalcHashFromFileHandle2")
	procEnumCatalog     = wintrust.NewProc("CryptCATAdminEnumCatalogFromHash")
	procReleaseCatalog  = wintrust.NewProc("CryptCATAdminReleaseCatalogContext")
	procCatalogInfo     = wintrust.NewProc("CryptCATCatalogInfoFromContext")
	catalogAlgorithms   = []string{"SHA256", "SHA1"} // inf2cat made catalogs of the latter until Windows 8
	driverActionVerify  = windows.GUID{Data1: 0xf750e6c3, Data2: 0x38ee, Data3: 0x11d1, Data4: [8]byte{0x85, 0xe5, 0x00,
		0xc0, 0x4f, 0xc2, 0x95, 0xee}}
	errCatalogUnsupported = errors.New("this Windows has no calls for driver catalogs")
)

// catalogInfo is CATALOG_INFO of mscat.h.
type catalogInfo struct {
	size uint32
	file [windows.MAX_PATH]uint16
}

// trustCatalogInfo is WINTRUST_CATALOG_INFO of wintrust.h.
type trustCatalogInfo struct {
	size           uint32
	catalogVersion uint32
	catalog        *uint16
	memberTag      *uint16
	memberFile     *uint16
	memberHandle   windows.Handle
	hash           *byte
	hashLength     uint32
	catalogContext uintptr
	admin          windows.Handle
}

// catalogSignature looks for the catalog that lists a file, as the plug and play installer leaves it.
func catalogSignature(file *os.File, path string) (signer string, refused, unknown error) {
	for _, proc := range []*windows.LazyProc{procAcquireContext2, procReleaseContext, procCalcHash2, procEnumCatalog,
		procReleaseCatalog, procCatalogInfo} {
		if proc.Find() != nil {
			return "", nil, errCatalogUnsupported
		}
	}
	for _, algorithm := range catalogAlgorithms {
		signer, refused, err := inCatalogs(file, path, algorithm)
		if err != nil {
			return "", nil, err
		}
		if signer != "" {
			return signer, refused, nil
		}
	}
	return "", nil, nil // in no catalog: unsigned
}

func inCatalogs(file *os.File, path, algorithm string) (signer string, refused, err error) {
	algorithm16, err := windows.UTF16PtrFromString(algorithm)
	if err != nil {
		return "", nil, err
	}
	var admin windows.Handle
	if r, _, err := procAcquireContext2.Call(uintptr(unsafe.Pointer(&admin)), uintptr(unsafe.Pointer(&driverActionVerify)),
		uintptr(unsafe.Pointer(algorithm16)), 0, 0); r == 0 {
		return "", nil, fmt.Errorf("CryptCATAdminAcquireContext2: %w", err)
	}
	defer procReleaseContext.Call(uintptr(admin), 0)
	hash := make([]byte, 64)
	length := uint32(len(hash))
	if r, _, err := procCalcHash2.Call(uintptr(admin), file.Fd(), uintptr(unsafe.Pointer(&length)),
		uintptr(unsafe.Pointer(&hash[0])), 0); r == 0 {
		return "", nil, fmt.Errorf("CryptCATAdminCalcHashFromFileHandle2: %w", err)
	}
	hash = hash[:length]
	catalog, _, _ := procEnumCatalog.Call(uintptr(admin), uintptr(unsafe.Pointer(&hash[0])), uintptr(length), 0, 0)
	if catalog == 0 {
		return "", nil, nil
	}
	defer procReleaseCatalog.Call(uintptr(admin), catalog, 0)
	info := catalogInfo{size: uint32(unsafe.Sizeof(catalogInfo{}))}
	if r, _, err := procCatalogInfo.Call(catalog, uintptr(unsafe.Pointer(&info)), 0); r == 0 {
		return "", nil, fmt.Errorf("CryptCATCatalogInfoFromContext: %w", err)
	}
	return verifyCatalog(windows.UTF16ToString(info.file[:]), path, hash, admin)
}

func verifyCatalog(catalog, path string, hash []byte, admin windows.Handle) (signer string, refused, err error) {
	text, err := os.ReadFile(catalog)
	if err != nil {
		return "", nil, err
	}
	certificate, err := signerOf(text)
	if err != nil {
		return "", nil, fmt.Errorf("catalog %s: %w", catalog, err)
	}
	var names [3]*uint16
	for i, name := range []string{catalog, strings.ToUpper(hex.EncodeToString(hash)), path} {
		if names[i], err = windows.UTF16PtrFromString(name); err != nil {
			return "", nil, err
		}
	}
	member := trustCatalogInfo{
		size: uint32(unsafe.Sizeof(trustCatalogInfo{})), catalog: names[0], memberTag: names[1], memberFile: names[2],
		hash: &hash[0], hashLength: uint32(len(hash)), admin: admin,
	}
	return certificate.Subject.CommonName, verify(windows.WTD_CHOICE_CATALOG, unsafe.Pointer(&member)), nil
}
