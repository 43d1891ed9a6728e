package http1

import (
	"cmp"
	"io"
	"sync"
	"syscall"

	"golang.org/x/sys/unix" // the system's own: what the standard library does not name
)

// A splice moves bytes from socket to socket within the kernel, through a pipe.
const (
	// spliceMin is from how much on that pays.
	spliceMin = 32 << 10
	// pipeSize is how much a pipe may hold. What the system allows a user in all
	// bounds it further; a smaller pipe is only slower.
	pipeSize = 256 << 10
	// maxPipes that are kept for the next body.
	maxPipes = 32
)

// splicer is a pipe, and one step of moving through it.
type splicer struct {
	r, w         int // ends of the pipe
	in           int // bytes in it
	want         int
	n            int
	err          error
	drain, flush func(fd uintptr) bool
}

var pipes struct {
	sync.Mutex
	free []*splicer
}

// newSplicer returns one with an empty pipe, nil where the system has none to give.
func newSplicer() *splicer {
	pipes.Lock()
	if n := len(pipes.free); n > 0 {
		s := pipes.free[n-1]
		pipes.free = pipes.free[:n-1]
		pipes.Unlock()
		return s
	}
	pipes.Unlock()
	var fd [2]int
	if err := unix.Pipe2(fd[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
		return nil
	}
	_, _ = unix.FcntlInt(uintptr(fd[1]), unix.F_SETPIPE_SZ, pipeSize) // only slower without
	s := &splicer{r: fd[0], w: fd[1]}
	s.drain, s.flush = s.tryDrain, s.tryFlush
	return s
}

// done gives the pipe back; one with something in it is of no use to anybody.
func (s *splicer) done() {
	if s.in == 0 {
		pipes.Lock()
		if len(pipes.free) < maxPipes {
			pipes.free = append(pipes.free, s)
			pipes.Unlock()
			return
		}
		pipes.Unlock()
	}
	_ = unix.Close(s.r)
	_ = unix.Close(s.w)
}

func (s *splicer) tryDrain(fd uintptr) bool { return s.step(fd, uintptr(s.w)) }
func (s *splicer) tryFlush(fd uintptr) bool { return s.step(uintptr(s.r), fd) }

func (s *splicer) step(from, to uintptr) bool {
	for {
		n, e := sysSplice(from, to, s.want)
		switch e {
		case 0:
			s.n = n
		case syscall.EINTR:
			continue
		case syscall.EAGAIN:
			return false
		default:
			s.err = e
		}
		return true
	}
}

// canSplice between two connections.
func canSplice(dst, src *Conn) bool { return dst.raw != nil && src.raw != nil }

// splice moves bytes of m until it is done or something stops it.
func (m *mover) splice() error {
	s := m.pipe
	for m.left > 0 || s.in > 0 {
		if s.in == 0 {
			s.want, s.n, s.err = int(min(m.left, pipeSize)), 0, nil
			since := m.src.tick(true)
			err := m.src.raw.Read(s.drain)
			m.waited += Now().Sub(since)
			if err != nil {
				if err := m.missed(m.src, true, err); err != nil {
					return err
				}
				continue
			}
			if s.err != nil {
				return &sideError{src: true, err: s.err}
			}
			if s.n == 0 {
				return &sideError{src: true, err: io.EOF}
			}
			s.in, m.left = s.n, m.left-int64(s.n)
			m.src.in += int64(s.n)
		}
		s.want, s.n, s.err = s.in, 0, nil
		since := m.dst.tick(false)
		if err := m.dst.raw.Write(s.flush); err != nil {
			m.held += Now().Sub(since)
			if err := m.missed(m.dst, false, err); err != nil {
				return err
			}
			continue
		}
		if s.err != nil || s.n == 0 {
			return &sideError{err: cmp.Or(s.err, io.ErrShortWrite)}
		}
		s.in -= s.n
		m.dst.out += int64(s.n)
		m.progress(int64(s.n), since)
	}
	return nil
}

// sysSplice moves up to n bytes, one end being a pipe; neither end waits.
func sysSplice(from, to uintptr, n int) (int, syscall.Errno) {
	const nonblockMove = 1 | 2 // SPLICE_F_MOVE | SPLICE_F_NONBLOCK
	k, _, e := syscall.RawSyscall6(syscall.SYS_SPLICE, from, 0, to, 0, uintptr(n), nonblockMove)
	return int(k), e
}
