package process

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"syscall"
	"time"

	"github.com/verge-edge/verge/internal/runtime"
	"github.com/verge-edge/verge/internal/runtime/cgroup"
	"github.com/verge-edge/verge/internal/runtime/ending"
	"github.com/verge-edge/verge/internal/wire"
)

// stdio is what a process is born with as its descriptors 0, 1 and 2.
type stdio struct {
	in, out, err *os.File
	terminal     bool // in is a terminal, which is to be its own
}

func (s stdio) fds() []uintptr { return []uintptr{s.in.Fd(), s.out.Fd(), s.err.Fd()} }

// Exec implements runtime.Task. Without control groups a process that has left
// both its session and its parents behind is not found, as with Kill.
func (t *task) Exec(ctx context.Context, e runtime.Exec) (wire.Exit, error) {
	if t.end.Over() {
		return wire.Exit{}, runtime.ErrGone
	}
	ctx, leave, err := t.beside.Enter(ctx)
	if err != nil {
		return wire.Exit{}, err
	}
	defer leave()
	spec := runtime.Spec{
		ID: t.id, Command: e.Command, Env: e.Env, Dir: t.dir, NetNS: t.netns, Resolv: t.resolv, User: t.handle.User,
	}
	if err := checkDir(t.dir); err != nil {
		return wire.Exit{}, err
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return wire.Exit{}, err
	}
	defer null.Close() //nolint:errcheck // nothing is written to it
	io := stdio{in: cmp.Or(e.Stdin, null), out: cmp.Or(e.Stdout, null), err: cmp.Or(e.Stderr, null), terminal: e.Terminal}
	var born, own *cgroup.Group
	if t.group != nil {
		if born, own, err = t.group.Sub("exec"); err != nil {
			return wire.Exit{}, err
		}
	}
	proc, err := spawn(ctx, "", spec, io, born, t.proc, nil)
	if err != nil {
		return wire.Exit{}, errors.Join(err, removeGroup(own))
	}
	return attend(ctx, proc, own)
}

// attend waits for the end of a command, or of ctx, and ends what is left of it.
func attend(ctx context.Context, proc *process, own *cgroup.Group) (wire.Exit, error) {
	type end struct {
		status syscall.WaitStatus
		known  bool
		err    error
	}
	ended := make(chan end, 1)
	go func() {
		var e end
		e.status, e.known, e.err = proc.wait()
		ended <- e
	}()
	var e end
	waiting := true
	select {
	case e = <-ended:
		waiting = false
	case <-ctx.Done():
	}
	// Whoever asked may have no time left; this has its own.
	kctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leftoverTimeout)
	defer cancel()
	var err error
	if own != nil {
		err = own.Remove(kctx)
	} else {
		err = proc.killTree(kctx, "")
	}
	if waiting {
		select {
		case e = <-ended:
		case <-kctx.Done(): // it waits for broken hardware
			proc.stop()
			e = <-ended
		}
	}
	proc.release()
	switch {
	case err != nil:
		return wire.Exit{}, fmt.Errorf("end the command: %w", err)
	case errors.Is(context.Cause(ctx), runtime.ErrGone): // whoever was first to end it
		return wire.Exit{}, runtime.ErrGone
	case waiting:
		return wire.Exit{}, ctx.Err()
	case e.err != nil:
		return wire.Exit{}, e.err
	}
	return exitOf(e.status, e.known), nil
}

// exitOf words how a process ended; known is false where nobody saw it.
func exitOf(status syscall.WaitStatus, known bool) wire.Exit {
	x := wire.Exit{Code: -1, Unknown: true, At: time.Now()}
	if known {
		x.Unknown = false
		x.Code = status.ExitStatus()
		if status.Signaled() {
			x.Code = 128 + int(status.Signal())
			x.Signal = ending.SignalName(status.Signal())
		}
	}
	return x
}

// sweepExecs ends commands that ran beside the task when an engine died.
func (t *task) sweepExecs(ctx context.Context, log *slog.Logger) {
	if t.group == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, leftoverTimeout)
	defer cancel()
	if err := t.group.RemoveSubs(ctx); err != nil {
		log.Warn("commands that ran beside an instance are left", "instance", t.id, "error", err)
	}
}
