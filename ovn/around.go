package ovn

import (
	"iter"
	"time"
)

// What the parts of a cluster know of each other.

func (c *cluster) namespaceLabels(name string) (set labelSet, there bool) {
	set, there = c.egress.namespaces[name]
	return set, there
}

func (c *cluster) podAt(key string) *podState { return c.pods[key] }

// touchedPods are the pods that are there of those whose rows are made again.
func (c *cluster) touchedPods() iter.Seq[*podState] {
	return func(yield func(*podState) bool) {
		for key := range c.dirtyPods {
			if p := c.pods[key]; p != nil && !yield(p) {
				return
			}
		}
	}
}

func (c *cluster) placedNodes() iter.Seq[*nodeState] {
	return func(yield func(*nodeState) bool) {
		for _, name := range c.nodeNames {
			if !yield(c.nodes[name]) {
				return
			}
		}
	}
}

func (c *cluster) hasWindows() bool { return len(c.windows) > 0 }

func (c *cluster) touchPod(key string) { c.dirtyPods[key] = struct{}{} }

func (c *cluster) touchNode(name string) { c.dirtyNodes[name] = struct{}{} }

// at tells what time it is.
func (c *cluster) at(now time.Time) { c.clock = now.Unix() }

func (c *cluster) now() int64 { return c.clock }

func (c *cluster) domainUsed(name string, by int) { c.domains.use(name, by) }

func (c *cluster) slicesOf(service string) []*slice {
	if s := c.services[service]; s != nil {
		return s.slices
	}
	return nil
}
