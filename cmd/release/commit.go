package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/blang/semver/v4"
)

// commit is the source of a release.
type commit struct {
	folder string // the work tree's root
	id     string
	time   time.Time // of the commit: all that a release holds has this time
}

// cleanCommit is the work tree's commit. A work tree with changes is refused, as nobody could make its release again.
func cleanCommit(ctx context.Context, folder string) (commit, error) {
	changed, err := command(ctx, folder, nil, "git", "status", "--porcelain")
	if err != nil {
		return commit{}, err
	}
	if changed != "" {
		return commit{}, fmt.Errorf("the work tree has changes: commit them or put them aside (git stash -u):\n%s", changed)
	}
	shown, err := command(ctx, folder, nil, "git", "show", "--no-patch", "--format=%H %ct", "HEAD")
	if err != nil {
		return commit{}, err
	}
	id, seconds, _ := strings.Cut(shown, " ")
	unix, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil {
		return commit{}, fmt.Errorf("read the time of commit %s: %w", id, err)
	}
	return commit{folder: folder, id: id, time: time.Unix(unix, 0).UTC()}, nil
}

// checkTag refuses a version whose tag names another commit.
func (c commit) checkTag(ctx context.Context, version semver.Version) error {
	tag := "v" + version.String()
	names, err := command(ctx, c.folder, nil, "git", "tag", "--list", tag)
	if err != nil || names == "" {
		return err
	}
	tagged, err := command(ctx, c.folder, nil, "git", "rev-parse", "refs/tags/"+tag+"^{commit}")
	if err != nil {
		return err
	}
	if tagged != c.id {
		return fmt.Errorf("tag %s names commit %s, and the work tree has %s: check the tag out, or take the next version",
			tag, tagged, c.id)
	}
	return nil
}

// environment is that of programs which take part in a release.
func (c commit) environment() []string {
	return []string{"SOURCE_DATE_EPOCH=" + strconv.FormatInt(c.time.Unix(), 10), "TZ=UTC", "LC_ALL=C.UTF-8"}
}

// command runs a program, and returns its output without the last line's end. extra is added to the environment.
func command(ctx context.Context, folder string, extra []string, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Env = folder, append(os.Environ(), extra...)
	var said strings.Builder
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w\n%s", cmd, err, &said)
	}
	return strings.TrimSuffix(string(out), "\n"), nil
}
