package resttest

import (
	"context"
	"io"
)

// Backup writes Archive.
func (f *Fake) Backup(_ context.Context, w io.Writer, _ bool) error {
	end, err := f.begin("backup")
	if err != nil {
		return err
	}
	defer end()
	_, err = w.Write(f.Archive)
	return err
}
