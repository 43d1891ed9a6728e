package process

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/verge-edge/verge/internal/runtime"
	"github.com/verge-edge/verge/internal/runtime/beside"
	"github.com/verge-edge/verge/internal/runtime/cgroup"
	"github.com/verge-edge/verge/internal/runtime/ending"
	"github.com/verge-edge/verge/internal/runtime/logfile"
	"github.com/verge-edge/verge/internal/wire"
)

// task is one started or adopted process tree.
type task struct {
	id      wire.InstanceID
	handle  runtime.Handle
	attempt int
	dir     string
	netns   string // see runtime.Spec
	resolv  string
	logDir  string
	logs    *logfile.Collector
	proc    *process
	group   *cgroup.Group // nil without control groups
	// oomBefore is the group's count of OOM kills before the task ran, or before
	// it was adopted.
	oomBefore int64

	killed atomic.Bool // by us, so a SIGKILL is not the kernel's

	end *ending.Ending

	mu      sync.Mutex // serialises Cleanup
	cleaned bool

	beside beside.Commands
}

func (d *Driver) newTask(s runtime.Spec, h runtime.Handle, p *process, g *cgroup.Group, oomBefore int64) *task {
	return &task{
		id: s.ID, handle: h, attempt: s.Attempt, dir: s.Dir, logDir: s.LogDir, logs: d.logs, netns: s.NetNS, resolv: s.Resolv, proc: p, group: g, oomBefore: oomBefore,
		end: ending.New(errClosed),
	}
}

// watch waits for the end of the main process and records it.
func (t *task) watch() {
	defer t.end.Stop()
	status, known, err := t.proc.wait()
	if err != nil {
		return // stopped by Close
	}
	t.logs.Drain(t.logDir) // who hears of the end finds all of the log
	e := exitOf(status, known)
	e.Attempt = t.attempt
	e.OOM = t.oom(e)
	t.end.Set(e)
}

// oom says whether the kernel ended the task for want of memory. A shell whose
// program was killed ends with 137 itself.
func (t *task) oom(e wire.Exit) bool {
	if t.group == nil || t.killed.Load() {
		return false
	}
	return (e.Unknown || e.Code == 128+int(syscall.SIGKILL)) && t.group.OOMKills() > t.oomBefore
}

// Handle implements runtime.Task.
func (t *task) Handle() runtime.Handle { return t.handle }

// Wait implements runtime.Task.
func (t *task) Wait(ctx context.Context) (wire.Exit, error) { return t.end.Wait(ctx) }

// Signal implements runtime.Task. To a task that has ended it is ErrGone.
func (t *task) Signal(name string) error {
	sig, err := ending.Signal(name)
	if err != nil {
		return err
	}
	if t.end.Over() {
		return runtime.ErrGone
	}
	if sig == syscall.SIGKILL {
		t.killed.Store(true)
	}
	return t.proc.signal(sig)
}

// Kill implements runtime.Task.
func (t *task) Kill(ctx context.Context) error {
	// What the kernel has killed before us stays an OOM kill.
	if !t.end.Over() {
		t.killed.Store(true)
	}
	t.beside.Stop()
	var err error
	if t.group != nil {
		err = t.group.Kill(ctx)
		// A program with the right to do so may have left its group.
		if e := t.proc.signal(syscall.SIGKILL); err == nil && !errors.Is(e, runtime.ErrGone) {
			err = e
		}
	} else {
		err = t.proc.killTree(ctx, t.logDir)
	}
	// Without a control group they are not of our tree.
	if e := t.beside.Wait(ctx); err == nil {
		err = e
	}
	if err != nil {
		return fmt.Errorf("kill: %w", err)
	}
	if err := t.end.Reached(ctx); err != nil {
		return fmt.Errorf("kill: process %d does not end: %w", t.handle.PID, err)
	}
	return nil
}

// Cleanup implements runtime.Task. It may be called again after an error.
func (t *task) Cleanup() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.cleaned {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), leftoverTimeout)
	defer cancel()
	if t.group == nil || !t.end.Over() {
		if err := t.Kill(ctx); err != nil {
			return fmt.Errorf("clean up: %w", err)
		}
	}
	t.beside.Stop()
	if err := t.beside.Wait(ctx); err != nil {
		return fmt.Errorf("clean up: %w", err)
	}
	if t.group != nil { // Remove kills what is left
		if err := t.group.Remove(ctx); err != nil {
			return fmt.Errorf("clean up: %w", err)
		}
	}
	t.proc.release()
	t.logs.Drain(t.logDir) // and the last words of what was killed
	t.cleaned = true
	return nil
}

// Usage implements runtime.Task. Without control groups it is that of the main
// process and of the children it has waited for.
func (t *task) Usage() runtime.Usage {
	u := cgroup.Usage{CPU: -1, Memory: -1, PIDs: -1}
	if t.group != nil {
		u = t.group.Usage()
	}
	if u.CPU < 0 || u.Memory < 0 || u.PIDs < 0 {
		p := t.proc.usage()
		if u.CPU < 0 {
			u.CPU = p.CPU
		}
		if u.Memory < 0 {
			u.Memory = p.Memory
		}
		if u.PIDs < 0 {
			u.PIDs = p.Tasks
		}
	}
	return runtime.Usage{CPU: u.CPU, Memory: u.Memory, Tasks: u.PIDs}
}
