package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/blang/semver/v4"
)

// repository is a git repository with one commit, of a known time.
func repository(t *testing.T) (folder string, git func(args ...string) string) {
	t.Helper()
	folder = t.TempDir()
	identity := []string{"GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null", "GIT_AUTHOR_NAME=a",
		"GIT_AUTHOR_EMAIL=a@example.com", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.com",
		"GIT_COMMITTER_DATE=2026-03-04T05:06:07Z"}
	git = func(args ...string) string {
		t.Helper()
		out, err := command(t.Context(), folder, identity, "git", args...)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	git("init", "--quiet")
	write(t, filepath.Join(folder, "file"), "first")
	git("add", "file")
	git("commit", "--quiet", "--message", "first")
	return folder, git
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestCommitOfACleanWorkTree(t *testing.T) {
	folder, git := repository(t)
	source, err := cleanCommit(t.Context(), folder)
	if err != nil {
		t.Fatal(err)
	}
	if want := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC); source.id != git("rev-parse", "HEAD") || source.time != want {
		t.Errorf("the commit is %+v", source)
	}
	if got := source.environment()[0]; got != "SOURCE_DATE_EPOCH=1772600767" {
		t.Errorf("programs get %s", got)
	}
}

func TestWorkTreeWithChangesIsRefused(t *testing.T) {
	for name, file := range map[string]string{"changed": "file", "new": "other"} {
		folder, _ := repository(t)
		write(t, filepath.Join(folder, file), "second")
		_, err := cleanCommit(t.Context(), folder)
		if err == nil || !strings.Contains(err.Error(), file) || !strings.Contains(err.Error(), "commit them") {
			t.Errorf("with a %s file the error is %v", name, err)
		}
	}
}

func TestTagOfAnotherCommitIsRefused(t *testing.T) {
	folder, git := repository(t)
	git("tag", "--annotate", "--message", "1.0.0", "v1.0.0")
	check := func(version string) error {
		source, err := cleanCommit(t.Context(), folder)
		if err != nil {
			t.Fatal(err)
		}
		return source.checkTag(t.Context(), semver.MustParse(version))
	}
	if err := check("1.0.0"); err != nil {
		t.Errorf("the tag names this commit: %v", err)
	}
	git("commit", "--quiet", "--allow-empty", "--message", "second")
	if err := check("1.0.0"); err == nil || !strings.Contains(err.Error(), "v1.0.0") {
		t.Errorf("the tag names the commit before: %v", err)
	}
	if err := check("1.0.1"); err != nil {
		t.Errorf("there is no such tag: %v", err)
	}
}
