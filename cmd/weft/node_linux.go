package main

import (
	"github.com/spf13/pflag"

	"github.com/weftnet/weft/node"
)

// systemFlags are the keys of a Linux node alone.
func systemFlags(f *pflag.FlagSet, defaults node.Config) {
	f.String("gateway-interface", "", "device that joins gateway-bridge; empty if the bridge has one already")
	f.String("gateway-bridge", defaults.GatewayBridge, "bridge to the outside, used where gateway-addresses is set")
}

func systemConfig(s *settings, config *node.Config) {
	config.GatewayInterface = s.text("gateway-interface")
	config.GatewayBridge = s.text("gateway-bridge")
}
