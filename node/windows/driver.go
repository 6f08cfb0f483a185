package windows

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"

	"github.com/weftnet/weft/node/ovsdriver"
)

// checkDrivers refuses each driver that is installed and could be the uplink's, and several of which none is named,
// before the host's connections pause for a network that would not stay.
func (u *sharing) checkDrivers(ctx context.Context) error {
	if _, _, err := ovsdriver.Installed(u.config.Driver, func(kind ovsdriver.Kind) bool {
		_, err := u.config.DriverBuild(kind)
		return err == nil
	}); err != nil {
		return err
	}
	for _, kind := range ovsdriver.Kinds {
		if u.config.Driver != "" && u.config.Driver != kind.Name {
			continue
		}
		if err := u.checkDriver(ctx, kind); err != nil {
			return err
		}
	}
	return nil
}

// checkDriver refuses a driver that stops the machine once OVN's packets come to it, as they do when its extension is
// enabled and ovn-controller runs. One whose version cannot be read is let pass, and told of.
func (u *sharing) checkDriver(ctx context.Context, kind ovsdriver.Kind) error {
	build, err := u.config.DriverBuild(kind)
	switch {
	case errors.Is(err, fs.ErrNotExist): // HNS tells whether the switch has its extension
		return nil
	case err != nil:
		slog.WarnContext(ctx, "it is not known of which Open vSwitch the driver is", "driver", kind.Name, "error", err)
		return nil
	}
	if err := build.Check(); err != nil {
		return fmt.Errorf("the driver %s is refused: %w: install that of Open vSwitch 3.7, and see `weft.exe doctor`",
			kind.Service, err)
	}
	return nil
}
