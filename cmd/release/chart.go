package main

import (
	"fmt"
	"io"
	"path/filepath"
	"regexp"

	"github.com/blang/semver/v4"
)

// chartFolder is not below ansible/, all of which is the collection. The chart's kinds and rights are links into
// models/api.
const chartFolder = "cmd/release/chart"

// chart writes the Helm chart, which is of the release's version.
func (m maker) chart(folder string) error {
	files, err := readFolder(filepath.Join(m.source.folder, chartFolder))
	if err != nil {
		return err
	}
	if err := setChartVersion(files, m.version); err != nil {
		return err
	}
	return create(folder, fmt.Sprintf("weft-%s.tgz", m.version), func(w io.Writer) error {
		return writeTarGz(w, below("weft", files), m.source.time)
	})
}

var chartVersion = regexp.MustCompile(`(?m)^(version|appVersion): .*$`)

// setChartVersion writes a version in place of those that a chart and its programs have.
func setChartVersion(files []entry, version semver.Version) error {
	about := find(files, "Chart.yaml")
	if about == nil || len(chartVersion.FindAll(about.content, -1)) != 2 {
		return fmt.Errorf("%s/Chart.yaml does not have one line of version and one of appVersion", chartFolder)
	}
	about.content = chartVersion.ReplaceAll(about.content, fmt.Appendf(nil, `${1}: "%s"`, version))
	return nil
}
