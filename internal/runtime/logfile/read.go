package logfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"

	"github.com/verge-edge/verge/internal/wire/rpc"
)

// Bounds of one Read.
const (
	DefaultChunk = 64 << 10 // bytes, where max is 0 or less
	MaxChunk     = 1 << 20  // bytes
	MaxLines     = 100_000  // lines before the end
)

// readAttempts bounds how often a read is repeated because a rotation overtook
// it. One rotation frees at least MaxLive bytes, so two in a row are already
// rare; this many mean that something else is wrong.
const readAttempts = 50

// errOvertaken: a rotation moved what was being read.
var errOvertaken = errors.New("overtaken by a rotation")

// Read reads at most limit bytes of the log in dir from offset on; a negative
// offset starts that many lines before the end. It may return fewer bytes than
// there are; the end, which is End, is reached when Data is empty. An offset beyond it
// yields Next = the end.
func Read(dir string, offset int64, limit int) (rpc.LogChunk, error) {
	return ReadWithin(dir, Range{To: math.MaxInt64}, offset, limit)
}

// Range is a part of a log: the bytes [From, To).
type Range struct{ From, To int64 }

// ReadWithin is Read of a part of the log: it begins at r.From and ends at r.To, or where
// the log ends.
func ReadWithin(dir string, r Range, offset int64, limit int) (rpc.LogChunk, error) {
	if limit <= 0 {
		limit = DefaultChunk
	}
	limit = min(limit, MaxChunk)
	for range readAttempts {
		c, err := readOnce(dir, r, offset, limit)
		if !errors.Is(err, errOvertaken) {
			return c, err
		}
	}
	return rpc.LogChunk{}, fmt.Errorf("read log: %w %d times in a row; is something else changing %s?",
		errOvertaken, readAttempts, dir)
}

func readOnce(dir string, r Range, offset int64, limit int) (rpc.LogChunk, error) {
	l, err := load(dir)
	if err != nil {
		return rpc.LogChunk{}, err
	}
	v := newView(dir, l, r)
	defer v.close()

	if offset < 0 {
		offset, err = v.lastLines(-max(offset, -MaxLines))
		if err != nil {
			return rpc.LogChunk{}, err
		}
	}
	offset = max(offset, r.From)
	pos := v.seek(offset)
	data, err := v.readFrom(pos, limit)
	if err != nil {
		return rpc.LogChunk{}, err
	}
	// What came from segments alone, without a gap, needs no second look.
	if v.readLive || pos != offset || len(data) == 0 {
		if err := v.check(); err != nil {
			return rpc.LogChunk{}, err
		}
	}
	return rpc.LogChunk{Data: data, Next: pos + int64(len(data)), Lost: max(0, pos-offset), End: v.end}, nil
}

// source is a run of bytes [start, end) of the log within one file.
type source struct {
	start, end int64
	path       string
	origin     int64 // offset of the file's first byte
	live       bool
}

// view reads a layout as one sequence of bytes with gaps.
type view struct {
	dir     string
	layout  *layout
	sources []source // ascending, not overlapping
	end     int64    // of what is to be read
	open    map[string]*os.File
	// readLive says that bytes came from the live file, which a rotation may have
	// freed before they were read.
	readLive bool
}

func newView(dir string, l *layout, r Range) *view {
	v := &view{dir: dir, layout: l, end: min(l.end(), r.To), open: map[string]*os.File{}}
	add := func(start, end int64, s source) {
		s.start, s.end = max(start, r.From), min(end, v.end)
		if s.start < s.end {
			v.sources = append(v.sources, s)
		}
	}
	var end int64
	for _, s := range l.segments {
		if s.end() > end {
			add(max(s.start, end), s.end(), source{path: s.path(dir), origin: s.start})
			end = s.end()
		}
	}
	add(l.first, l.end(), source{path: Live(dir), origin: l.base, live: true})
	return v
}

func (v *view) close() {
	for _, f := range v.open {
		_ = f.Close() // read only
	}
}

// seek returns the first offset at or behind offset that is kept, or the end.
func (v *view) seek(offset int64) int64 {
	for _, s := range v.sources {
		if offset < s.end {
			return max(offset, s.start)
		}
	}
	return v.end
}

// readFrom reads up to limit bytes from pos on, across files but not across a
// gap.
func (v *view) readFrom(pos int64, limit int) ([]byte, error) {
	var out []byte
	for _, s := range v.sources {
		if pos < s.start || pos >= s.end || len(out) == limit {
			continue
		}
		n := int(min(s.end-pos, int64(limit-len(out))))
		if out == nil {
			out = make([]byte, 0, min(int64(limit), v.end-pos))
		}
		out = append(out, make([]byte, n)...)
		if err := v.readAt(s, out[len(out)-n:], pos); err != nil {
			return nil, err
		}
		pos += int64(n)
	}
	return out, nil
}

// readAt fills p from offset pos, which lies in s with all of p.
func (v *view) readAt(s source, p []byte, pos int64) error {
	f := v.open[s.path]
	if f == nil {
		var err error
		f, err = os.Open(s.path)
		if errors.Is(err, fs.ErrNotExist) {
			return errOvertaken // pruned
		}
		if err != nil {
			return fmt.Errorf("open log: %w", err)
		}
		v.open[s.path] = f
	}
	v.readLive = v.readLive || s.live
	_, err := f.ReadAt(p, pos-s.origin)
	if errors.Is(err, io.EOF) {
		return errOvertaken // truncated
	}
	if err != nil {
		return fmt.Errorf("read log: %w", err)
	}
	return nil
}

// lastLines returns the offset where the last n lines begin; an unfinished
// line at the end counts.
func (v *view) lastLines(n int64) (int64, error) {
	end := v.end
	buf := make([]byte, 32<<10)
	for i := len(v.sources) - 1; i >= 0; i-- {
		s := v.sources[i]
		for hi := s.end; hi > s.start; {
			lo := max(s.start, hi-int64(len(buf)))
			p := buf[:hi-lo]
			if err := v.readAt(s, p, lo); err != nil {
				return 0, err
			}
			for len(p) > 0 {
				nl := bytes.LastIndexByte(p, '\n')
				if nl < 0 {
					break
				}
				// The newline that ends the log ends the last line; every other one
				// stands before a line that is wholly read.
				if at := lo + int64(nl) + 1; at != end {
					if n--; n == 0 {
						return at, nil
					}
				}
				p = p[:nl]
			}
			hi = lo
		}
		if i > 0 && v.sources[i-1].end != s.start {
			return s.start, nil // lines do not continue across a gap
		}
	}
	if len(v.sources) == 0 {
		return end, nil
	}
	return v.sources[0].start, nil
}

// check returns errOvertaken if a rotation since load may have freed what was
// then read, or may be what load took for a loss. The rotator puts the segment
// in place first; a hole without one, which it makes on a full disk, shows in
// where the live file begins.
func (v *view) check() error {
	now, err := load(v.dir)
	if err != nil {
		return err
	}
	if now.base != v.layout.base || now.archived() != v.layout.archived() || now.first != v.layout.first {
		return errOvertaken
	}
	return nil
}
