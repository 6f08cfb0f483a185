package pktmon

import "context"

// Planted is a network whose packets a test has planted. Each component that is watched shows all of them at once.
type Planted struct {
	List   []Component
	Frames []Frame
}

// Components are the list.
func (p *Planted) Components() ([]Component, error) { return p.List, nil }

// Watch shows the frames.
func (p *Planted) Watch(_ context.Context, _ Component, see func(Frame)) (<-chan struct{}, error) {
	for _, f := range p.Frames {
		see(f)
	}
	done := make(chan struct{})
	close(done)
	return done, nil
}
