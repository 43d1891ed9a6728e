package cli

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/verge-edge/verge/client"
	"github.com/verge-edge/verge/internal/wire"
)

// maxFormer bounds how many workers on which an instance was are asked for its log.
const maxFormer = 8

// logLine is a line of a log, with its end if it has one.
type logLine struct {
	at   time.Time // zero where it is not known
	text []byte
}

// stamped is a line with its time before it, as --timestamps shows it.
func (l logLine) stamped() []byte {
	at := "-"
	if !l.at.IsZero() {
		at = l.at.UTC().Format("2006-01-02T15:04:05.000Z07:00")
	}
	return append([]byte(at+" "), l.text...)
}

// timeOf is when the byte at an offset was written.
func timeOf(times []wire.LogTime, offset int64) (at time.Time) {
	for _, t := range times {
		if t.Offset > offset {
			break
		}
		at = t.At
	}
	return at
}

// logSource reads one log, on the worker where the instance is or on one where it was,
// line by line up to where it ended when the first of it was read.
type logSource struct {
	c        *client.Client
	id       string
	ask      wire.LogAsk
	lost     func(bytes int64)
	worker   string // of a former one
	end      int64
	rest     []byte // not given out yet
	at       int64  // offset of rest
	times    []wire.LogTime
	finished bool
	started  bool
}

// fill reads a page. The first is read by open, so that it is known whether there is a log.
func (s *logSource) fill(ctx context.Context) error {
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
func (s *logSource) next(ctx context.Context) (logLine, error) {
	for {
		n := bytes.IndexByte(s.rest, '\n') + 1
		if n == 0 && (s.finished || len(s.rest) >= maxLogLine) {
			n = len(s.rest)
		}
		if n > 0 {
			line := logLine{at: timeOf(s.times, s.at), text: s.rest[:n]}
			s.rest, s.at = s.rest[n:], s.at+int64(n)
			for len(s.times) > 1 && s.times[1].Offset <= s.at {
				s.times = s.times[1:]
			}
			return line, nil
		}
		if s.finished {
			return logLine{}, io.EOF
		}
		s.rest = slices.Clone(s.rest)
		if err := s.fill(ctx); err != nil {
			return logLine{}, err
		}
	}
}

var errNoFormer = errors.New("no former log")

// noFormer says that there is no such log, or that nobody knows of it.
func noFormer(err error) bool {
	var p *wire.Problem
	return errors.Is(err, errNoFormer) || errors.As(err, &p) && (p.Status == 404 || p.Status == 422)
}

// expired says that there was such a log.
func expired(err error) bool {
	var p *wire.Problem
	return errors.As(err, &p) && p.Code == "log-expired"
}

// logStream is the log of one instance in the order of time: of the workers where it was
// and of the one where it is.
type logStream struct {
	id     wire.InstanceID
	prefix string
	parts  []*logSource
	heads  []*logLine
	lines  []logLine // instead of parts, where only the last are wanted
}

// openLog begins to read what there is of an instance; of one that is to be followed, what
// it wrote elsewhere before. An instance that is on no worker now may have a former log; the
// error is then said and not returned. page bounds what is held of each log at a time, in
// bytes.
func (a *app) openLog(ctx context.Context, c *client.Client, id string, f logFlags, page int) (*logStream, error) {
	ask := wire.LogAsk{Max: page, Since: f.since, Times: true, Previous: f.previous}
	if f.tail >= 0 {
		ask.Offset = -int64(f.tail)
	}
	open := func(former int) (*logSource, error) {
		s := &logSource{c: c, id: id, ask: ask, lost: func(n int64) { a.notef("%d bytes of %s were rotated away", n, clean(id)) }}
		s.ask.Former = former
		return s, s.fill(ctx)
	}
	st := &logStream{id: id}
	if f.tail == 0 || f.follow && f.tail > 0 {
		return st, nil
	}
	var present *logSource
	var presentErr error
	if !f.follow { // whoever follows reads it
		present, presentErr = open(0)
	}
	if presentErr != nil && !notPlaced(presentErr) && (!f.previous || !noFormer(presentErr)) {
		return nil, presentErr
	}
	if present != nil && presentErr == nil {
		st.parts = append(st.parts, present)
	}
	if !f.previous || presentErr != nil {
		for former := 1; former <= maxFormer; former++ {
			s, err := open(former)
			if expired(err) {
				continue
			}
			if err != nil && !noFormer(err) && !f.follow {
				a.notef("%s: %s", clean(id), clean(firstLine(err))) // the others are worth to be seen
				break
			}
			if err != nil {
				break
			}
			if !f.previous {
				a.notef("%s was on %s before; its log there is shown too", clean(id), clean(s.worker))
			}
			st.parts = append([]*logSource{s}, st.parts...)
			if f.previous {
				break
			}
		}
	}
	if len(st.parts) == 0 && presentErr != nil {
		return nil, presentErr
	}
	if presentErr != nil && !f.previous {
		a.notef("%s: %s", clean(id), clean(firstLine(presentErr)))
	}
	if f.tail > 0 && len(st.parts) > 1 {
		return st, st.cut(ctx, f.tail)
	}
	return st, nil
}

// cut keeps the last n lines.
func (st *logStream) cut(ctx context.Context, n int) error {
	var all []logLine
	for {
		l, err := st.next(ctx)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		all = append(all, logLine{l.at, slices.Clone(l.text)})
	}
	st.parts, st.heads, st.lines = nil, nil, all[max(0, len(all)-n):]
	return nil
}

// next is the earliest line that is left; io.EOF after the last. What has no time comes
// first, in the order of the parts.
func (st *logStream) next(ctx context.Context) (logLine, error) {
	if len(st.lines) > 0 {
		l := st.lines[0]
		st.lines = st.lines[1:]
		return l, nil
	}
	if st.heads == nil {
		st.heads = make([]*logLine, len(st.parts))
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
				return logLine{}, err
			}
			st.heads[i] = &l
		}
		if h := st.heads[i]; h != nil && (first < 0 || h.at.Before(st.heads[first].at)) {
			first = i
		}
	}
	if first < 0 {
		return logLine{}, io.EOF
	}
	l := *st.heads[first]
	st.heads[first] = nil
	return l, nil
}

// mergeLogs writes the lines of several logs in the order of their times; those of one log
// stay in its order. failed is how many could not be read to their end, which it says; the
// others go on. It ends without an error when ctx does: the user has seen enough.
func (a *app) mergeLogs(ctx context.Context, streams []*logStream, timestamps bool) (failed int, err error) {
	type head struct {
		stream int
		line   logLine
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
			a.notef("%s: %s", clean(streams[i].id), clean(firstLine(err)))
			return
		}
		if l.at.After(seen) {
			seen = l.at
		}
		h := head{i, l, seen}
		at, _ := slices.BinarySearchFunc(heads, h, func(a, b head) int { return cmp.Or(a.seen.Compare(b.seen), cmp.Compare(a.stream, b.stream)) })
		heads = slices.Insert(heads, at, h)
	}
	for i := range streams {
		pull(i, time.Time{})
	}
	to := bufio.NewWriterSize(a.out, maxLogLine)
	for len(heads) > 0 && ctx.Err() == nil {
		h := heads[0]
		heads = heads[1:]
		text := h.line.text
		if timestamps {
			text = h.line.stamped()
		}
		// The writer keeps its first error for Flush.
		_, _ = to.WriteString(streams[h.stream].prefix)
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
