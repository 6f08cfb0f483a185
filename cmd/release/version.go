package main

import (
	"fmt"
	"strings"

	"github.com/blang/semver/v4"
)

// parseVersion refuses what is no semantic version (https://semver.org).
func parseVersion(text string) (semver.Version, error) {
	version, err := semver.Parse(text)
	switch {
	case err == nil:
		return version, nil
	case text == "":
		return version, fmt.Errorf("no version: name one, as in `make release VERSION=1.2.0`")
	}
	if _, withoutV := semver.Parse(strings.TrimPrefix(text, "v")); withoutV == nil {
		return version, fmt.Errorf("VERSION %q is no semantic version: leave out the v, which only the tag has", text)
	}
	return version, fmt.Errorf("VERSION %q is no semantic version: %w; name one, as in `make release VERSION=1.2.0`",
		text, err)
}

// debianVersion has a pre-release before its release, in the order of dpkg.
func debianVersion(v semver.Version) string {
	text := v.String()
	if len(v.Pre) > 0 {
		text = strings.Replace(text, "-", "~", 1)
	}
	// A hyphen is allowed in the version if a revision follows.
	return text + "-1"
}
