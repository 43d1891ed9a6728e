package engine

import "context"

// gate is a mutex for which one may stop waiting. It has room for one.
type gate chan struct{}

// Lock waits until nobody else has it.
func (g gate) Lock() { g <- struct{}{} }

// Unlock gives it to the next.
func (g gate) Unlock() { <-g }

// lockUntil is Lock, unless ctx is done before: it says whether the caller has it.
func (g gate) lockUntil(ctx context.Context) bool {
	select {
	case g <- struct{}{}:
	case <-ctx.Done():
		return false
	}
	if ctx.Err() != nil { // both were so
		g.Unlock()
		return false
	}
	return true
}
