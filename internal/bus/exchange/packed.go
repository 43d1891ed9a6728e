package exchange

import (
	"bytes"
	"compress/flate"
	"fmt"
	"io"

	"github.com/verge-edge/verge/internal/wire"
)

const (
	// packFrom is the size of a value, in bytes, from which on it is sent packed to those
	// who can read that. Routes of services with thousands of instances are so large, and
	// pack to an eighth.
	packFrom = 64 << 10
	// maxUnpacked bounds what a packed value may become, in bytes: what a store takes.
	maxUnpacked = 4 << 20
)

// packed compresses a value.
func packed(value []byte) ([]byte, error) {
	var b bytes.Buffer
	w, err := flate.NewWriter(&b, flate.BestSpeed)
	if err == nil {
		_, err = w.Write(value)
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		return nil, fmt.Errorf("packing a value of %d bytes: %w", len(value), err)
	}
	return b.Bytes(), nil
}

// unpacked returns a change with its value in the clear. One that is not packed is returned
// as it is.
func unpacked(c wire.Change) (wire.Change, error) {
	if c.Packed == nil {
		return c, nil
	}
	r := flate.NewReader(bytes.NewReader(c.Packed))
	value, err := io.ReadAll(io.LimitReader(r, maxUnpacked+1))
	switch {
	case err != nil:
		return c, fmt.Errorf("unpacking %q: %w", c.Key, err)
	case len(value) > maxUnpacked:
		return c, fmt.Errorf("unpacking %q: it has more than %d bytes", c.Key, maxUnpacked)
	}
	c.Value, c.Packed = value, nil
	return c, nil
}
