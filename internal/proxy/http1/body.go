package http1

import (
	"errors"
	"io"
	"os"
	"time"

	"github.com/verge-edge/verge/internal/proxy/http1/message"
)

// lookEvery is how often what waits looks around: is the other side still there,
// has an answer come early, is the time of the request over?
const lookEvery = time.Second

// wideMin is from how much on a body that cannot be spliced has a large buffer.
const wideMin = 32 << 10

// sideError is a connection that failed while a body was moved.
type sideError struct {
	src bool // the one that it came from
	err error
}

func (e *sideError) Error() string {
	if e.src {
		return "read the body: " + e.err.Error()
	}
	return "pass the body on: " + e.err.Error()
}

func (e *sideError) Unwrap() error { return e.err }

// mover moves a body, in one go or, after watch has stopped it, in several.
type mover struct {
	dst, src *Conn
	left     int64           // still to be read; with chunks or untilDone of no meaning
	framing  *message.Chunks // not nil: until its end
	ends     bool            // until src ends
	// watch is called each lookEvery while nothing moves; its error stops run, which
	// may be called again. nil watches nothing.
	watch func() error
	// limit of the time in which nothing moves; 0 none.
	limit time.Duration

	pipe  *splicer
	tail  []byte  // trailers, until all of them are there
	last  Instant // when something moved
	stuck Instant // since when dst takes nothing; 0: it does
	moved int64
	// waited is how long src was waited for, held how long dst was.
	waited, held time.Duration
}

// run moves until all is there (nil), watch stops it, or a connection fails
// (sideError).
func (m *mover) run() error {
	if m.last == 0 {
		m.last = Now()
	}
	for {
		if err := m.flush(); err != nil {
			return err
		}
		switch {
		case m.ends:
		case m.framing != nil:
			if m.framing.Done() {
				return nil
			}
		case m.pipe != nil:
			if err := m.splice(); err != nil {
				return err
			}
			m.close()
			return nil
		case m.left == 0:
			return nil
		case m.left >= spliceMin && canSplice(m.dst, m.src):
			if m.pipe = newSplicer(); m.pipe != nil {
				m.src.rest()
				continue
			}
		case m.left >= wideMin:
			m.src.widen()
		}
		if err := m.fill(); err != nil {
			if m.ends && errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
	}
}

// close gives back what run holds. Only after it a mover may be forgotten.
func (m *mover) close() {
	if m.pipe != nil {
		m.pipe.done()
		m.pipe = nil
	}
}

// flush passes on what is buffered of the body.
func (m *mover) flush() error {
	for {
		p := m.src.Buffered()
		switch {
		case m.ends:
		case m.framing != nil:
			// What was followed is moved before more of it is looked at.
			if m.left == 0 {
				n, err := m.framing.Next(p)
				if err != nil {
					return &sideError{src: true, err: err}
				}
				m.left = int64(n)
			}
			if m.left == 0 && m.framing.Fields {
				return m.trailers()
			}
			p = p[:m.left]
		default:
			p = p[:min(int64(len(p)), m.left)]
		}
		if len(p) == 0 {
			return nil
		}
		since := m.dst.tick(false)
		n, err := m.dst.put(p)
		if n > 0 {
			m.src.skip(n)
			if !m.ends {
				m.left -= int64(n)
			}
			m.progress(int64(n), since)
		}
		if err != nil {
			if n == 0 {
				m.held += Now().Sub(since)
			}
			if err := m.missed(m.dst, false, err); err != nil {
				return err
			}
		}
	}
}

// trailers takes what is buffered of them, and passes them on when all are there.
func (m *mover) trailers() error {
	c, p, n := m.framing, m.src.Buffered(), 0
	for n < len(p) && !c.Done() {
		if !c.Step(p[n]) {
			return &sideError{src: true, err: message.ErrChunks}
		}
		n++
	}
	m.tail = append(m.tail, p[:n]...)
	m.src.skip(n)
	if !c.Done() {
		return nil
	}
	since := Now()
	if err := m.dst.write(message.WithoutReports(m.tail), since); err != nil {
		return &sideError{err: err}
	}
	m.progress(int64(len(m.tail)), since)
	return nil
}

// fill reads more of the body.
func (m *mover) fill() error {
	since := Now()
	err := m.src.fill(since.After(lookEvery))
	now := Now()
	m.waited += now.Sub(since)
	if err != nil {
		return m.missed(m.src, true, err)
	}
	m.last = now
	m.src.fillOn()
	return nil
}

// progress notes that dst has taken n bytes, and was waited for since then.
func (m *mover) progress(n int64, since Instant) {
	m.moved += n
	m.last, m.stuck = Now(), 0
	m.held += m.last.Sub(since)
}

// missed judges an error of a connection: nil means to try again.
func (m *mover) missed(c *Conn, src bool, err error) error {
	if !errors.Is(err, os.ErrDeadlineExceeded) || !src && c.raw == nil {
		return &sideError{src: src, err: err}
	}
	if src {
		c.readBy = 0
	} else {
		c.writeBy = 0
		switch now := Now(); {
		case m.stuck == 0:
			m.stuck = now
		case c.writeTimeout > 0 && now.Sub(m.stuck) >= c.writeTimeout:
			return &sideError{err: errLate}
		}
	}
	if m.limit > 0 && Now().Sub(m.last) >= m.limit {
		return &sideError{src: src, err: errLate}
	}
	if m.watch != nil {
		return m.watch()
	}
	return nil
}

// tick sees to it that a wait that begins now ends within lookEvery, as far as a wait
// may end early. It returns the present.
func (c *Conn) tick(read bool) (now Instant) {
	now = Now()
	if !read {
		c.writeWithin(now, lookEvery)
		return now
	}
	if until := now.After(lookEvery); c.readBy == 0 || c.readBy > until {
		c.readUntil(until)
	}
	return now
}
