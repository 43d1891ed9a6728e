package container

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix" // pidfds are not in package syscall

	"github.com/verge-edge/verge/internal/runtime"
)

// pollInterval is how often a process is looked at where the kernel has no
// pidfds.
const pollInterval = 200 * time.Millisecond

// process is the main process of a container, which is its shim's child.
type process struct {
	pid     int
	started uint64 // clock ticks since boot

	mu    sync.Mutex
	pidfd *os.File // nil on kernels before 5.3, and after close
}

// errReused: the number belongs to another process now.
var errReused = fmt.Errorf("%w: its number is another process's now", runtime.ErrGone)

// findProcess finds a process; started 0 takes whichever has the number. A process
// that has ended is runtime.ErrGone.
func findProcess(pid int, started uint64) (*process, error) {
	if pid <= 0 {
		return nil, runtime.ErrGone
	}
	p := &process{pid: pid, started: started}
	// First the pidfd, then the comparison: should the number change hands in
	// between, the start time tells.
	if fd, err := unix.PidfdOpen(pid, 0); err == nil {
		if err := unix.SetNonblock(fd, true); err != nil { // for the runtime's poller
			return nil, errors.Join(err, unix.Close(fd))
		}
		p.pidfd = os.NewFile(uintptr(fd), "pidfd")
	}
	at, gone, err := startOf(pid)
	switch {
	case err != nil || gone:
		p.close()
		return nil, runtime.ErrGone
	case started != 0 && at != started:
		p.close()
		return nil, errReused
	}
	p.started = at
	return p, nil
}

// startOf reads when a process started; gone says that it has ended.
func startOf(pid int) (started uint64, gone bool, err error) {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) {
		return 0, true, nil
	}
	if err != nil {
		return 0, false, err
	}
	// "pid (name) state …": the name may hold anything.
	f := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
	if len(f) < 20 {
		return 0, false, fmt.Errorf("malformed stat of process %d", pid)
	}
	started, err = strconv.ParseUint(f[19], 10, 64)
	// A process whose first thread has ended before others looks like a zombie.
	return started, (f[0] == "Z" && f[17] <= "1") || f[0] == "X", err
}

// wait blocks until the process has ended or ctx is done; it costs no thread.
func (p *process) wait(ctx context.Context) error {
	p.mu.Lock()
	fd := p.pidfd
	p.mu.Unlock()
	if fd != nil {
		stop := context.AfterFunc(ctx, func() { _ = fd.SetReadDeadline(time.Now()) }) // fails once it is closed
		defer stop()
		if conn, err := fd.SyscallConn(); err == nil {
			// Read calls look first, and again when the pidfd becomes readable.
			if conn.Read(func(uintptr) bool { return p.ended() }) == nil {
				return nil
			}
		}
	}
	t := time.NewTicker(pollInterval)
	defer t.Stop()
	for {
		if p.ended() {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-t.C:
		}
	}
}

func (p *process) ended() bool {
	at, gone, err := startOf(p.pid)
	return gone || err == nil && at != p.started
}

// endsWithin waits a moment for the end of the process.
func (p *process) endsWithin(ctx context.Context, d time.Duration) bool {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	q, err := findProcess(p.pid, p.started) // whoever waits for p has its own
	if err != nil {
		return true
	}
	defer q.close()
	return q.wait(ctx) == nil
}

// signal sends a signal to the process and no other.
func (p *process) signal(sig unix.Signal) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	err := unix.ESRCH
	var sent error = err
	switch {
	case p.pidfd != nil:
		conn, e := p.pidfd.SyscallConn()
		if e != nil {
			return e
		}
		if e := conn.Control(func(fd uintptr) { sent = unix.PidfdSendSignal(int(fd), sig, nil, 0) }); e != nil {
			return e
		}
	case !p.ended():
		sent = unix.Kill(p.pid, sig)
	}
	if errors.Is(sent, unix.ESRCH) {
		return runtime.ErrGone
	}
	if sent != nil {
		return fmt.Errorf("signal process %d: %w", p.pid, sent)
	}
	return nil
}

func (p *process) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.pidfd != nil {
		_ = p.pidfd.Close() // nothing was written
		p.pidfd = nil
	}
}

// bootID names this boot of the machine.
func bootID() (string, error) {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", fmt.Errorf("read boot id: %w", err)
	}
	return strings.TrimSpace(string(b)), nil
}
