package main

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cast"
	"github.com/spf13/cobra"
	"github.com/spf13/viper"
	"k8s.io/apimachinery/pkg/api/resource"
)

// settings reads a command's keys from, in this order, its flags, the environment (WEFT_ and the
// key in capitals, dashes as underscores) and the file that --config names. It remembers each
// value that it could not read, so that a user sees all mistakes at once.
type settings struct {
	viper *viper.Viper
	errs  []error
}

// loadSettings refuses a file with a key that the command does not have: a misspelt key would
// otherwise be a default that nobody chose.
func loadSettings(cmd *cobra.Command) (*settings, error) {
	v := viper.New()
	v.SetEnvPrefix("WEFT")
	v.SetEnvKeyReplacer(strings.NewReplacer("-", "_"))
	v.AutomaticEnv()
	if err := v.BindPFlags(cmd.Flags()); err != nil {
		return nil, err
	}
	file := v.GetString("config")
	if file == "" {
		return &settings{viper: v}, nil
	}
	inFile := viper.New() // alone, to see which keys the file has
	for _, reader := range []*viper.Viper{v, inFile} {
		reader.SetConfigFile(file)
		reader.SetConfigType("yaml")
		if err := reader.ReadInConfig(); err != nil {
			return nil, fmt.Errorf("config %s: %w", file, err)
		}
	}
	var errs []error
	for _, key := range slices.Sorted(slices.Values(inFile.AllKeys())) {
		if cmd.Flags().Lookup(key) == nil {
			errs = append(errs, fmt.Errorf("config %s: key %q is not known; `%s --help` lists the keys", file, key,
				cmd.CommandPath()))
		}
	}
	return &settings{viper: v}, errors.Join(errs...)
}

func (s *settings) err() error { return errors.Join(s.errs...) }

// text is a key's only value.
func (s *settings) text(key string) string {
	return scalar(s, key, cast.ToStringE, "a single value")
}

// list is a key's values: a list in a file, and everywhere a text with commas.
func (s *settings) list(key string) []string {
	var items []string
	for _, value := range scalar(s, key, cast.ToStringSliceE, "a list of values") {
		for item := range strings.SplitSeq(value, ",") { // the environment has no lists
			if item = strings.TrimSpace(item); item != "" {
				items = append(items, item)
			}
		}
	}
	return items
}

// prefixes are addresses, each with its subnet's length.
func (s *settings) prefixes(key string) []netip.Prefix {
	return parseList(s, key, netip.ParsePrefix, "an address with its subnet's length such as 192.0.2.11/24 or "+
		"2001:db8::11/64")
}

func (s *settings) addresses(key string) []netip.Addr {
	return parseList(s, key, netip.ParseAddr, "an IP address such as 192.0.2.1 or 2001:db8::1")
}

func (s *settings) address(key string) netip.Addr {
	text := s.text(key)
	if text == "" {
		return netip.Addr{}
	}
	addr, err := netip.ParseAddr(text)
	if err != nil {
		s.errs = append(s.errs, fmt.Errorf("%s: %q is not an IP address such as 192.0.2.1 or 2001:db8::1", key, text))
	}
	return addr
}

func (s *settings) integer(key string) int {
	return scalar(s, key, cast.ToIntE, "a number")
}

func (s *settings) boolean(key string) bool {
	return scalar(s, key, cast.ToBoolE, "true or false")
}

func (s *settings) duration(key string) time.Duration {
	return scalar(s, key, cast.ToDurationE, "a duration such as 15s")
}

// bytes is an amount of memory as Kubernetes writes it; a plain number is one of bytes.
func (s *settings) bytes(key string) int64 {
	amount := scalar(s, key, func(value any) (resource.Quantity, error) {
		text, err := cast.ToStringE(value)
		if err != nil {
			return resource.Quantity{}, err
		}
		return resource.ParseQuantity(text)
	}, "an amount of memory such as 2Gi or 512Mi")
	return amount.Value()
}

// interval is how long to wait between two questions to weft observe.
func (s *settings) interval() time.Duration {
	before := len(s.errs)
	d := s.duration("interval")
	if len(s.errs) == before && d < time.Second {
		s.errs = append(s.errs, fmt.Errorf("interval: %v is less than 1s, and answers are as new as 5s; give more", d))
	}
	return d
}

// scalar exists because viper's own getters turn what they cannot read into zero.
func scalar[T any](s *settings, key string, parse func(any) (T, error), want string) T {
	value, err := parse(s.viper.Get(key))
	if err != nil {
		s.errs = append(s.errs, fmt.Errorf("%s: %q is not %s", key, fmt.Sprint(s.viper.Get(key)), want))
	}
	return value
}

func parseList[T any](s *settings, key string, parse func(string) (T, error), want string) []T {
	var values []T
	for _, item := range s.list(key) {
		value, err := parse(item)
		if err != nil {
			s.errs = append(s.errs, fmt.Errorf("%s: %q is not %s", key, item, want))
			continue
		}
		values = append(values, value)
	}
	return values
}
