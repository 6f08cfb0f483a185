package lab

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
)

// ResetHost gives a host a new disk, as if it had just been installed. Power is cut from the old one.
func (l *Lab) ResetHost(ctx context.Context, name string) error {
	i := slices.Index(l.HostNames(), name)
	if i < 0 {
		return fmt.Errorf("lab %q has no host %q; it has %s", l.Name, name, strings.Join(l.HostNames(), ", "))
	}
	client := l.Machine(name)
	if err := client.Off(ctx); err != nil {
		return err
	}
	if err := os.RemoveAll(l.files.hostDisk(name)); err != nil {
		return err
	}
	base, err := EnsureImages(ctx, l.Bin, func(string) {})
	if err != nil {
		return err
	}
	if err := l.layout().populate(base); err != nil {
		return err
	}
	return client.On(ctx)
}
