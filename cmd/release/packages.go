package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
)

// packagesFile names the packages of Debian that images and OVN's archives have files of. packages.sh writes it.
const packagesFile = "cmd/release/packages.txt"

// pin is a package of Debian, of one version and one architecture.
type pin struct{ sum, path string } // path is that below a mirror

var (
	pinLine      = regexp.MustCompile(`^([0-9a-f]{64})  (pool/\S+/([a-z0-9.+-]+)_[^_/]+_(?:amd64|arm64)\.deb)$`)
	snapshotLine = regexp.MustCompile(`^snapshot (\d{8}T\d{6}Z)$`)
)

// parsePins reads the file of packages. Snapshot is the time at which Debian's archive had all of them.
func parsePins(text string) (snapshot string, pins []pin, err error) {
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if found := snapshotLine.FindStringSubmatch(line); found != nil {
			snapshot = found[1]
			continue
		}
		found := pinLine.FindStringSubmatch(line)
		switch {
		case found != nil:
			pins = append(pins, pin{found[1], found[2]})
		case line != "" && !strings.HasPrefix(line, "#"):
			return "", nil, fmt.Errorf("%s: %q is neither SHA256  pool/…/NAME_VERSION_ARCHITECTURE.deb nor a snapshot; let "+
				"cmd/release/packages.sh write the file", packagesFile, line)
		}
	}
	if snapshot == "" || len(pins) == 0 {
		return "", nil, fmt.Errorf("%s has no snapshot or no package; let cmd/release/packages.sh write it", packagesFile)
	}
	return snapshot, pins, nil
}

// fields are the parts of the file's name, NAME_VERSION_ARCHITECTURE.deb.
func (p pin) fields() []string {
	return strings.Split(strings.TrimSuffix(path.Base(p.path), ".deb"), "_")
}

func (p pin) name() string         { return p.fields()[0] }
func (p pin) version() string      { return p.fields()[1] }
func (p pin) architecture() string { return p.fields()[2] }

// isSecurityUpdate says whether it is in Debian's archive of these, which is another one.
func (p pin) isSecurityUpdate() bool { return strings.HasPrefix(p.path, "pool/updates/") }

// url is the package URL of the bill.
func (p pin) url() string {
	return "pkg:deb/debian/" + p.name() + "@" + strings.ReplaceAll(p.version(), "+", "%2B") + "?arch=" + p.architecture()
}

// debianArchive fetches packages once, and keeps them in a folder.
type debianArchive struct {
	mirrors  []string // in the order in which they are asked
	security []string // the same of security updates
	cache    string
}

// newDebianArchive asks the mirrors that the environment names, which `make release` takes from apt. A mirror drops the
// packages that later ones have replaced, and Debian's snapshot of that time has them still. The way of the packages is
// not trusted, but their checksums are.
func newDebianArchive(snapshot string) (debianArchive, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return debianArchive{}, err
	}
	return debianArchive{mirrorsOf("DEBIAN_MIRROR", "debian/"+snapshot),
		mirrorsOf("DEBIAN_SECURITY_MIRROR", "debian-security/"+snapshot), filepath.Join(cache, "weft-release")}, nil
}

// mirrorsOf are the one that a variable of the environment names, and a snapshot.
func mirrorsOf(variable, snapshot string) (mirrors []string) {
	if mirror := os.Getenv(variable); mirror != "" {
		mirrors = append(mirrors, strings.TrimSuffix(mirror, "/"))
	}
	return append(mirrors, "https://snapshot.debian.org/archive/"+snapshot)
}

// fetch returns the file of a package, whose content is that of its checksum.
func (a debianArchive) fetch(ctx context.Context, p pin) (string, error) {
	file := filepath.Join(a.cache, p.sum+".deb")
	if content, err := os.ReadFile(file); err == nil && p.check(content) == nil {
		return file, nil
	}
	mirrors, variable := a.mirrors, "DEBIAN_MIRROR"
	if p.isSecurityUpdate() {
		mirrors, variable = a.security, "DEBIAN_SECURITY_MIRROR"
	}
	var errs []error
	for _, mirror := range mirrors {
		content, err := download(ctx, mirror+"/"+p.path)
		if err == nil {
			err = p.check(content)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", mirror, err))
			continue
		}
		if err := os.MkdirAll(a.cache, 0o755); err != nil {
			return "", err
		}
		return file, os.WriteFile(file, content, 0o644)
	}
	return "", fmt.Errorf("fetch %s: %w; name a mirror that has it with %s=URL", p.path, errors.Join(errs...), variable)
}

func (p pin) check(content []byte) error {
	if sum := sha256.Sum256(content); hex.EncodeToString(sum[:]) != p.sum {
		return fmt.Errorf("its SHA-256 is %x, and %s has %s", sum, packagesFile, p.sum)
	}
	return nil
}

func download(ctx context.Context, url string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, errors.New(response.Status)
	}
	return io.ReadAll(response.Body)
}

// debFile is an unpacked package.
type debFile struct {
	pin
	control []byte
	files   map[string][]byte // by their path without a leading slash
	links   map[string]string // the same, to where they lead
}

// readDeb unpacks a package, by dpkg-deb.
func readDeb(ctx context.Context, p pin, file string) (debFile, error) {
	control, err := command(ctx, ".", nil, "dpkg-deb", "--field", file)
	if err != nil {
		return debFile{}, err
	}
	content, err := command(ctx, ".", nil, "dpkg-deb", "--fsys-tarfile", file)
	if err != nil {
		return debFile{}, err
	}
	d := debFile{pin: p, control: []byte(control + "\n")}
	d.files, d.links, err = readTar(bytes.NewReader([]byte(content)))
	return d, err
}

// debianPackages fetches and unpacks the packages of Debian, by architecture.
func (m maker) debianPackages(ctx context.Context) (map[string]unpacked, error) {
	text, err := os.ReadFile(filepath.Join(m.source.folder, packagesFile))
	if err != nil {
		return nil, err
	}
	snapshot, pins, err := parsePins(string(text))
	if err != nil {
		return nil, err
	}
	archive, err := newDebianArchive(snapshot)
	if err != nil {
		return nil, err
	}
	packages := map[string]unpacked{}
	for _, p := range pins {
		file, err := archive.fetch(ctx, p)
		if err != nil {
			return nil, err
		}
		unpacked, err := readDeb(ctx, p, file)
		if err != nil {
			return nil, err
		}
		packages[p.architecture()] = append(packages[p.architecture()], unpacked)
	}
	return packages, nil
}
