package process

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/verge-edge/verge/internal/runtime"
)

// pollInterval is how often a process is looked at where the kernel has no
// pidfds.
const pollInterval = 200 * time.Millisecond

// clockTicks per second; the kernel's USER_HZ, 100 on every architecture of Go.
const clockTicks = 100

// process is the main process of a task, our child or adopted.
type process struct {
	pid     int
	started uint64
	boot    string

	stopOnce sync.Once
	stopping chan struct{}

	mu       sync.Mutex
	pidfd    *os.File // nil on kernels before 5.3
	released bool
}

func newProcess(pid int, started uint64, boot string, pidfd *os.File) *process {
	return &process{pid: pid, started: started, boot: boot, pidfd: pidfd, stopping: make(chan struct{})}
}

// openPidfd returns nil where the kernel has no pidfds or there is no process.
func openPidfd(pid int) *os.File {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return nil
	}
	// Non-blocking is what makes os.NewFile hand it to the runtime's poller.
	if err := unix.SetNonblock(fd, true); err != nil {
		_ = unix.Close(fd)
		return nil
	}
	return os.NewFile(uintptr(fd), "pidfd")
}

// find finds the process that h names, or returns ErrGone.
func find(h runtime.Handle) (*process, error) {
	boot, err := bootID()
	if err != nil {
		return nil, err
	}
	if boot != h.Boot || h.PID <= 0 {
		return nil, runtime.ErrGone
	}
	// First the pidfd, then the comparison: should the pid change hands in
	// between, the start time tells.
	pidfd := openPidfd(h.PID)
	p := newProcess(h.PID, h.Started, h.Boot, pidfd)
	st, err := readStat(h.PID)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		p.close()
		return nil, err
	}
	// A zombie of ours still has its exit code to tell; of another's there is
	// nothing to learn.
	if err != nil || st.started != h.Started || st.gone() && st.ppid != os.Getpid() {
		p.close()
		return nil, runtime.ErrGone
	}
	return p, nil
}

// childInfo overlays the kernel's siginfo for SIGCHLD, whose union begins at
// the alignment of a pointer.
type childInfo struct {
	signo, errno, code int32
	_                  [0]uintptr
	pid                int32
	uid                uint32
	status             int32
}

// codes of childInfo.
const codeExited = 1 // CLD_EXITED; the others are signals

// peek looks whether the process has ended, leaving it a zombie. known is false
// when it is not our child, and its exit code therefore nobody's, unless its parent leaves
// it a zombie, too.
func (p *process) peek() (status syscall.WaitStatus, ended, known bool) {
	var info unix.Siginfo
	err := ignoringEINTR(func() error {
		return unix.Waitid(unix.P_PID, p.pid, &info, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil)
	})
	if err == nil {
		c := (*childInfo)(unsafe.Pointer(&info))
		if c.pid == 0 {
			return 0, false, true
		}
		if c.code == codeExited {
			return syscall.WaitStatus(c.status&0xff) << 8, true, true
		}
		return syscall.WaitStatus(c.status & 0x7f), true, true
	}
	st, err := readStat(p.pid)
	if err != nil || st.started != p.started {
		return 0, true, false
	}
	// The child of an engine that has handed over, and has not ended yet, is not waited for
	// by that.
	return syscall.WaitStatus(st.exit), st.gone(), st.state == 'Z' && st.gone() && st.ppid != 1
}

// wait blocks until the process has ended; it costs no thread meanwhile. It
// returns errClosed after stop.
func (p *process) wait() (status syscall.WaitStatus, known bool, err error) {
	ended := false
	look := func() bool {
		status, ended, known = p.peek()
		return ended
	}
	if p.pidfd != nil {
		if conn, err := p.pidfd.SyscallConn(); err == nil {
			// Read calls look first, and again each time the pidfd becomes readable.
			err = conn.Read(func(uintptr) bool { return look() })
			if err == nil && ended {
				return status, known, nil
			}
		}
	}
	t := time.NewTicker(pollInterval)
	defer t.Stop()
	for {
		select {
		case <-p.stopping:
			return 0, false, errClosed
		default:
		}
		if look() {
			return status, known, nil
		}
		select {
		case <-p.stopping:
		case <-t.C:
		}
	}
}

// stop makes wait return.
func (p *process) stop() {
	p.stopOnce.Do(func() {
		close(p.stopping)
		if p.pidfd != nil {
			_ = p.pidfd.SetReadDeadline(time.Now()) // fails only where wait polls anyway
		}
	})
}

// signal sends a signal to the process and no other.
func (p *process) signal(sig syscall.Signal) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.released {
		return runtime.ErrGone
	}
	err := p.send(sig)
	if errors.Is(err, unix.ESRCH) {
		return runtime.ErrGone
	}
	if err != nil {
		return fmt.Errorf("signal process %d: %w", p.pid, err)
	}
	return nil
}

func (p *process) send(sig syscall.Signal) error {
	if p.pidfd != nil {
		conn, err := p.pidfd.SyscallConn()
		if err != nil {
			return err
		}
		var sent error
		if err := conn.Control(func(fd uintptr) { sent = unix.PidfdSendSignal(int(fd), sig, nil, 0) }); err != nil {
			return err
		}
		return sent
	}
	if st, err := readStat(p.pid); err != nil || st.started != p.started {
		return unix.ESRCH
	}
	return unix.Kill(p.pid, sig)
}

// release reaps the process, if it is ours and has ended, and frees its pid.
func (p *process) release() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.released {
		return
	}
	p.released = true
	_ = ignoringEINTR(func() error {
		// Not our child, or not ended: then there is nothing to reap.
		_, err := unix.Wait4(p.pid, nil, unix.WNOHANG, nil)
		return err
	})
	p.close()
}

func (p *process) close() {
	if p.pidfd != nil {
		_ = p.pidfd.Close() // nothing was written
	}
}

// usage of the process itself and of children it has waited for.
func (p *process) usage() runtime.Usage {
	st, err := readStat(p.pid)
	if err != nil || st.started != p.started {
		return runtime.Usage{}
	}
	u := runtime.Usage{
		CPU:    time.Duration(st.ticks) * (time.Second / clockTicks),
		Memory: st.rss * int64(os.Getpagesize()),
		Tasks:  st.threads,
	}
	if st.gone() {
		u.Memory, u.Tasks = 0, 0
	}
	return u
}

func ignoringEINTR(fn func() error) error {
	for {
		if err := fn(); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}
