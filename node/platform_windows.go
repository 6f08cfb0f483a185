package node

import (
	"github.com/weftnet/weft/node/hns"
	"github.com/weftnet/weft/node/hostnet"
)

// NewWindows is the platform over this Windows' own HNS and iphlpapi.
func NewWindows(config WindowsConfig) (*Windows, error) {
	service, err := hns.NewHCSShim()
	if err != nil {
		return nil, err
	}
	return newWindows(config, service, hostnet.Native{})
}
