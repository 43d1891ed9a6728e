package pidfd

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

// pollInterval is how often a process is looked at where the kernel lacks pidfds.
const pollInterval = 200 * time.Millisecond

// Process is the main process of a container, which is its shim's child.
type Process struct {
	Pid     int
	Started uint64 // clock ticks since boot

	mu    sync.Mutex
	pidfd *os.File // nil on kernels before 5.3, and after close
}

// ErrReused: the pid now belongs to another process.
var ErrReused = fmt.Errorf("%w: its number is another process's now", runtime.ErrGone)

// Find finds a process by its pid and start time; 0 accepts any start time. It returns
// runtime.ErrGone if the process has ended.
func Find(pid int, started uint64) (*Process, error) {
	if pid <= 0 {
		return nil, runtime.ErrGone
	}
	p := &Process{Pid: pid, Started: started}
	// First the pidfd, then the comparison: if the pid is reused in between, the start time
	// differs.
	if fd, err := unix.PidfdOpen(pid, 0); err == nil {
		if err := unix.SetNonblock(fd, true); err != nil { // for the runtime's poller
			return nil, errors.Join(err, unix.Close(fd))
		}
		p.pidfd = os.NewFile(uintptr(fd), "pidfd")
	}
	at, gone, err := StartOf(pid)
	switch {
	case err != nil || gone:
		p.Close()
		return nil, runtime.ErrGone
	case started != 0 && at != started:
		p.Close()
		return nil, ErrReused
	}
	p.Started = at
	return p, nil
}

// StartOf reads when a process started; gone says that it has ended.
func StartOf(pid int) (started uint64, gone bool, err error) {
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

// Wait blocks until the process has ended or ctx is done; it costs no thread.
func (p *Process) Wait(ctx context.Context) error {
	p.mu.Lock()
	fd := p.pidfd
	p.mu.Unlock()
	if fd != nil {
		stop := context.AfterFunc(ctx, func() { _ = fd.SetReadDeadline(time.Now()) }) // fails once it is closed
		defer stop()
		if conn, err := fd.SyscallConn(); err == nil {
			// Read calls look first, and again when the pidfd becomes readable.
			if conn.Read(func(uintptr) bool { return p.Ended() }) == nil {
				return nil
			}
		}
	}
	t := time.NewTicker(pollInterval)
	defer t.Stop()
	for {
		if p.Ended() {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-t.C:
		}
	}
}

// Ended reports whether the process is gone.
func (p *Process) Ended() bool {
	at, gone, err := StartOf(p.Pid)
	return gone || err == nil && at != p.Started
}

// EndsWithin waits a moment for the end of the process.
func (p *Process) EndsWithin(ctx context.Context, d time.Duration) bool {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	q, err := Find(p.Pid, p.Started) // whoever waits for p has its own
	if err != nil {
		return true
	}
	defer q.Close()
	return q.Wait(ctx) == nil
}

// Signal sends a signal to the process and no other.
func (p *Process) Signal(sig unix.Signal) error {
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
	case !p.Ended():
		sent = unix.Kill(p.Pid, sig)
	}
	if errors.Is(sent, unix.ESRCH) {
		return runtime.ErrGone
	}
	if sent != nil {
		return fmt.Errorf("signal process %d: %w", p.Pid, sent)
	}
	return nil
}

// Close releases the pidfd; the process goes on.
func (p *Process) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.pidfd != nil {
		_ = p.pidfd.Close() // nothing was written
		p.pidfd = nil
	}
}

// BootID names this boot of the machine.
func BootID() (string, error) {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", fmt.Errorf("read boot id: %w", err)
	}
	return strings.TrimSpace(string(b)), nil
}
