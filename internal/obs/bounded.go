package obs

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
)

// MaxLog is how large the log of a process without a supervisor becomes, before it
// is set aside under its name with .1, which takes the place of the one before. So
// on disk there is at most twice as much, and a little.
const MaxLog = 4 << 20

// bounded is a log in a file that the process has as its standard error. What is
// written is counted here, so that nobody has to look at the file.
type bounded struct {
	path string
	max  int64
	to   []*os.File // standard error first; all lead to the file

	mu   sync.Mutex // guards below
	size int64
}

// Bound returns a writer for a log that goes to standard error, where that is the
// file at path: it keeps the file below max bytes. stderr and others (standard
// output), as far as they are that file too, lead to the new one after each change,
// so that what the runtime writes when a process crashes is there as well. Where
// stderr is something else, it is returned as it is.
func Bound(path string, max int64, stderr io.Writer, others ...*os.File) (io.Writer, error) {
	f, ok := stderr.(*os.File)
	if !ok {
		return stderr, nil
	}
	at, err := os.Stat(path)
	if errors.Is(err, os.ErrNotExist) {
		return stderr, nil
	}
	if err != nil {
		return stderr, fmt.Errorf("looking at the log: %w", err)
	}
	b := &bounded{path: path, max: max, size: at.Size()}
	for _, o := range append([]*os.File{f}, others...) {
		if st, err := o.Stat(); err == nil && os.SameFile(st, at) {
			b.to = append(b.to, o)
		} else if o == f {
			return stderr, nil
		}
	}
	return b, nil
}

// Write implements io.Writer.
func (b *bounded) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.size > 0 && b.size+int64(len(p)) > b.max {
		if err := b.turn(); err != nil {
			// Rather lose what is old than fill the disk: it may be the disk that is
			// full.
			if terr := b.to[0].Truncate(0); terr != nil {
				return 0, errors.Join(err, terr)
			}
		}
		b.size = 0
	}
	n, err := b.to[0].Write(p)
	b.size += int64(n)
	return n, err
}

// turn sets the file aside and begins another.
func (b *bounded) turn() error {
	if err := os.Rename(b.path, b.path+".1"); err != nil {
		return fmt.Errorf("setting the log aside: %w", err)
	}
	next, err := os.OpenFile(b.path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("beginning another log: %w", err)
	}
	defer func() { _ = next.Close() }() // there are others of it
	for _, f := range b.to {
		if err := duplicate(next, f); err != nil {
			return fmt.Errorf("going on with another log: %w", err)
		}
	}
	return nil
}
