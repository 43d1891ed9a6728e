package container

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	taskapi "github.com/containerd/containerd/api/services/tasks/v1"
	containerd "github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/pkg/namespaces"
	"github.com/containerd/errdefs"
	"golang.org/x/sys/unix"

	"github.com/verge-edge/verge/internal/runtime"
	"github.com/verge-edge/verge/internal/runtime/beside"
	"github.com/verge-edge/verge/internal/runtime/cgroup"
	"github.com/verge-edge/verge/internal/runtime/container/ctrd"
	"github.com/verge-edge/verge/internal/runtime/container/pidfd"
	"github.com/verge-edge/verge/internal/runtime/ending"
	"github.com/verge-edge/verge/internal/wire"
)

// exitWithin is how long the exit code of a container that has ended is asked for
// while containerd is away; after that it is unknown.
const exitWithin = 30 * time.Second

// task is one started or adopted container.
type task struct {
	d       *Driver
	id      wire.InstanceID
	handle  runtime.Handle
	attempt int
	logDir  string
	proc    *pidfd.Process // nil if it had ended when it was adopted
	group   *cgroup.Group

	killed atomic.Bool // by us, so a SIGKILL is not the kernel's

	end  *ending.Ending
	used time.Duration // of processor, in all; set before the end

	mu      sync.Mutex // serialises Cleanup
	cleaned bool

	beside beside.Commands
}

func newTask(d *Driver, s runtime.Spec, h runtime.Handle, p *pidfd.Process, g *cgroup.Group) *task {
	return &task{
		d: d, id: s.ID, handle: h, attempt: s.Attempt, logDir: s.LogDir, proc: p, group: g,
		end: ending.New(errClosed),
	}
}

// watch waits for the end of the main process and records it.
func (t *task) watch(ctx context.Context) {
	defer t.end.Stop()
	if t.proc != nil {
		defer t.proc.Close()
		if t.proc.Wait(ctx) != nil {
			return
		}
	}
	if t.group != nil {
		t.used = t.group.Usage().CPU
	}
	t.d.part(t.handle.Shim)
	oom := t.group.OOMKills() > 0 // before the group is gone
	e, err := t.outcome(ctx)
	if err != nil {
		return // stopped by Close
	}
	t.d.logs.Drain(t.logDir) // who hears of the end finds all of the log
	e.Attempt = t.attempt
	e.OOM = oom && !t.killed.Load() && (e.Unknown || e.Code == 128+int(unix.SIGKILL))
	t.end.Set(e)
}

// outcome asks containerd how the container ended, until it is told. The error is
// that of ctx.
func (t *task) outcome(ctx context.Context) (wire.Exit, error) {
	began := time.Now()
	for pause := 10 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		e, err := t.d.finish(ctx, t.handle.Container)
		if err == nil {
			return e, nil
		}
		if ctx.Err() != nil {
			return wire.Exit{}, ctx.Err()
		}
		t.d.attend()
		if t.killed.Load() {
			return wire.Exit{Code: 128 + int(unix.SIGKILL), Signal: "KILL", At: time.Now()}, nil
		}
		if errors.Is(t.d.conn.OrAway(err), runtime.ErrAway) {
			if e, err := t.d.askShim(ctx, t.handle); err == nil {
				return e, nil
			}
		}
		if time.Since(began) > exitWithin {
			t.d.log.Warn("how a container ended is not known", "instance", t.id, "error", err)
			return unknown(fmt.Sprintf("containerd was away for %s after it had ended", exitWithin)), nil
		}
		wait := time.NewTimer(pause)
		select {
		case <-ctx.Done():
		case <-wait.C:
		}
		wait.Stop()
	}
}

// finish waits until containerd knows that a container has ended, makes its log
// complete, and returns how it ended.
func (d *Driver) finish(ctx context.Context, id string) (wire.Exit, error) {
	ctx = namespaces.WithNamespace(ctx, ctrd.Namespace)
	c, release, err := d.conn.Use(ctx)
	if err != nil {
		return wire.Exit{}, err
	}
	defer release()
	made, err := c.LoadContainer(ctx, id)
	if errdefs.IsNotFound(err) {
		return unknown("containerd does not have it any more: somebody else has removed it"), nil
	}
	if err != nil {
		return wire.Exit{}, err
	}
	var e wire.Exit
	answer, err := c.TaskService().Wait(ctx, &taskapi.WaitRequest{ContainerID: id})
	if err != nil {
		if !ctrd.IsNotFound(err) {
			return wire.Exit{}, err
		}
		// Its shim is gone; it may have been asked before.
		if labels, lerr := made.Labels(ctx); lerr == nil && json.Unmarshal([]byte(labels[labelExit]), &e) == nil {
			return e, nil
		}
		return unknown("its shim was killed, and containerd then ends all that is under it"), nil
	}
	e = exitFrom(answer.ExitStatus, answer.ExitedAt)
	// Should this engine die now, its successor is told by the label.
	if _, err := made.SetLabels(ctx, map[string]string{labelExit: storedExit(e)}); err != nil {
		d.log.Debug("note the exit of a container", "container", id, "error", err)
	}
	// It returns when the shim has written the last of the log.
	if _, err := c.TaskService().Delete(ctx, &taskapi.DeleteTaskRequest{ContainerID: id}); err != nil && !ctrd.IsNotFound(err) {
		d.log.Warn("end the shim of a container", "container", id, "error", err)
	}
	return e, nil
}

// unknown is an end of which containerd cannot say the exit code.
func unknown(why string) wire.Exit {
	return wire.Exit{Code: -1, Unknown: true, At: time.Now(), Why: why}
}

// states of a container.
type state int

const (
	absent state = iota
	running
	over
)

// ask asks containerd what has become of a container.
func (d *Driver) ask(ctx context.Context, id string) (state, error) {
	ctx, cancel := context.WithTimeout(namespaces.WithNamespace(ctx, ctrd.Namespace), ctrd.AnswerWithin)
	defer cancel()
	c, release, err := d.conn.Use(ctx)
	if err != nil {
		return absent, err
	}
	defer release()
	if _, err := c.LoadContainer(ctx, id); err != nil {
		if errdefs.IsNotFound(err) {
			return absent, nil
		}
		return absent, d.conn.OrAway(err)
	}
	answer, err := c.TaskService().Get(ctx, &taskapi.GetRequest{ContainerID: id})
	switch {
	case ctrd.IsNotFound(err):
		return over, nil
	case err != nil:
		return absent, d.conn.OrAway(err)
	case answer.Process != nil && answer.Process.Status.String() == "STOPPED":
		return over, nil
	}
	return running, nil
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
	if t.end.Over() || t.proc == nil {
		return runtime.ErrGone
	}
	if sig == unix.SIGKILL {
		t.killed.Store(true)
	}
	return t.proc.Signal(sig)
}

// Kill implements runtime.Task. It does not need containerd.
func (t *task) Kill(ctx context.Context) error {
	if !t.end.Over() {
		t.killed.Store(true)
	}
	t.beside.Stop()
	// With the first process of their namespace all others end.
	if t.proc != nil {
		if err := t.proc.Signal(unix.SIGKILL); err != nil && !errors.Is(err, runtime.ErrGone) {
			return fmt.Errorf("kill: %w", err)
		}
	}
	if t.group != nil {
		if err := t.group.Kill(ctx); err != nil {
			return fmt.Errorf("kill: %w", err)
		}
	}
	if err := t.beside.Wait(ctx); err != nil {
		return fmt.Errorf("kill: %w", err)
	}
	if err := t.end.Reached(ctx); err != nil {
		return fmt.Errorf("kill: container %s does not end: %w", t.handle.Container, err)
	}
	return nil
}

// Cleanup implements runtime.Task. What cannot be removed because containerd is
// away is removed when it is back.
func (t *task) Cleanup() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.cleaned {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), leftoverTimeout)
	defer cancel()
	if !t.end.Over() {
		if err := t.Kill(ctx); err != nil {
			return fmt.Errorf("clean up: %w", err)
		}
	}
	t.beside.Stop()
	if err := t.beside.Wait(ctx); err != nil {
		return fmt.Errorf("clean up: %w", err)
	}
	if err := t.d.remove(ctx, t.handle.Container); err != nil {
		t.d.log.Info("a container is removed later", "container", t.handle.Container, "error", err)
		t.d.owe(t.handle.Container)
	}
	t.d.forget(t.handle.Container)
	if err := t.d.removeGroup(ctx, t.handle.Container, t.group); err != nil {
		return fmt.Errorf("clean up: %w", err)
	}
	t.d.logs.Drain(t.logDir) // and the last words of what was killed
	t.cleaned = true
	return nil
}

// Usage implements runtime.Task.
func (t *task) Usage() runtime.Usage {
	if t.end.Over() {
		return runtime.Usage{CPU: max(t.used, 0)}
	}
	if t.group == nil {
		return runtime.Usage{}
	}
	u := t.group.Usage()
	return runtime.Usage{CPU: max(u.CPU, 0), Memory: max(u.Memory, 0), Tasks: max(u.PIDs, 0)}
}

// remove ends a container and removes all that containerd and runc have of it. One that
// is not there is no error.
func (d *Driver) remove(ctx context.Context, id string) error {
	err := d.removeThere(ctx, id)
	if err == nil {
		d.groups.Tidy(id)
	}
	return err
}

// removeThere is what containerd does of remove.
func (d *Driver) removeThere(ctx context.Context, id string) error {
	ctx = namespaces.WithNamespace(ctx, ctrd.Namespace)
	c, release, err := d.conn.Use(ctx)
	if err != nil {
		return err
	}
	defer release()
	return d.conn.OrAway(Remove(ctx, c, id))
}

// Remove ends a container and removes all that containerd has of it, in Namespace. One that is
// not there is no error.
func Remove(ctx context.Context, c *containerd.Client, id string) error {
	ctx = namespaces.WithNamespace(ctx, ctrd.Namespace)
	made, err := c.LoadContainer(ctx, id)
	if errdefs.IsNotFound(err) {
		// A start may have come no further than its snapshot.
		err := c.SnapshotService("").Remove(ctx, id)
		if err != nil && !ctrd.IsNotFound(err) {
			return err
		}
		return nil
	}
	if err != nil {
		return fmt.Errorf("remove container %s: %w", id, err)
	}
	t, err := made.Task(ctx, nil)
	if err == nil {
		_, err = t.Delete(ctx, containerd.WithProcessKill)
	}
	if err != nil && !ctrd.IsNotFound(err) {
		return fmt.Errorf("end container %s: %w", id, err)
	}
	info, err := made.Info(ctx, containerd.WithoutRefreshedMetadata)
	if err != nil {
		return fmt.Errorf("remove container %s: %w", id, err)
	}
	cleanup := []containerd.DeleteOpts{containerd.WithSnapshotCleanup}
	if strings.HasPrefix(info.SnapshotKey, sharedPrefix) { // others may stand on it
		cleanup = nil
	}
	if err := made.Delete(ctx, cleanup...); err != nil && !ctrd.IsNotFound(err) {
		return fmt.Errorf("remove container %s: %w", id, err)
	}
	return nil
}
