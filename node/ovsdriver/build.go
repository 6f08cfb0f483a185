package ovsdriver

import (
	"bytes"
	"debug/pe"
	"encoding/binary"
	"errors"
	"fmt"
)

// Version is that of the Open vSwitch whose sources a driver is built from, its first two numbers.
type Version struct{ Major, Minor int }

// FirstSound is the first version whose driver takes OVN's packets: an earlier one follows a null reference when
// ovs-vswitchd sends a packet without an input port (commit defb8f33f, which is in no branch before 3.6).
var FirstSound = Version{3, 6}

func (v Version) String() string { return fmt.Sprintf("%d.%d", v.Major, v.Minor) }

// Before says whether v is older.
func (v Version) Before(other Version) bool {
	return v.Major < other.Major || v.Major == other.Major && v.Minor < other.Minor
}

// Build is what a driver's file says of itself.
type Build struct {
	Version Version // zero where it does not say
	Debug   bool    // it was built for debugging
}

// ErrUnsound is of a driver that stops the machine.
var ErrUnsound = errors.New("it stops the machine (blue screen) when OVN sends a packet without an input port, which " +
	FirstSound.String() + " repaired")

// Check is [ErrUnsound] for a build that is known to be older than [FirstSound].
func (b Build) Check() error {
	if b.Version != (Version{}) && b.Version.Before(FirstSound) {
		return fmt.Errorf("it is of Open vSwitch %v: %w", b.Version, ErrUnsound)
	}
	return nil
}

// ReadBuild reads the file of a driver.
func ReadBuild(path string) (Build, error) {
	image, err := pe.Open(path)
	if err != nil {
		return Build{}, fmt.Errorf("read the version of driver %s: %w", path, err)
	}
	defer image.Close()
	section := image.Section(".rsrc")
	if section == nil {
		return Build{}, nil
	}
	resources, err := section.Data()
	if err != nil {
		return Build{}, fmt.Errorf("read the version of driver %s: %w", path, err)
	}
	return parseBuild(resources), nil
}

// fixedFileInfo begins VS_FIXEDFILEINFO (verrsrc.h). Open vSwitch's ovsext.rc sets its version to that of the sources
// (Makefile.am: PACKAGE_VERSION), and its flag to that of a debug build.
var fixedFileInfo = binary.LittleEndian.AppendUint32(nil, 0xFEEF04BD)

const (
	fileVersionOffset   = 8
	fileFlagsMaskOffset = 24
	fileFlagsOffset     = 28
	fileFlagDebug       = 0x1
)

// parseBuild looks for the version information among a program's resources.
func parseBuild(resources []byte) Build {
	at := bytes.Index(resources, fixedFileInfo)
	if at < 0 || len(resources) < at+fileFlagsOffset+4 {
		return Build{}
	}
	number := func(offset int) uint32 { return binary.LittleEndian.Uint32(resources[at+offset:]) }
	version := number(fileVersionOffset)
	return Build{
		Version: Version{Major: int(version >> 16), Minor: int(version & 0xffff)},
		Debug:   number(fileFlagsOffset)&number(fileFlagsMaskOffset)&fileFlagDebug != 0,
	}
}
