//go:build !linux

package network

import "errors"

// open says why there is none.
func (n *Network) open() (Overlay, error) { return nil, errors.New("the service network needs Linux") }

func (n *Network) filtered() error { return nil }
