package cases

import (
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func TestOf(t *testing.T) {
	for _, c := range []struct {
		short     string
		all, want int
	}{{"false", 20, 20}, {"false", 1, 1}, {"true", 300, 30}, {"true", 5, 2}, {"true", 1, 1}} {
		t.Run("", func(t *testing.T) {
			short(t, c.short)
			if got := Of(c.all); got != c.want {
				t.Errorf("%d of %d cases where -short is %s, want %d", got, c.all, c.short, c.want)
			}
		})
	}
}

func TestLong(t *testing.T) {
	for _, value := range []string{"false", "true"} {
		went := false
		t.Run(value, func(t *testing.T) {
			short(t, value)
			Long(t)
			went = true
		})
		if went != (value == "false") {
			t.Errorf("it goes on: %t, where -short is %s", went, value)
		}
	}
}

// short has testing.Short say something for a test.
func short(t *testing.T, value string) {
	t.Helper()
	before := flag.Lookup("test.short").Value.String()
	t.Cleanup(func() { flag.Set("test.short", before) })
	if err := flag.Set("test.short", value); err != nil {
		t.Fatal(err)
	}
}

var (
	inMakefile = regexp.MustCompile(`(?m)^(MANY_CASES(?:_IN)?) := (.*)$`)
	called     = regexp.MustCompile(`\bcases\.(Of|Long)\(`)
	function   = regexp.MustCompile(`(?m)^func `)
)

// TestTheMakefileKnowsThem: whatever test tries less of its cases where tests are short is run by `make unit` without
// that, and nothing else is.
func TestTheMakefileKnowsThem(t *testing.T) {
	root := filepath.Join("..", "..")
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]string{}
	for _, line := range inMakefile.FindAllStringSubmatch(string(makefile), -1) {
		known[line[1]] = line[2]
	}
	var tests, packages []string
	if err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == "bin" || d.Name() == "cases" || d.Name() == ".git") {
			return filepath.SkipDir
		}
		if !strings.HasSuffix(path, "_test.go") {
			return nil
		}
		source, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, body := range function.Split(string(source), -1) {
			if called.MatchString(body) {
				name, _, _ := strings.Cut(body, "(")
				if !strings.HasPrefix(name, "Test") {
					t.Errorf("%s: %.60q asks for how many cases there are: let the test do that", path, body)
				}
				folder, err := filepath.Rel(root, filepath.Dir(path))
				if err != nil {
					return err
				}
				tests, packages = append(tests, name), append(packages, "./"+filepath.ToSlash(folder))
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		variable, separator string
		want                []string
	}{{"MANY_CASES", "|", tests}, {"MANY_CASES_IN", " ", packages}} {
		slices.Sort(c.want)
		want := slices.Compact(c.want)
		if got := slices.Sorted(slices.Values(strings.Split(known[c.variable], c.separator))); len(want) == 0 ||
			!slices.Equal(got, want) {
			t.Errorf("%s in the Makefile is\n%s\nwant\n%s", c.variable, strings.Join(got, c.separator),
				strings.Join(want, c.separator))
		}
	}
}
