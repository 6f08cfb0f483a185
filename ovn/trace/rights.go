package trace

import (
	"context"
	"fmt"
)

// May says whether whoever asks may trace to and from the pods and Services of a namespace; of "", between all ends.
type May func(ctx context.Context, namespace string) (bool, error)

// ForbiddenError is that whoever asks has no right to an answer.
type ForbiddenError struct {
	// Namespace is where the right is missing; "" is the whole cluster.
	Namespace string
	// Why is what needs the right.
	Why string
}

func (e *ForbiddenError) Error() string {
	if e.Namespace == "" {
		return fmt.Sprintf("%s: that needs the right in the whole cluster", e.Why)
	}
	return fmt.Sprintf("%s: that needs the right in namespace %s", e.Why, e.Namespace)
}

// need gives a [ForbiddenError] if the right is missing.
func (m May) need(ctx context.Context, namespace, why string) error {
	allowed, err := m(ctx, namespace)
	if err == nil && !allowed {
		err = &ForbiddenError{namespace, why}
	}
	return err
}

// remembered asks for each namespace once.
func (m May) remembered() May {
	type answer struct {
		allowed bool
		err     error
	}
	known := map[string]answer{}
	return func(ctx context.Context, namespace string) (bool, error) {
		a, there := known[namespace]
		if !there {
			a.allowed, a.err = m(ctx, namespace)
			known[namespace] = a
		}
		return a.allowed, a.err
	}
}
