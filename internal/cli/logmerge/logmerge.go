package logmerge

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/verge-edge/verge/client"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

const (
	// MaxLine is how much of a line is held back until its end comes.
	MaxLine = 64 << 10
	// maxFormer bounds how many workers on which an instance was are asked for its log.
	maxFormer = 8
)

// Line is a line of a log, with its end if it has one.
type Line struct {
	At   time.Time // zero where it is not known
	Text []byte
}

// Stamped is the line with its time before it, as --timestamps shows it.
func (l Line) Stamped() []byte {
	at := "-"
	if !l.At.IsZero() {
		at = l.At.UTC().Format("2006-01-02T15:04:05.000Z07:00")
	}
	return append([]byte(at+" "), l.Text...)
}

// TimeOf is when the byte at an offset was written.
func TimeOf(times []rpc.LogTime, offset int64) (at time.Time) {
	for _, t := range times {
		if t.Offset > offset {
			break
		}
		at = t.At
	}
	return at
}

// source reads one log, on the worker where the instance is or on one where it was,
// line by line up to where it ended when the first of it was read.
type source struct {
	c        *client.Client
	id       string
	ask      rpc.LogAsk
	lost     func(bytes int64)
	worker   string // of a former one
	end      int64
	rest     []byte // not given out yet
	at       int64  // offset of rest
	times    []rpc.LogTime
	finished bool
	started  bool
}

// fill reads a page. The first is read by open, so that it is known whether there is a log.
func (s *source) fill(ctx context.Context) error {
	chunk, err := s.c.Instances.Logs(ctx, s.id, s.ask)
	if err != nil {
		return err
	}
	if s.ask.Former > 0 && chunk.Former != s.ask.Former {
		return errNoFormer // a cluster that does not know of former logs answers with the present one
	}
	if !s.started {
		s.started, s.end, s.worker = true, chunk.End, chunk.Worker
		s.ask.Since = 0
	}
	if chunk.Lost > 0 {
		s.lost(chunk.Lost)
	}
	if len(s.rest) == 0 {
		s.at = chunk.Next - int64(len(chunk.Data))
		s.times = nil
	}
	s.rest = append(s.rest, chunk.Data...)
	s.times = append(s.times, chunk.Times...)
	s.ask.Offset = chunk.Next
	// Whoever writes without a pause would keep us here for ever.
	s.finished = len(chunk.Data) == 0 || s.end > 0 && chunk.Next >= s.end
	return nil
}

// next is the next line; io.EOF after the last.
func (s *source) next(ctx context.Context) (Line, error) {
	for {
		n := bytes.IndexByte(s.rest, '\n') + 1
		if n == 0 && (s.finished || len(s.rest) >= MaxLine) {
			n = len(s.rest)
		}
		if n > 0 {
			line := Line{At: TimeOf(s.times, s.at), Text: s.rest[:n]}
			s.rest, s.at = s.rest[n:], s.at+int64(n)
			for len(s.times) > 1 && s.times[1].Offset <= s.at {
				s.times = s.times[1:]
			}
			return line, nil
		}
		if s.finished {
			return Line{}, io.EOF
		}
		s.rest = slices.Clone(s.rest)
		if err := s.fill(ctx); err != nil {
			return Line{}, err
		}
	}
}

var errNoFormer = errors.New("no former log")

// noFormer says that there is no such log, or that nobody knows of it.
func noFormer(err error) bool {
	var p *wire.Problem
	return errors.Is(err, errNoFormer) || errors.As(err, &p) && (p.Status == 404 || p.Status == 422)
}

// NotPlaced says that an instance is on no worker yet.
func NotPlaced(err error) bool {
	var p *wire.Problem
	return errors.As(err, &p) && p.Code == "not-placed"
}

// expired says that there was such a log.
func expired(err error) bool {
	var p *wire.Problem
	return errors.As(err, &p) && p.Code == "log-expired"
}

// Stream is the log of one instance in the order of time: of the workers where it was
// and of the one where it is.
type Stream struct {
	// Prefix is written before each of its lines.
	Prefix string
	id     wire.InstanceID
	parts  []*source
	heads  []*Line
	lines  []Line // instead of parts, where only the last are wanted
}

// Options say which part of a log is read, and how.
type Options struct {
	Since    time.Duration // only what was written since then; 0: all
	Tail     int           // only so many lines at the end; negative: all
	Previous bool          // of the run before the present one
	Follow   bool          // the caller reads the present log: only those of former workers
	Page     int           // bytes held of each log
	// Note says what is left out, and why.
	Note func(text string)
}

func (o Options) note(format string, args ...any) { o.Note(fmt.Sprintf(format, args...)) }

// Open begins to read the log of an instance. An instance without a worker may have a former
// log; then the error is noted instead of returned.
func Open(ctx context.Context, c *client.Client, id wire.InstanceID, o Options) (*Stream, error) {
	ask := rpc.LogAsk{Max: o.Page, Since: o.Since, Times: true, Previous: o.Previous}
	if o.Tail >= 0 {
		ask.Offset = -int64(o.Tail)
	}
	open := func(former int) (*source, error) {
		s := &source{c: c, id: id, ask: ask,
			lost: func(n int64) { o.note("%d bytes of %s were rotated away", n, id) }}
		s.ask.Former = former
		return s, s.fill(ctx)
	}
	st := &Stream{id: id}
	if o.Tail == 0 || o.Follow && o.Tail > 0 {
		return st, nil
	}
	var present *source
	var presentErr error
	if !o.Follow { // whoever follows reads it
		present, presentErr = open(0)
	}
	if presentErr != nil && !NotPlaced(presentErr) && (!o.Previous || !noFormer(presentErr)) {
		return nil, presentErr
	}
	if present != nil && presentErr == nil {
		st.parts = append(st.parts, present)
	}
	if !o.Previous || presentErr != nil {
		for former := 1; former <= maxFormer; former++ {
			s, err := open(former)
			if expired(err) {
				continue
			}
			if err != nil && !noFormer(err) && !o.Follow {
				o.note("%s: %s", id, firstLine(err)) // the others are worth to be seen
				break
			}
			if err != nil {
				break
			}
			if !o.Previous {
				o.note("%s was on %s before; its log there is shown too", id, s.worker)
			}
			st.parts = append([]*source{s}, st.parts...)
			if o.Previous {
				break
			}
		}
	}
	if len(st.parts) == 0 && presentErr != nil {
		return nil, presentErr
	}
	if presentErr != nil && !o.Previous {
		o.note("%s: %s", id, firstLine(presentErr))
	}
	if o.Tail > 0 && len(st.parts) > 1 {
		return st, st.cut(ctx, o.Tail)
	}
	return st, nil
}

// cut keeps the last n lines.
func (st *Stream) cut(ctx context.Context, n int) error {
	var all []Line
	for {
		l, err := st.next(ctx)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		all = append(all, Line{l.At, slices.Clone(l.Text)})
	}
	st.parts, st.heads, st.lines = nil, nil, all[max(0, len(all)-n):]
	return nil
}

// next is the earliest line that is left; io.EOF after the last. What has no time comes
// first, in the order of the parts.
func (st *Stream) next(ctx context.Context) (Line, error) {
	if len(st.lines) > 0 {
		l := st.lines[0]
		st.lines = st.lines[1:]
		return l, nil
	}
	if st.heads == nil {
		st.heads = make([]*Line, len(st.parts))
	}
	first := -1
	for i, s := range st.parts {
		if st.heads[i] == nil && s != nil {
			l, err := s.next(ctx)
			if errors.Is(err, io.EOF) {
				st.parts[i] = nil
				continue
			}
			if err != nil {
				return Line{}, err
			}
			st.heads[i] = &l
		}
		if h := st.heads[i]; h != nil && (first < 0 || h.At.Before(st.heads[first].At)) {
			first = i
		}
	}
	if first < 0 {
		return Line{}, io.EOF
	}
	l := *st.heads[first]
	st.heads[first] = nil
	return l, nil
}

// Write writes the lines of several logs in the order of their times, with the time before each
// if timestamps is set; lines of one log keep their order. failed is the number of logs that
// could not be read to their end; these are noted, and the others continue. It ends without an
// error when ctx does: the user has seen enough.
func Write(ctx context.Context, w io.Writer, streams []*Stream, timestamps bool, note func(text string)) (failed int,
	err error) {
	type head struct {
		stream int
		line   Line
		seen   time.Time // the latest time of its log, so that clocks that were set back do no harm
	}
	var heads []head
	pull := func(i int, seen time.Time) {
		l, err := streams[i].next(ctx)
		if errors.Is(err, io.EOF) || ctx.Err() != nil {
			return
		}
		if err != nil {
			failed++
			note(streams[i].id + ": " + firstLine(err))
			return
		}
		if l.At.After(seen) {
			seen = l.At
		}
		h := head{i, l, seen}
		at, _ := slices.BinarySearchFunc(heads, h,
			func(a, b head) int { return cmp.Or(a.seen.Compare(b.seen), cmp.Compare(a.stream, b.stream)) })
		heads = slices.Insert(heads, at, h)
	}
	for i := range streams {
		pull(i, time.Time{})
	}
	to := bufio.NewWriterSize(w, MaxLine)
	for len(heads) > 0 && ctx.Err() == nil {
		h := heads[0]
		heads = heads[1:]
		text := h.line.Text
		if timestamps {
			text = h.line.Stamped()
		}
		// The writer keeps its first error for Flush.
		_, _ = to.WriteString(streams[h.stream].Prefix)
		_, err := to.Write(text)
		if len(streams) > 1 && !bytes.HasSuffix(text, []byte("\n")) {
			err = to.WriteByte('\n') // another log goes on behind it
		}
		if err != nil {
			break
		}
		pull(h.stream, h.seen)
	}
	if err := to.Flush(); err != nil {
		return failed, fmt.Errorf("write to standard output: %w", err)
	}
	return failed, nil
}

func firstLine(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line
}
