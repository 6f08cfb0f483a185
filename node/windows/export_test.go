package windows

import (
	"context"
	"time"

	"github.com/weftnet/weft/node/hns"
	"github.com/weftnet/weft/node/hostnet"
	"github.com/weftnet/weft/node/ovsdriver"
)

// What tests see of a platform from outside.

const (
	EnablePeriod  = enablePeriod
	NetworkPeriod = networkPeriod
	NamePeriod    = namePeriod
)

func Aliases(adapters []hostnet.Adapter) string { return aliases(adapters) }

func (w *Platform) EndpointNamed(ctx context.Context, device string) (hns.Endpoint, error) {
	return w.hns.EndpointNamed(ctx, device)
}

func (w *Platform) UplinkHolds(ctx context.Context) bool { return w.uplinkHolds(ctx) }
func (w *Platform) ForgetUplink()                        { w.forgetUplink() }
func (w *Platform) LastDriver() ovsdriver.Kind           { return w.lastSeen().driver }
func (w *Platform) SavedHost() (*HostSettings, error)    { return w.saved.Read() }
func (w *Platform) RetryTime() time.Duration             { return w.config.RetryTime }
