package process

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/verge-edge/verge/internal/onthread"
	"github.com/verge-edge/verge/internal/runtime"
	"github.com/verge-edge/verge/internal/runtime/process/setpriv"
	"github.com/verge-edge/verge/internal/wire"
)

var _ runtime.Expecter = (*Driver)(nil)

// refill is how long after one was used the next spare is made: what was started then has
// the processors to itself.
const refill = 200 * time.Millisecond

// spares have one process ready to become the next task that runs as a user, while a start
// is expected that somebody waits for: the start of Go's runtime in it is most of what such a
// start takes beside the program itself. It has 0.7 MB of private memory.
type spares struct {
	log *slog.Logger

	mu       sync.Mutex // guards below
	expected map[wire.InstanceID]bool
	ready    *spare      // nil: none
	timer    *time.Timer // makes one; nil: nobody does
	closed   bool
	work     sync.WaitGroup
}

// spare is a process that waits at a socket, see package setpriv.
type spare struct {
	pid  int
	sock *os.File
}

func newSpares(log *slog.Logger) *spares {
	return &spares{log: log, expected: map[wire.InstanceID]bool{}}
}

// Expect implements runtime.Expecter.
func (d *Driver) Expect(id wire.InstanceID, expected bool) {
	if os.Geteuid() == 0 { // else no task becomes another user
		d.spares.expect(id, expected)
	}
}

func (x *spares) expect(id wire.InstanceID, expected bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.closed || x.expected[id] == expected {
		return
	}
	if expected {
		x.expected[id] = true
		x.order(0)
		return
	}
	if delete(x.expected, id); len(x.expected) > 0 {
		return
	}
	x.drop()
}

// order sees to it that there is a spare after a while; x.mu is held.
func (x *spares) order(after time.Duration) {
	if x.ready != nil || x.timer != nil || x.closed || len(x.expected) == 0 {
		return
	}
	x.work.Add(1)
	x.timer = time.AfterFunc(after, func() {
		defer x.work.Done()
		x.fill()
	})
}

// fill makes a spare, if one is still wanted.
func (x *spares) fill() {
	s, err := newSpare()
	if err != nil {
		x.log.Debug("no process is held ready", "error", err)
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.timer = nil
	if s != nil && (x.closed || len(x.expected) == 0) {
		x.end(s)
		return
	}
	x.ready = s
}

// drop ends the spare, and lets none be made; x.mu is held.
func (x *spares) drop() {
	if x.timer != nil && x.timer.Stop() {
		x.timer = nil
		x.work.Done()
	}
	if x.ready != nil {
		x.end(x.ready)
		x.ready = nil
	}
}

// take returns the spare, nil if there is none; another is made soon.
func (x *spares) take() *spare {
	if x == nil {
		return nil
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	s := x.ready
	x.ready = nil
	x.order(refill)
	return s
}

// end ends a spare that has become nothing.
func (x *spares) end(s *spare) {
	_ = s.sock.Close() // which ends it
	x.work.Go(s.reap)
}

// reap waits for the end of a spare.
func (s *spare) reap() {
	_ = ignoringEINTR(func() error { // it is our child, or has been waited for
		_, err := unix.Wait4(s.pid, nil, 0, nil)
		return err
	})
}

// close ends what there is, and waits for it.
func (x *spares) close() {
	x.mu.Lock()
	x.closed = true
	x.drop()
	x.mu.Unlock()
	x.work.Wait()
}

func newSpare() (*spare, error) {
	ends, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("make a socket: %w", err)
	}
	own, its := os.NewFile(uintptr(ends[0]), "spare"), os.NewFile(uintptr(ends[1]), "spare")
	defer its.Close() //nolint:errcheck // the child has it
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return nil, errors.Join(err, own.Close())
	}
	defer null.Close() //nolint:errcheck // nothing is written to it
	pid := 0
	err = onthread.Do(func() error { // as other children are, with a clean thread
		return forkExec(setpriv.Binary, setpriv.SpareArgv(), &syscall.ProcAttr{
			Env: setpriv.SpareEnviron(), Files: []uintptr{null.Fd(), null.Fd(), null.Fd(), its.Fd()},
		}, &pid)
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start a process to be held ready: %w", err), own.Close())
	}
	return &spare{pid, own}, nil
}

// become lets a spare become a program, with the namespaces of the calling thread, which it
// enters. The error is that it has not, and that another process may.
func (s *spare) become(c setpriv.Command, netns bool, files []*os.File, groups []*os.File) error {
	defer s.sock.Close() //nolint:errcheck // it has all it waits for
	c.Mounts, c.Groups = true, len(groups)
	message, err := c.Message(netns, umask)
	if err != nil {
		return err
	}
	if netns {
		f, err := os.Open("/proc/thread-self/ns/net")
		if err != nil {
			return err
		}
		defer f.Close() //nolint:errcheck // it is passed on
		files = append(files, f)
	}
	f, err := os.Open("/proc/thread-self/ns/mnt")
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // it is passed on
	files = append(append(files, f), groups...)
	rights := make([]int, len(files))
	for i, f := range files {
		rights[i] = int(f.Fd()) //nolint:gosec // a descriptor
	}
	return unix.Sendmsg(int(s.sock.Fd()), message, unix.UnixRights(rights...), nil, unix.MSG_NOSIGNAL) //nolint:gosec // a descriptor
}
