package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// licensesFile has the licences of all modules. Most of them ask that a program is accompanied by their text.
const licensesFile = "THIRD-PARTY-LICENSES.txt"

var licenseName = regexp.MustCompile(`(?i)^(licen[cs]e|copying|notice|patents)`)

// thirdPartyLicenses is the content of that file. Each text is there once, below the modules that have it.
func thirdPartyLicenses(modules []module, folders map[string]string) ([]byte, error) {
	modules = slices.Clone(modules)
	slices.SortFunc(modules, func(a, b module) int { return cmp.Compare(a.String(), b.String()) })
	var texts []string
	owners := map[string][]string{}
	for _, m := range slices.Compact(modules) {
		text, err := licenseOf(m, folders)
		if err != nil {
			return nil, err
		}
		if owners[text] == nil {
			texts = append(texts, text)
		}
		owners[text] = append(owners[text], m.String())
	}
	var content []byte
	for _, text := range texts {
		content = fmt.Appendf(content, "%s\n\n%s\n%s\n\n", strings.Join(owners[text], "\n"), text, strings.Repeat("=", 80))
	}
	return content, nil
}

// licenseOf are the texts in the root of a module's folder.
func licenseOf(m module, folders map[string]string) (string, error) {
	name := m.String()
	if m.path == standardLibrary {
		name = standardLibrary
	}
	folder := folders[name]
	if folder == "" {
		return "", fmt.Errorf("%s is not in the module cache: run `go mod download`", m)
	}
	files, err := os.ReadDir(folder)
	if err != nil {
		return "", err
	}
	var texts []string
	for _, f := range files {
		if f.IsDir() || !licenseName.MatchString(f.Name()) {
			continue
		}
		content, err := os.ReadFile(filepath.Join(folder, f.Name()))
		if err != nil {
			return "", err
		}
		texts = append(texts, string(content))
	}
	if len(texts) == 0 {
		return "", fmt.Errorf("%s has no licence in %s: nobody may distribute it, so use another module", m, folder)
	}
	return strings.Join(texts, "\n"), nil
}

// moduleFolders has for each module, as PATH@VERSION, where its files are; and for std where Go is.
func moduleFolders(ctx context.Context, repository string) (map[string]string, error) {
	const format = "{{with .Replace}}{{.Path}}@{{.Version}}{{else}}{{.Path}}@{{.Version}}{{end}} {{.Dir}}"
	listed, err := command(ctx, repository, nil, "go", "list", "-m", "-f", format, "all")
	if err != nil {
		return nil, err
	}
	root, err := command(ctx, repository, nil, "go", "env", "GOROOT")
	if err != nil {
		return nil, err
	}
	folders := map[string]string{standardLibrary: root}
	for line := range strings.Lines(listed) {
		name, folder, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		folders[name] = folder
	}
	return folders, nil
}
