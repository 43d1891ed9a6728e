//go:build !linux

package engine

import "errors"

// newNetwork says why there is none.
func newNetwork(*Engine, *kit) (network, error) {
	return nil, errors.New("the service network needs Linux")
}

func (e *Engine) filtered(*kit) error { return nil }
