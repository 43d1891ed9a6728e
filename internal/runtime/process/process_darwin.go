package process

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/verge-edge/verge/internal/runtime"
	"github.com/verge-edge/verge/internal/runtime/cgroup"
)

// pollInterval is how often a process is looked at: there are no pidfds.
const pollInterval = 100 * time.Millisecond

// stateZombie is SZOMB of sys/proc.h.
const stateZombie = 5

// process is the main process of a task, our child or adopted. An ended child
// is reaped when wait sees it, unlike on Linux.
type process struct {
	pid     int
	started uint64
	boot    string

	stopOnce sync.Once
	stopping chan struct{}
}

func newProcess(pid int, started uint64, boot string) *process {
	return &process{pid: pid, started: started, boot: boot, stopping: make(chan struct{})}
}

// bootID names this boot of the machine.
func bootID() (string, error) {
	id, err := unix.Sysctl("kern.bootsessionuuid")
	if err != nil {
		return "", fmt.Errorf("read boot id: %w", err)
	}
	return id, nil
}

// startTime in microseconds of the epoch; ok is false if there is no process.
func startTime(pid int) (started uint64, ok bool) {
	k, err := unix.SysctlKinfoProc("kern.proc.pid", pid)
	if err != nil || int(k.Proc.P_pid) != pid {
		return 0, false
	}
	t := k.Proc.P_starttime
	return uint64(t.Sec)*1_000_000 + uint64(t.Usec), k.Proc.P_stat != stateZombie
}

// spares are none: programs run as the user of the worker.
type spares struct{}

func newSpares(*slog.Logger) *spares { return nil }

func (*spares) close() {}

func spawn(_ context.Context, path string, s runtime.Spec, io stdio, _ *cgroup.Group, _ *process,
	_ *spares) (*process, error) {
	boot, err := bootID()
	if err != nil {
		return nil, err
	}
	if s.User != nil {
		return nil, errors.New("a user of its own is for Linux")
	}
	if path == "" {
		if path, err = resolve(s); err != nil {
			return nil, err
		}
	}
	pid, err := syscall.ForkExec(path, s.Command, &syscall.ProcAttr{
		Dir:   s.Dir,
		Env:   s.Env,
		Files: io.fds(),
		Sys:   &syscall.SysProcAttr{Setsid: true, Setctty: io.terminal},
	})
	if err != nil {
		return nil, explain(&execError{err}, path, s)
	}
	started, _ := startTime(pid)
	return newProcess(pid, started, boot), nil
}

func find(h runtime.Handle) (*process, error) {
	boot, err := bootID()
	if err != nil {
		return nil, err
	}
	if started, ok := startTime(h.PID); boot != h.Boot || !ok || started != h.Started {
		return nil, runtime.ErrGone
	}
	return newProcess(h.PID, h.Started, h.Boot), nil
}

func (p *process) wait() (status syscall.WaitStatus, known bool, err error) {
	t := time.NewTicker(pollInterval)
	defer t.Stop()
	for {
		pid, err := syscall.Wait4(p.pid, &status, syscall.WNOHANG, nil)
		if pid == p.pid {
			return status, true, nil
		}
		if errors.Is(err, syscall.ECHILD) {
			if started, ok := startTime(p.pid); !ok || started != p.started {
				return 0, false, nil
			}
		}
		select {
		case <-p.stopping:
			return 0, false, errClosed
		case <-t.C:
		}
	}
}

func (p *process) stop() { p.stopOnce.Do(func() { close(p.stopping) }) }

func (p *process) signal(sig syscall.Signal) error {
	if started, ok := startTime(p.pid); !ok || started != p.started {
		return runtime.ErrGone
	}
	if err := syscall.Kill(p.pid, sig); err != nil {
		return fmt.Errorf("signal process %d: %w", p.pid, err)
	}
	return nil
}

// killTree kills the process group, which is as much as can be found here.
func (p *process) killTree(ctx context.Context, _ string) error {
	for {
		err := syscall.Kill(-p.pid, syscall.SIGKILL)
		if errors.Is(err, syscall.ESRCH) || errors.Is(err, syscall.EPERM) {
			return nil // EPERM is the answer for a group of zombies
		}
		if err != nil {
			return fmt.Errorf("kill process group %d: %w", p.pid, err)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("process group %d does not end: %w", p.pid, ctx.Err())
		case <-time.After(pollInterval):
		}
	}
}

// killOrphans does nothing: whose a session was cannot be told here.
func killOrphans(context.Context, runtime.Handle, string) error { return nil }

func (p *process) release() { p.stop() }

func (p *process) usage() runtime.Usage { return runtime.Usage{} }

// visible is for a process with a user of its own, which there is none of.
func visible(path string, _ *runtime.User, v runtime.View) (string, runtime.View) { return path, v }

// ProbeIsolation says why tasks cannot run as users of their own.
func (d *Driver) ProbeIsolation() (missing string, err error) {
	return "", errors.New("only Linux is supported")
}
