package node

import "testing"

func TestFakeKeepsThePlatformsPromises(t *testing.T) {
	f := newFakePlatform()
	platformStory(t, f, func(name string) string { f.addSandbox("/" + name); return "/" + name }, func(name string) { f.removeSandbox("/" + name) })
}

func TestFakeKeepsThePlatformsPromisesWithLateDevices(t *testing.T) {
	f := newFakePlatform()
	f.late = true
	platformStory(t, f, func(name string) string { f.addSandbox("/" + name); return "/" + name },
		func(name string) { f.removeSandbox("/" + name) }, func(name string) { f.startSandbox("/" + name) })
}
