//go:build !linux

package wg

import (
	"fmt"
	"net/netip"
	"runtime"
)

func (d *Device) open() error {
	return fmt.Errorf("%w: it needs Linux, this is %s", ErrUnsupported, runtime.GOOS)
}

func (d *Device) route(_, _ []netip.Prefix, _ int) error { return nil }

// Shape does nothing here.
func (d *Device) Shape(uint64) error { return ErrUnsupported }

// Destroy is Close.
func (d *Device) Destroy() error { return d.Close() }
