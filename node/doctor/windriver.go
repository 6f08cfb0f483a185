package doctor

import (
	"errors"
	"strings"

	"github.com/weftnet/weft/node/ovsdriver"
)

// driver is Open vSwitch's kernel driver as Windows has it installed.
type driver struct {
	Kind   ovsdriver.Kind
	Path   string
	Loaded bool
	// Signer is the name in the certificate that signed the driver or the catalog that lists it; empty
	// where there is none.
	Signer string
	// Refused is Windows' own verdict on the signature, nil for a good one.
	Refused error
	// SignatureUnknown: the signature could not be looked at.
	SignatureUnknown error
	// Build is what its file says of itself.
	Build ovsdriver.Build
}

// driverReader returns errAbsent where no such driver is installed.
type driverReader interface {
	Driver(ovsdriver.Kind) (driver, error)
}

// findDriver is the driver of the configured kind, or the only one that is installed; errAbsent, also with a kind that
// may be installed.
func findDriver(reader driverReader, kind string) (driver, error) {
	found := map[string]driver{}
	var broken error
	chosen, installed, err := ovsdriver.Installed(kind, func(k ovsdriver.Kind) bool {
		d, err := reader.Driver(k)
		if err != nil && !errors.Is(err, errAbsent) {
			broken = err
		}
		d.Kind = k
		found[k.Name] = d
		return err == nil
	})
	switch {
	case broken != nil:
		return driver{Kind: chosen}, broken
	case err == nil && !installed:
		err = errAbsent
	}
	d := found[chosen.Name]
	d.Kind = chosen
	return d, err
}

// codeIntegrity is what the kernel demands of drivers.
type codeIntegrity struct {
	Enforced    bool // drivers must be signed
	TestSigning bool // certificates made for tests are enough
}

// bootReader reads how the machine was started. SecureBoot is errAbsent on a machine without UEFI.
type bootReader interface {
	CodeIntegrity() (codeIntegrity, error)
	SecureBoot() (bool, error)
}

// installOVS is how a driver is installed.
func installOVS(kind ovsdriver.Kind) string {
	return "install Open vSwitch for Windows, whose driver is " + kind.SYS + ": `netcfg -l " + kind.INF + " -c s -i " +
		kind.Component + "`"
}

const (
	needsTesting = "get a driver that Microsoft has signed; for a trial only: switch Secure Boot off, run `bcdedit /set " +
		"testsigning on` and restart"
)

// checkDriver: without the extension's driver HNS knows no such extension. Its file says which Open vSwitch it is of:
// the check ovs-version asks ovs-vswitchd, which may be another's beside it.
func checkDriver(reader driverReader, kind string) []Finding {
	const s = subject("ovs-driver")
	d, err := findDriver(reader, kind)
	switch {
	case errors.Is(err, errAbsent):
		return s.failed(installOVS(d.Kind)+"; for another driver set the key ovs-driver ("+ovsdriver.Names()+")",
			"the driver %s is not installed", d.Kind.Service)
	case err != nil && d.Path != "": // there are several
		return s.failed("set the key ovs-driver, or remove a driver", "%v", err)
	case err != nil:
		return s.unknown("run `netcfg -q "+d.Kind.Component+"`", "%v", err)
	case d.Build.Check() != nil:
		return s.failed("install the driver of Open vSwitch 3.7: `netcfg -u "+d.Kind.Component+"` takes this one off first",
			"%s: %v", d.Path, d.Build.Check())
	case !d.Loaded:
		return s.failed("see the check driver-signature and the event log System; `sc.exe start "+d.Kind.Service+
			"` says why it does not start", "the driver %s is installed (%s), but Windows has not loaded it", d.Kind.Service,
			d.Path)
	}
	switch {
	case d.Build.Version == ovsdriver.Version{}:
		return s.unknown("see that it is of Open vSwitch "+ovsdriver.FirstSound.String()+" or later", "%s is loaded, and "+
			"does not say of which Open vSwitch it is", d.Path)
	case d.Build.Debug:
		return s.warning("install a driver that was built for release (--with-vstudiotarget=Release)",
			"%s is a debug build: it stops the machine (bug check) as soon as there are two internal ports, and Weft has more",
			d.Path)
	}
	return s.ok("%s (%s %v) is loaded", d.Path, d.Kind.Name, d.Build.Version)
}

// Whom the kernel trusts without test signing: since Windows 10 1607 and Server 2016 new drivers are
// signed by Microsoft's hardware portal alone, under the first of these names. A server wants those that
// passed the tests of the HLK and not the attested ones, which bear the same name: only that it has
// loaded one shows it.
var kernelSigners = []string{
	"Microsoft Windows Hardware Compatibility Publisher",
	"Microsoft Windows Hardware Abstraction Layer Publisher",
	"Microsoft Windows",
}

// checkDriverSignature tells a driver for production from one for tests, which needs a machine that
// takes everybody's.
func checkDriverSignature(drivers driverReader, boot bootReader, kind string) []Finding {
	const s = subject("driver-signature")
	d, err := findDriver(drivers, kind)
	if err != nil {
		return s.unknown("", "there is no driver to look at")
	}
	if d.SignatureUnknown != nil {
		return s.unknown("run `Get-AuthenticodeSignature "+d.Path+"`", "%v", d.SignatureUnknown)
	}
	for _, signer := range kernelSigners {
		switch {
		case !strings.EqualFold(d.Signer, signer) || d.Refused != nil:
		case !d.Loaded:
			return s.unknown("see that it has passed the HLK's tests: a server does not take a driver that is merely attested",
				"signed by %s, but not loaded", d.Signer)
		default:
			return s.ok("signed by %s", d.Signer)
		}
	}
	signature := "is not signed"
	if d.Signer != "" {
		signature = "is signed by " + d.Signer + " and not by Microsoft"
	}
	ci, err := boot.CodeIntegrity()
	if err != nil {
		return s.unknown(needsTesting, "the driver %s; whether this Windows takes such drivers cannot be read: %v", signature,
			err)
	}
	secure, secureErr := boot.SecureBoot()
	switch {
	case ci.TestSigning || !ci.Enforced:
		return s.warning("do not use it for more than tests", "the driver %s; Windows loads it because test signing is on",
			signature)
	case d.Loaded:
		return s.warning("get a driver that Microsoft has signed before the next upgrade of Windows",
			"the driver %s; Windows has loaded it all the same", signature)
	case secureErr == nil && secure:
		return s.failed(needsTesting, "the driver %s; test signing is off, and Secure Boot does not let it be switched on",
			signature)
	}
	return s.failed(needsTesting, "the driver %s, and test signing is off: Windows will not load it", signature)
}

// checkBoot tells what test signing costs: every driver that an administrator installs is loaded.
func checkBoot(boot bootReader) []Finding {
	const s = subject("test-signing")
	ci, err := boot.CodeIntegrity()
	if err != nil {
		return s.unknown("run `bcdedit`", "%v", err)
	}
	text := "Secure Boot cannot be read"
	secure, err := boot.SecureBoot()
	switch {
	case errors.Is(err, errAbsent):
		text = "there is no Secure Boot"
	case err == nil && secure:
		text = "Secure Boot is on"
	case err == nil:
		text = "Secure Boot is off"
	}
	if ci.TestSigning {
		return s.warning("with a driver that Microsoft has signed: `bcdedit /set testsigning off` and restart",
			"test signing is on; %s", text)
	}
	if !ci.Enforced {
		return s.warning("restart Windows without debugging options", "Windows does not demand that drivers are signed; %s",
			text)
	}
	return s.ok("test signing is off; %s", text)
}
