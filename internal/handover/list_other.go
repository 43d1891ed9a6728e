//go:build !linux

package handover

import (
	"errors"
	"os"
)

// newList is a file without a name.
func newList() (*os.File, error) {
	f, err := os.CreateTemp("", "verge-sockets-")
	if err != nil {
		return nil, err
	}
	if err := os.Remove(f.Name()); err != nil { // it is handed over open
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}
