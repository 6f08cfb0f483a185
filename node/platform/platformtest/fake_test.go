package platformtest

import "testing"

func TestFakeKeepsThePlatformsPromises(t *testing.T) {
	f := New()
	Story(t, f, func(name string) string { f.AddSandbox("/" + name); return "/" + name },
		func(name string) { f.RemoveSandbox("/" + name) })
}

func TestFakeKeepsThePlatformsPromisesWithLateDevices(t *testing.T) {
	f := New()
	f.Deferred = true
	Story(t, f, func(name string) string { f.AddSandbox("/" + name); return "/" + name },
		func(name string) { f.RemoveSandbox("/" + name) }, func(name string) { f.StartSandbox("/" + name) })
}
