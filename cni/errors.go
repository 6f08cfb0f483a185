package cni

import (
	"errors"

	"github.com/containernetworking/cni/pkg/types"
)

// Codes of the specification's STATUS that the types package does not name.
const (
	// ErrNotAvailable: the plugin cannot serve ADD.
	ErrNotAvailable uint = 50
	// ErrLimitedConnectivity: nor is it sure that attached pods can be reached.
	ErrLimitedConnectivity uint = 51
)

// AsError is err as the specification writes it: itself where it is one, else an internal error.
func AsError(err error) *types.Error {
	var e *types.Error
	if errors.As(err, &e) {
		return e
	}
	return types.NewError(types.ErrInternal, err.Error(), "")
}

// TryAgain tells the runtime that the same call may succeed later.
func TryAgain(msg, details string) *types.Error {
	return types.NewError(types.ErrTryAgainLater, msg, details)
}
