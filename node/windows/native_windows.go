package windows

import (
	"github.com/weftnet/weft/node/hns"
	"github.com/weftnet/weft/node/hostnet"
	"github.com/weftnet/weft/node/ovsdriver"
)

// New is the platform over this Windows' own HNS and iphlpapi.
func New(config Config) (*Platform, error) {
	service, err := hns.NewHCSShim()
	if err != nil {
		return nil, err
	}
	if config.DriverBuild == nil {
		config.DriverBuild = ovsdriver.InstalledBuild
	}
	return NewOver(config, service, hostnet.Native{})
}
