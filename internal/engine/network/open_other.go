//go:build !linux

package network

import "errors"

// open returns why it is not supported.
func (n *Network) open() (Overlay, error) { return nil, errors.New("the service network needs Linux") }

func (n *Network) filtered() error { return nil }
