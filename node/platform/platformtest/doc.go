// Package platformtest is a [platform.Platform] for tests, on a host that is only a few maps, and the story by which
// it and the real ones show that they keep the contract's promises. It imports platform alone.
package platformtest
