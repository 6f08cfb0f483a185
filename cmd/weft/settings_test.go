package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/viper"

	"github.com/weftnet/weft/node/nodetest"
)

var errStarted = errors.New("started")

// runDaemon executes a daemon with three keys and returns what it was started with.
func runDaemon(t *testing.T, file string, args ...string) (level string, ranges []string, count int, err error) {
	t.Helper()
	if file != "" {
		path := filepath.Join(nodetest.Folder(t), "weft.conf")
		if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
			t.Fatal(err)
		}
		args = append(args, "--config", path)
	}
	cmd := &cobra.Command{Use: "try", SilenceErrors: true}
	cmd.Flags().StringSlice("pod-cidrs", []string{"10.0.0.0/8"}, "")
	cmd.Flags().Int("uplink-mtu", 7, "")
	daemon(cmd, func(_ context.Context, s *settings) error {
		level, ranges, count = s.text("log-level"), s.list("pod-cidrs"), s.integer("uplink-mtu")
		return errors.Join(errStarted, s.err())
	})
	cmd.SetArgs(args)
	err = cmd.Execute()
	return level, ranges, count, err
}

func TestAKeyComesFromFlagThenEnvironmentThenFile(t *testing.T) {
	file := "pod-cidrs: [10.1.0.0/16, 'fd00:1::/48']\nuplink-mtu: 1\n"
	t.Run("default", func(t *testing.T) {
		_, ranges, count, err := runDaemon(t, "")
		if !errors.Is(err, errStarted) || !slices.Equal(ranges, []string{"10.0.0.0/8"}) || count != 7 {
			t.Error(ranges, count, err)
		}
	})
	t.Run("file", func(t *testing.T) {
		_, ranges, count, err := runDaemon(t, file)
		if !errors.Is(err, errStarted) || !slices.Equal(ranges, []string{"10.1.0.0/16", "fd00:1::/48"}) || count != 1 {
			t.Error(ranges, count, err)
		}
	})
	t.Run("environment", func(t *testing.T) {
		t.Setenv("WEFT_POD_CIDRS", "10.2.0.0/16, fd00:2::/48")
		t.Setenv("WEFT_UPLINK_MTU", "2")
		_, ranges, count, err := runDaemon(t, file)
		if !errors.Is(err, errStarted) || !slices.Equal(ranges, []string{"10.2.0.0/16", "fd00:2::/48"}) || count != 2 {
			t.Error(ranges, count, err)
		}
	})
	t.Run("flag", func(t *testing.T) {
		t.Setenv("WEFT_POD_CIDRS", "10.2.0.0/16")
		_, ranges, count, err := runDaemon(t, file, "--pod-cidrs", "10.3.0.0/16", "--uplink-mtu=3")
		if !errors.Is(err, errStarted) || !slices.Equal(ranges, []string{"10.3.0.0/16"}) || count != 3 {
			t.Error(ranges, count, err)
		}
	})
}

func TestMistakesAreNamed(t *testing.T) {
	for _, c := range []struct {
		name, file string
		args, want []string
		env        map[string]string
	}{
		{name: "unknown keys", file: "pod-cidr: 10.0.0.0/8\nservice-cidr: x\n", want: []string{`"pod-cidr"`, `"service-cidr"`,
			"try --help"}},
		{name: "not YAML", file: "{", want: []string{"config"}},
		{name: "no file", args: []string{"--config", "/no/such/file"}, want: []string{"config", "/no/such/file"}},
		{name: "not a number in the file", file: "uplink-mtu: many\n", want: []string{"uplink-mtu", `"many"`}},
		{name: "not a number in the environment", env: map[string]string{"WEFT_UPLINK_MTU": "many"},
			want: []string{"uplink-mtu", `"many"`}},
		{name: "a list for a single value", file: "log-level: [info, debug]\n", want: []string{"log-level", "single value"}},
		{name: "unknown level", args: []string{"--log-level", "loud"}, want: []string{"log-level", "loud"}},
		{name: "an argument", args: []string{"now"}, want: []string{"now"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			for key, value := range c.env {
				t.Setenv(key, value)
			}
			_, _, _, err := runDaemon(t, c.file, c.args...)
			if err == nil {
				t.Fatal("no error")
			}
			for _, want := range c.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q does not name %s", err, want)
				}
			}
		})
	}
}

func TestAnAmountOfMemory(t *testing.T) {
	for value, want := range map[any]int64{"0": 0, "2Gi": 2 << 30, "1500M": 1_500_000_000, 2147483648: 2 << 30,
		2.147483648e9: 2 << 30, "1.5Gi": 3 << 29, "-1": -1} {
		s := &settings{viper: viper.New()}
		s.viper.Set("memory", value)
		if got := s.bytes("memory"); got != want || s.err() != nil {
			t.Errorf("%v: %d, want %d: %v", value, got, want, s.err())
		}
	}
	for _, value := range []any{"", "2 GB", "2GiB", "much", []string{"2Gi"}} {
		s := &settings{viper: viper.New()}
		s.viper.Set("memory", value)
		s.bytes("memory")
		if err := s.err(); err == nil || !strings.HasPrefix(err.Error(), "memory: ") ||
			!strings.Contains(err.Error(), "such as 2Gi or 512Mi") {
			t.Errorf("%v: %v", value, err)
		}
	}
}
