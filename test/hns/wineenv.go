package hns

// WineProgram runs a Windows program: wine64 itself, for the wrapper /usr/bin/wine prints warnings.
const WineProgram = "/usr/lib/wine/wine64"

// WineServer is the server of a prefix; "-k" ends it and all of the prefix's programs.
const WineServer = "/usr/lib/wine/wineserver"

// WineOverrides has Wine load what test/hns/dll has instead of its own.
const WineOverrides = "mscoree,mshtml=;iphlpapi,powershell.exe=n,b"

// WineEnv is the environment of a program under Wine: of a prefix (an overlay over the one that
// test/lab/scripts/wine.sh makes, or a copy) that no other process namespace uses, a writable home
// directory, and the HOST:PORT of the emulator. The prefix's wineserver stays for some seconds after
// its last program; it makes its socket below /tmp, in a directory that must be the user's own with
// mode 0700.
func WineEnv(prefix, home, rpcAddress string) []string {
	return []string{
		"WINEPREFIX=" + prefix,
		"HOME=" + home,
		"HNSEMU_ADDR=" + rpcAddress,
		"WINEARCH=win64",
		"WINEDEBUG=-all",
		"WINEDLLOVERRIDES=" + WineOverrides,
		"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
	}
}
