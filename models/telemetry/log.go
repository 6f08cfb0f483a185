package telemetry

import (
	"log/slog"
	"path"
)

// ObjectKey is the key under which a line of a log names the Kubernetes object that it is about.
const ObjectKey = "object"

// Object names an object as the rows of the Northbound do: Pod/shop/web-7d4, or Node/l1 without a namespace.
func Object(kind, namespace, name string) slog.Attr {
	return slog.String(ObjectKey, path.Join(kind, namespace, name))
}
