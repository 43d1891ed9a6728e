package wasm

import (
	"os"
	"time"
)

const (
	// maxOrigins are remembered. It is more than a worker has functions.
	maxOrigins = 4096
	// settled is how long a file must not have been written for its times to tell
	// whether it is written again: those of file systems may be this coarse.
	settled = 2 * time.Second
)

// origins remembers which module is in which file, so that a start does not read and
// hash a file of megabytes that has not changed. It is not safe for concurrent use.
type origins struct{ by map[string]origin }

type origin struct {
	stat   os.FileInfo
	digest string
}

// find is the digest of the module in a file, "" if that has to be read for it, and
// what the file is like now, for keep.
func (o *origins) find(path string) (now os.FileInfo, digest string) {
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

// keep remembers what was read from a file that was like this before.
func (o *origins) keep(path string, before os.FileInfo, digest string) {
	if before == nil || time.Since(before.ModTime()) < settled {
		return
	}
	if o.by == nil || len(o.by) >= maxOrigins {
		o.by = map[string]origin{}
	}
	o.by[path] = origin{before, digest}
}
