package modulestore

import (
	"os"
	"time"
)

const (
	// maxOrigins bounds what is remembered. A worker has fewer functions.
	maxOrigins = 4096
	// settled is the age from which on a file's modification time shows whether it is written
	// again: times of file systems may be this coarse.
	settled = 2 * time.Second
)

// Origins remembers the digest of each module file, so that a start does not read and hash
// megabytes that have not changed. It is not safe for concurrent use.
type Origins struct{ by map[string]origin }

type origin struct {
	stat   os.FileInfo
	digest string
}

// Find returns the digest of a module file, "" if the file must be read for it, and the file's
// state before that, for Keep.
func (o *Origins) Find(path string) (now os.FileInfo, digest string) {
	now, err := os.Stat(path)
	if err != nil {
		return nil, ""
	}
	was, ok := o.by[path]
	if !ok || !os.SameFile(was.stat, now) || was.stat.Size() != now.Size() || !was.stat.ModTime().Equal(now.ModTime()) {
		return now, ""
	}
	return now, was.digest
}

// Keep remembers the digest that was read from a file; before is its state from Find.
func (o *Origins) Keep(path string, before os.FileInfo, digest string) {
	if before == nil || time.Since(before.ModTime()) < settled {
		return
	}
	if o.by == nil || len(o.by) >= maxOrigins {
		o.by = map[string]origin{}
	}
	o.by[path] = origin{before, digest}
}
