//go:build unix

package logfile

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	"golang.org/x/time/rate" // the token bucket of Go's authors, which the agent uses too
)

const (
	// chunkSize is how much is taken from a pipe at a time: what one holds.
	chunkSize = 64 << 10
	// maxPipe is the most that a pipe holds, on a Linux that was not told otherwise.
	maxPipe = 1 << 20
	// A program that writes more than burst at once, or more than perSecond for long, waits
	// as it would for a slow disk: the worker has other instances, and a disk that wears.
	perSecond = 32 << 20
	burst     = 8 << 20
)

// pipePerm lets a program that was given another user open its own standard output anew
// (/dev/stderr of a shell). Nobody else comes to the pipe: its directory is the worker's.
const pipePerm = 0o622

// Pipe is where the pipe of dir is, for who must be told a path.
func Pipe(dir string) string { return filepath.Join(dir, pipeName) }

// OpenPipe notes the start of a program in the log of dir and opens its pipe for writing,
// making it if need be. The file is to become the standard output and error of the program.
// It is open for reading as well, so that a write to it never fails because nobody reads,
// and it blocks, as programs expect.
func OpenPipe(dir string) (*os.File, error) {
	unlock, err := lockWait(dir)
	if err != nil {
		return nil, err
	}
	defer unlock()
	if err := settleDirect(dir); err != nil {
		return nil, err
	}
	if err := noteStart(dir, time.Now()); err != nil {
		return nil, err
	}
	path := Pipe(dir)
	err = unix.Mkfifo(path, pipePerm)
	if err == nil {
		err = os.Chmod(path, pipePerm) // whatever the umask is
	} else if errors.Is(err, unix.EEXIST) {
		err = nil
	}
	if err != nil {
		return nil, fmt.Errorf("make the pipe of the log %s: %w", path, err)
	}
	// Not by package os, which would make it one that does not block.
	fd, err := unix.Open(path, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open the pipe of the log %s: %w", path, err)
	}
	return os.NewFile(uintptr(fd), path), nil
}

// settleDirect makes a log to which a program of an older version wrote directly one that
// only this package writes. The lock is held.
func settleDirect(dir string) error {
	l, err := load(dir)
	if err != nil {
		return err
	}
	if l.first == l.base && !l.cut && l.size <= maxData {
		return nil
	}
	r, err := newRotator(dir, Options{MaxWhole: 1}.withDefaults())
	if errors.Is(err, fs.ErrNotExist) {
		return nil // nothing live; put writes the base
	}
	if err != nil {
		return err
	}
	defer r.live.Close() //nolint:errcheck // nothing was written through it
	r.opts.Segments = keptSegments - 1
	r.skip()
	r.opts.Segments = keptSegments
	if err := r.truncate(); err != nil {
		return fmt.Errorf("settle the log of an older version: %w", err)
	}
	return nil
}

// Collector reads the pipes of programs and writes what comes to their logs, each within
// its bound. Several may read one pipe, also in different processes: each takes a chunk and
// writes it while it has the lock of the directory. It is safe for concurrent use.
type Collector struct {
	log  *slog.Logger
	done chan struct{}
	wg   sync.WaitGroup

	mu      sync.Mutex
	closed  bool                 // guarded by mu, as are
	intakes map[string]*intake   // of the pipes that directories have now
	all     map[*intake]struct{} // also those of pipes that were removed
}

// NewCollector makes a collector that reads nothing yet. It is to be closed. log may be nil.
func NewCollector(log *slog.Logger) *Collector {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Collector{log: log, done: make(chan struct{}), intakes: map[string]*intake{}, all: map[*intake]struct{}{}}
}

// intake is the reading of one pipe.
type intake struct {
	file  *os.File
	conn  syscall.RawConn
	limit *rate.Limiter

	mu    sync.Mutex // guards below
	store *store
	err   error // of the last write
	// hangsUp: a program has had the pipe open since it was opened here, so that the kernel
	// tells when the last one closes it.
	hangsUp bool
	poll    [1]unix.PollFd
}

// Collect reads the pipe of dir from now on, until nobody has it open for writing any more.
// fs.ErrNotExist is wrapped where there is none. Of a directory that was made anew since, the
// pipe of before is read to its end as well.
func (c *Collector) Collect(dir string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return errors.New("the collector of logs is closed")
	}
	if in := c.intakes[dir]; in != nil && in.reads(Pipe(dir)) {
		return nil
	}
	// A pipe that is opened so is waited for by the runtime's poller, without a thread.
	f, err := os.OpenFile(Pipe(dir), os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return fmt.Errorf("read the pipe of the log: %w", err)
	}
	conn, err := f.SyscallConn()
	if err != nil {
		return errors.Join(err, f.Close())
	}
	in := &intake{file: f, conn: conn, limit: rate.NewLimiter(perSecond, burst), store: newStore(dir)}
	c.intakes[dir] = in
	c.all[in] = struct{}{}
	c.wg.Go(func() { c.run(dir, in) })
	return nil
}

// reads says whether it is this pipe that is read.
func (in *intake) reads(pipe string) bool {
	st, err := os.Stat(pipe)
	if err != nil {
		return false // opening it says why
	}
	own, err := in.file.Stat()
	return err == nil && os.SameFile(st, own)
}

// CollectAll reads the pipes of all directories that match pattern.
func (c *Collector) CollectAll(pattern string) {
	dirs, err := filepath.Glob(pattern)
	if err != nil {
		c.log.Error("look for logs", "pattern", pattern, "error", err)
	}
	for _, dir := range dirs {
		if err := c.Collect(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
			c.log.Warn("the output of an instance is not read", "dir", dir, "error", err)
		}
	}
}

// Drain returns when what was in the pipe of dir, if that is read here, is in its log.
func (c *Collector) Drain(dir string) {
	c.mu.Lock()
	in := c.intakes[dir]
	c.mu.Unlock()
	if in == nil {
		return
	}
	// An error is that it was closed meanwhile, because nothing was in it.
	_ = in.conn.Control(func(fd uintptr) {
		for left := maxPipe; left > 0; {
			n, _ := in.take(fd)
			if n == 0 {
				return
			}
			left -= n
		}
	})
}

// Problem says why the output of a program is not in its log, nil if it is.
func (c *Collector) Problem(dir string) error {
	c.mu.Lock()
	in := c.intakes[dir]
	c.mu.Unlock()
	if in == nil {
		return nil
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.err
}

// Close stops reading. What programs write stays in their pipes until another collector
// reads them; those who fill theirs wait.
func (c *Collector) Close() {
	c.mu.Lock()
	if !c.closed {
		c.closed = true
		close(c.done)
		for in := range c.all {
			_ = in.file.SetReadDeadline(time.Unix(1, 0)) // fails only where it is closed
		}
	}
	c.mu.Unlock()
	c.wg.Wait()
}

// run reads a pipe until all of its writers are gone, or the collector is closed.
func (c *Collector) run(dir string, in *intake) {
	for {
		var n int
		var end bool
		err := in.conn.Read(func(fd uintptr) bool {
			n, end = in.take(fd)
			return n > 0 || end
		})
		if err != nil || end {
			if c.over(dir, in, err != nil) {
				return
			}
			continue
		}
		pause := in.limit.ReserveN(time.Now(), n).Delay()
		if pause <= 0 {
			continue
		}
		t := time.NewTimer(pause)
		select {
		case <-t.C:
		case <-c.done:
			t.Stop()
		}
	}
}

// over ends the reading of a pipe, unless somebody has opened it for writing again and
// called Collect meanwhile, which did nothing.
func (c *Collector) over(dir string, in *intake, stopped bool) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !stopped {
		again := false
		err := in.conn.Control(func(fd uintptr) {
			n, end := in.take(fd)
			again = n > 0 || !end
		})
		if err == nil && again {
			return false
		}
	}
	if c.intakes[dir] == in {
		delete(c.intakes, dir)
	}
	delete(c.all, in)
	_ = in.file.Close() // read only
	return true
}

// chunks are buffers of those that read at this moment: an idle pipe has none.
var chunks = sync.Pool{New: func() any { return new([chunkSize]byte) }}

// take moves a chunk from the pipe to the log. n is 0 where the pipe is empty, and end is
// true where nobody has it open for writing either.
func (in *intake) take(fd uintptr) (n int, end bool) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.hangsUp {
		// The lock is for those who read something.
		in.poll[0] = unix.PollFd{Fd: int32(fd), Events: unix.POLLIN} //nolint:gosec // a descriptor
		if n, err := unix.Poll(in.poll[:], 0); err == nil && n == 0 {
			return 0, false
		}
	}
	unlock, lockErr := lockWait(in.store.dir)
	if lockErr == nil {
		defer unlock()
	}
	buf := chunks.Get().(*[chunkSize]byte)
	defer chunks.Put(buf)
	for {
		var err error
		n, err = unix.Read(int(fd), buf[:])
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.EAGAIN):
			in.hangsUp = true
			return 0, false
		case err != nil || n <= 0:
			return 0, true
		}
		break
	}
	// The directory may have been removed under a program that was killed.
	if in.err = lockErr; lockErr == nil {
		in.err = in.store.put(buf[:n], time.Now())
	}
	return n, false
}
