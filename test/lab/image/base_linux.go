package image

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Base is a containerd root in which a set of images is unpacked. Nodes link to its layers instead
// of unpacking their own.
type Base struct{ dir string }

// EnsureBase returns the base for images below dir, and makes it if there is none. say is told
// what is being done if it takes time. layers names the files that make up the images' layers, from
// which prepare writes the images.
func EnsureBase(ctx context.Context, dir string, inputs []string, prepare func(scratch string) ([]Image, error),
	say func(string)) (*Base, error) {
	key, err := baseKey(ctx, inputs)
	if err != nil {
		return nil, err
	}
	base := &Base{filepath.Join(dir, "unpacked-"+key)}
	if _, err := os.Stat(base.dir); err == nil {
		return base, nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	// Two labs that start at once must not both unpack.
	lock, err := lockFile(filepath.Join(dir, ".lock"))
	if err != nil {
		return nil, err
	}
	defer lock.Close()
	if _, err := os.Stat(base.dir); err == nil {
		return base, nil
	}
	say("unpacking the container images, once")
	scratch := filepath.Join(dir, ".making") // one that was interrupted may have left it
	if err := errors.Join(os.RemoveAll(scratch), os.Mkdir(scratch, 0o755)); err != nil {
		return nil, err
	}
	defer os.RemoveAll(scratch)
	images, err := prepare(scratch)
	if err != nil {
		return nil, err
	}
	if err := unpack(ctx, scratch, images); err != nil {
		return nil, err
	}
	if err := removeUnused(dir); err != nil {
		return nil, err
	}
	return base, os.Rename(filepath.Join(scratch, "root"), base.dir)
}

// baseKey changes when an input or containerd does.
func baseKey(ctx context.Context, inputs []string) (string, error) {
	version, err := exec.CommandContext(ctx, "containerd", "--version").Output()
	if err != nil {
		return "", fmt.Errorf("containerd --version: %w; `make lab-deps` installs containerd", err)
	}
	hash := sha256.New()
	hash.Write(version)
	for _, input := range inputs {
		info, err := os.Stat(input)
		if err != nil {
			return "", fmt.Errorf("container images: %w; `make lab` builds what they are made of", err)
		}
		fmt.Fprintln(hash, filepath.Base(input), info.Size(), info.ModTime().UnixNano())
	}
	return hex.EncodeToString(hash.Sum(nil))[:12], nil
}

func lockFile(path string) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(file.Fd()), unix.LOCK_EX); err != nil {
		file.Close()
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	return file, nil
}

const useFile = ".used"

// Use returns an open file that marks the base as in use for as long as any process has it open.
func (b *Base) Use() (*os.File, error) {
	file, err := os.OpenFile(filepath.Join(b.dir, useFile), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	return file, unix.Flock(int(file.Fd()), unix.LOCK_SH)
}

// removeUnused removes the bases of earlier inputs, except for those that a running lab uses.
func removeUnused(dir string) error {
	bases, err := filepath.Glob(filepath.Join(dir, "unpacked-*"))
	if err != nil {
		return err
	}
	for _, old := range bases {
		file, err := os.OpenFile(filepath.Join(old, useFile), os.O_CREATE|os.O_RDWR, 0o644)
		if err != nil {
			return err
		}
		if unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil {
			err = os.RemoveAll(old)
		}
		file.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

// unpack imports the images with a containerd that lives for this purpose, in scratch/root.
func unpack(ctx context.Context, scratch string, images []Image) error {
	archive := filepath.Join(scratch, "images.tar")
	if err := writeFile(archive, func(out io.Writer) error { return WriteArchive(out, goarch, images) }); err != nil {
		return err
	}
	defer os.Remove(archive)
	run, err := os.MkdirTemp("", "weftlab-") // short enough for a socket's address
	if err != nil {
		return err
	}
	defer os.RemoveAll(run)
	config := filepath.Join(run, "config.toml")
	if err := os.WriteFile(config, []byte("version = 2\ndisabled_plugins = [\"io.containerd.grpc.v1.cri\"]\n"),
		0o644); err != nil {
		return err
	}
	// The death signal comes when the thread that started containerd ends.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	log := &strings.Builder{}
	socket := filepath.Join(run, "sock")
	ctx, stop := context.WithCancel(ctx)
	containerd := exec.CommandContext(ctx, "containerd", "--config="+config, "--root="+filepath.Join(scratch, "root"),
		"--state="+filepath.Join(run, "state"), "--address="+socket)
	containerd.Stdout, containerd.Stderr = log, log
	// Its mounts are its own, and nothing outlives it.
	containerd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: unix.CLONE_NEWNS, Pdeathsig: unix.SIGKILL}
	if err := containerd.Start(); err != nil {
		stop()
		return fmt.Errorf("start containerd: %w", err)
	}
	err = importInto(ctx, socket, archive)
	if ctx.Err() != nil {
		err = ctx.Err() // what the end of containerd and ctr looked like says nothing then
	}
	stop()
	if ended := containerd.Wait(); err != nil {
		lines := strings.Split(strings.TrimSpace(log.String()), "\n")
		return fmt.Errorf("unpack the container images: %w; containerd (%v) said at last:\n%s", err, ended,
			strings.Join(lines[max(0, len(lines)-10):], "\n"))
	}
	return nil
}

func importInto(ctx context.Context, socket, archive string) error {
	deadline, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	for {
		conn, err := (&net.Dialer{}).DialContext(deadline, "unix", socket)
		if err == nil {
			conn.Close()
			break
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-deadline.Done():
			return fmt.Errorf("containerd does not listen: %w", err)
		}
	}
	ctr := exec.CommandContext(ctx, "ctr", "--address="+socket, "--namespace=k8s.io", "images", "import", archive)
	if out, err := ctr.CombinedOutput(); err != nil {
		return fmt.Errorf("ctr images import: %w: %s", err, out)
	}
	return nil
}

func writeFile(path string, write func(io.Writer) error) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(write(file), file.Close())
}

// Directories of a containerd root.
const (
	metadataDir  = "io.containerd.metadata.v1.bolt"
	blobsDir     = "io.containerd.content.v1.content/blobs/sha256"
	ingestDir    = "io.containerd.content.v1.content/ingest"
	overlayDir   = "io.containerd.snapshotter.v1.overlayfs"
	snapshotsDir = overlayDir + "/snapshots"
)

// Populate makes root, if it does not exist, a containerd root with the base's images: its
// databases are copied, layers and blobs are links.
func (b *Base) Populate(root string) error {
	if _, err := os.Stat(filepath.Join(root, metadataDir)); err == nil {
		return nil
	}
	for _, dir := range []string{metadataDir, blobsDir, ingestDir, snapshotsDir} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o711); err != nil {
			return err
		}
	}
	for _, database := range []string{metadataDir + "/meta.db", overlayDir + "/metadata.db"} {
		if err := copyTo(filepath.Join(b.dir, database), filepath.Join(root, database)); err != nil {
			return err
		}
	}
	for _, dir := range []string{blobsDir, snapshotsDir} {
		entries, err := os.ReadDir(filepath.Join(b.dir, dir))
		if err != nil {
			return err
		}
		for _, e := range entries {
			link := filepath.Join(root, dir, e.Name())
			if err := os.Symlink(filepath.Join(b.dir, dir, e.Name()), link); err != nil && !errors.Is(err, fs.ErrExist) {
				return err
			}
		}
	}
	return nil
}

func copyTo(from, to string) error {
	source, err := os.Open(from)
	if err != nil {
		return err
	}
	defer source.Close()
	return writeFile(to, func(out io.Writer) error {
		_, err := io.Copy(out, source)
		return err
	})
}
