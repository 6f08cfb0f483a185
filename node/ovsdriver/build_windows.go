package ovsdriver

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"golang.org/x/sys/windows"
	"golang.org/x/sys/windows/registry"
)

// InstalledBuild reads the file that Windows loads as the driver of a kind, wherever it is; [fs.ErrNotExist] where no
// such driver is installed.
func InstalledBuild(kind Kind) (Build, error) {
	key, err := registry.OpenKey(registry.LOCAL_MACHINE, `SYSTEM\CurrentControlSet\Services\`+kind.Service,
		registry.QUERY_VALUE)
	if err != nil {
		return Build{}, fmt.Errorf("service %s of the driver: %w", kind.Service, err) // fs.ErrNotExist for none
	}
	defer key.Close()
	image, _, err := key.GetStringValue("ImagePath")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return Build{}, fmt.Errorf("file of the driver %s: %w", kind.Service, err)
	}
	return ReadBuild(File(kind, image))
}

// File is where the driver of a kind is. image is what its service names: \SystemRoot\System32\drivers\OVSExt.sys,
// system32\… alone, a full path, or nothing.
func File(kind Kind, image string) string {
	root, err := windows.GetSystemWindowsDirectory()
	if err != nil {
		root = `C:\Windows`
	}
	image = strings.TrimPrefix(image, `\??\`)
	if len(image) > len(`\SystemRoot\`) && strings.EqualFold(image[:len(`\SystemRoot\`)], `\SystemRoot\`) {
		image = image[len(`\SystemRoot\`):]
	}
	switch {
	case image == "":
		return filepath.Join(root, `System32\drivers`, kind.SYS)
	case filepath.IsAbs(image):
		return image
	}
	return filepath.Join(root, image)
}
