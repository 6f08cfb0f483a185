package main

import "github.com/spf13/pflag"

// Meanings of flags that several commands have.
const (
	kubeconfigUsage     = "kubeconfig file with credentials for the API server; empty: those of the pod that weft runs in"
	userKubeconfigUsage = "kubeconfig file with credentials for the API server; empty: that of the variable KUBECONFIG, " +
		"else ~/.kube/config, else those of the pod that weft runs in"
	metricsUsage = "HOST:PORT where /metrics, /healthz and /readyz are served, without credentials; empty: nowhere"
	configUsage  = "YAML file with any of these keys; a flag or WEFT_… variable wins over it"

	// required ends the meaning of a key that its program does not run without.
	required = " (required)"
)

// metricsFlags are the keys of a program's own server.
func metricsFlags(f *pflag.FlagSet, address string) {
	f.String("metrics-address", address, metricsUsage)
	f.Bool("profiling", false, "also serve /debug/pprof at metrics-address, only to clients on the same host")
}

// hostDefault marks a flag whose default is the machine's name.
const hostDefault = "weft-host-default"

func markHostDefault(f *pflag.FlagSet, key string) {
	_ = f.SetAnnotation(key, hostDefault, nil) // the flag is there
}
