package logfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"syscall"
)

// Options bound what is kept.
type Options struct {
	// MaxLive is how many bytes that are not archived the live file may hold
	// before a rotation, and the size of a segment. 0 means 4 MiB.
	MaxLive int64
	// Segments kept. 0 means 4. On disk are at most Segments+1 times MaxLive, and
	// what is written between two rotations.
	Segments int
	// MaxWhole is the size at which the live file is truncated on a file system
	// without holes. 0 means 16 times MaxLive.
	MaxWhole int64
	// Logger is told when the file system has no holes. nil means nobody is.
	Logger *slog.Logger

	// punch replaces punchHole in tests.
	punch func(f *os.File, n int64) error
}

func (o Options) withDefaults() Options {
	if o.MaxLive <= 0 {
		o.MaxLive = 4 << 20
	}
	if o.Segments <= 0 {
		o.Segments = 4
	}
	if o.MaxWhole <= 0 {
		o.MaxWhole = 16 * o.MaxLive
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.punch == nil {
		o.punch = punchHole
	}
	return o
}

// blockSize to which holes are aligned, the usual one. Where blocks are larger
// the kernel zeroes the rest of the range instead, which is archived as well.
const blockSize = 4096

// maxLine is how far back from a segment's end a line end is looked for; a
// longer line is cut.
const maxLine = 1 << 20

// Direct says whether programs write to the live file of dir themselves: there is neither a
// pipe nor a time of a chunk. It is so only of what an older version has started.
func Direct(dir string) bool {
	for _, name := range []string{pipeName, timesName} {
		if _, err := os.Lstat(filepath.Join(dir, name)); err == nil {
			return false
		}
	}
	return true
}

// Rotate archives what is due in the log of dir and reports whether anything
// was. It is to be called every few seconds while programs write; with nothing
// due it costs one stat, in a log that was never rotated also one look into
// the directory. Calls may overlap, also between processes: the second does
// nothing.
func Rotate(dir string, o Options) (changed bool, err error) {
	o = o.withDefaults()
	st, err := os.Stat(filepath.Join(dir, liveName))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("rotate log: %w", err)
	}
	// In a file with holes the allocated bytes are what is not archived. A file
	// without may have been truncated by its writer since it was last rotated,
	// which must be noticed before it has grown again.
	if allocated(st) <= o.MaxLive && allocated(st) < st.Size() {
		return false, nil
	}
	if st.Size() <= o.MaxLive {
		l, err := load(dir)
		if err != nil || !l.cut {
			return false, err
		}
	}
	unlock, ok, err := lock(dir)
	if err != nil || !ok {
		return false, err
	}
	defer unlock()
	r, err := newRotator(dir, o)
	if err != nil {
		return false, fmt.Errorf("rotate log: %w", err)
	}
	defer r.live.Close() //nolint:errcheck // nothing was written through it
	if err := r.rotate(); err != nil {
		return r.changed, fmt.Errorf("rotate log: %w", err)
	}
	return r.changed, nil
}

// allocated is what the file takes on disk, in bytes.
func allocated(st os.FileInfo) int64 {
	if sys, ok := st.Sys().(*syscall.Stat_t); ok {
		return int64(sys.Blocks) * 512 //nolint:unconvert // not an int64 on every system
	}
	return st.Size()
}

// rotator is one rotation, under the directory's lock.
type rotator struct {
	dir     string
	opts    Options
	live    *os.File
	layout  *layout
	changed bool
}

func newRotator(dir string, o Options) (*rotator, error) {
	l, err := load(dir)
	if err != nil {
		return nil, err
	}
	live, err := os.OpenFile(filepath.Join(dir, liveName), os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	return &rotator{dir: dir, opts: o, live: live, layout: l}, nil
}

func (r *rotator) rotate() error {
	l := r.layout
	if l.cut {
		if err := writeBase(r.dir, l.base); err != nil {
			return err
		}
		l.cut = false
	}
	r.skip()
	for relieved := false; l.end()-l.first > r.opts.MaxLive; {
		cut, err := r.lineEnd(l.first + r.opts.MaxLive)
		if err != nil {
			return err
		}
		err = r.archive(cut)
		if !relieved && diskFull(err) {
			// It may be this log that filled the disk. What is not kept anyway is
			// given back first, or there would never be room again.
			if perr := r.opts.punch(r.live, l.first-l.base); perr != nil {
				return errors.Join(err, perr)
			}
			relieved = true
			continue
		}
		if err != nil {
			return err
		}
	}
	if freed, err := r.freed(); freed || err != nil {
		return err
	}
	err := r.opts.punch(r.live, l.archived()-l.base)
	if errors.Is(err, errors.ErrUnsupported) {
		return r.truncate()
	}
	if err != nil {
		return fmt.Errorf("free archived blocks: %w", err)
	}
	return nil
}

// diskFull says whether there was no room for what was to be written.
func diskFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

// freed says whether nothing that is archived takes a block of the live file any
// more. A file system that allocates ahead of the writer makes a log look due
// for rotation that is not; then nothing must be written to the disk.
func (r *rotator) freed() (bool, error) {
	archived := r.layout.archived() - r.layout.base
	if archived < blockSize {
		return true, nil
	}
	data, err := seekData(r.live, 0, r.layout.size)
	if err != nil {
		return false, fmt.Errorf("find archived blocks: %w", err)
	}
	return data >= archived-archived%blockSize, nil
}

// skip passes over what would be archived only to be pruned at once, which a
// program that writes faster than the disk would otherwise make us copy.
func (r *rotator) skip() {
	l := r.layout
	keep := int64(r.opts.Segments+1) * r.opts.MaxLive
	if l.end()-l.first <= keep {
		return
	}
	at, err := r.lineEnd(l.end() - keep)
	if err != nil {
		return // archive meets the same error and reports it
	}
	l.first = max(l.first, at)
}

// lineEnd returns the last offset at or before limit where a line has ended, or
// limit if the line is too long.
func (r *rotator) lineEnd(limit int64) (int64, error) {
	l := r.layout
	buf := make([]byte, 32<<10)
	lowest := max(l.first, limit-maxLine)
	for hi := limit; hi > lowest; {
		lo := max(lowest, hi-int64(len(buf)))
		p := buf[:hi-lo]
		if _, err := r.live.ReadAt(p, lo-l.base); err != nil {
			return 0, fmt.Errorf("find a line's end: %w", err)
		}
		if nl := bytes.LastIndexByte(p, '\n'); nl >= 0 {
			return lo + int64(nl) + 1, nil
		}
		hi = lo
	}
	return limit, nil
}

// archive copies the live bytes up to cut into a segment and prunes old ones.
func (r *rotator) archive(cut int64) error {
	l := r.layout
	s := segment{start: l.first, size: cut - l.first}
	if err := r.copyTo(s); err != nil {
		return fmt.Errorf("archive: %w", err)
	}
	// A segment that a loss of power left empty is replaced by its own rewrite.
	l.segments = slices.DeleteFunc(l.segments, func(old segment) bool { return old.start == s.start })
	l.segments = append(l.segments, s)
	l.first = cut
	r.changed = true
	for len(l.segments) > r.opts.Segments {
		if err := os.Remove(l.segments[0].path(r.dir)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("prune: %w", err)
		}
		l.segments = l.segments[1:]
	}
	return nil
}

func (r *rotator) copyTo(s segment) error {
	tmp := filepath.Join(r.dir, tempName)
	f, err := os.OpenFile(tmp, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, filePerm)
	if err != nil {
		return err
	}
	// From file to file CopyN shares the blocks where the file system can.
	_, err = r.live.Seek(s.start-r.layout.base, io.SeekStart)
	if err == nil {
		_, err = io.CopyN(f, r.live, s.size)
	}
	if e := f.Close(); err == nil {
		err = e
	}
	if err == nil {
		err = os.Rename(tmp, s.path(r.dir))
	}
	if err != nil {
		_ = os.Remove(tmp) // the disk may be full; leave it no fuller
	}
	return err
}

// truncate is for file systems without holes: once the live file is too large
// all of it is archived and it starts anew. A crash between truncation and the
// new base is noticed by load, as the end is then before what is archived.
func (r *rotator) truncate() error {
	l := r.layout
	if l.size <= r.opts.MaxWhole {
		return nil
	}
	if l.base == 0 {
		r.opts.Logger.Warn("the file system of the logs cannot free part of a file: "+
			"a line written at the instant of a rotation may be lost", "dir", r.dir)
	}
	// Archive until there is nothing new; a program that never pauses must not
	// keep us here, so the last look is final.
	for range 3 {
		for l.first < l.end() {
			if err := r.archive(min(l.end(), l.first+r.opts.MaxLive)); err != nil {
				return err
			}
		}
		st, err := r.live.Stat()
		if err != nil {
			return err
		}
		if st.Size() == l.size {
			break
		}
		l.size = st.Size()
	}
	if err := r.live.Truncate(0); err != nil {
		return fmt.Errorf("truncate: %w", err)
	}
	if err := writeBase(r.dir, l.archived()); err != nil {
		return err
	}
	l.base, l.size = l.archived(), 0
	return nil
}
