package hostnet

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"time"

	"golang.zx2c4.com/wireguard/windows/tunnel/winipcfg"
)

// pollPeriod is how often adapters are compared: that Windows tells a listener of other network compartments than its
// own nobody says, and pods have others.
const pollPeriod = 2 * time.Second

func (n Native) Watch(ctx context.Context, changed func()) error {
	interfaces, err := winipcfg.RegisterInterfaceChangeCallback(func(winipcfg.MibNotificationType,
		*winipcfg.MibIPInterfaceRow) {
		changed()
	})
	if err != nil {
		return fmt.Errorf("NotifyIpInterfaceChange: %w", err)
	}
	addresses, err := winipcfg.RegisterUnicastAddressChangeCallback(func(winipcfg.MibNotificationType,
		*winipcfg.MibUnicastIPAddressRow) {
		changed()
	})
	if err != nil {
		return errors.Join(fmt.Errorf("NotifyUnicastIpAddressChange: %w", err), interfaces.Unregister())
	}
	routes, err := winipcfg.RegisterRouteChangeCallback(func(winipcfg.MibNotificationType, *winipcfg.MibIPforwardRow2) {
		changed()
	})
	if err != nil {
		return errors.Join(fmt.Errorf("NotifyRouteChange2: %w", err), addresses.Unregister(), interfaces.Unregister())
	}
	err = n.poll(ctx, changed)
	return errors.Join(err, routes.Unregister(), addresses.Unregister(), interfaces.Unregister())
}

func (n Native) poll(ctx context.Context, changed func()) error {
	before, err := n.Adapters()
	if err != nil {
		return err
	}
	changed()
	tick := time.NewTicker(pollPeriod)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
		now, err := n.Adapters()
		if err != nil {
			return err
		}
		if !reflect.DeepEqual(before, now) {
			before = now
			changed()
		}
	}
}
