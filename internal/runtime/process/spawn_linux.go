package process

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/verge-edge/verge/internal/onthread"
	"github.com/verge-edge/verge/internal/runtime"
	"github.com/verge-edge/verge/internal/runtime/cgroup"
	"github.com/verge-edge/verge/internal/runtime/process/setpriv"
)

// umask of instances: what they make is readable by others, writable by none.
const umask = 0o022

// spawn starts the program of s in a session of its own and in g, which may be nil: as
// the user of s and with its view, where it has one. The program is the one at path, or,
// where path is "", what the process beside finds by the name: then it runs in the mount
// namespace of that. It may be one of ready, which may be nil.
func spawn(ctx context.Context, path string, s runtime.Spec, std stdio, g *cgroup.Group,
	beside *process, ready *spares) (*process, error) {
	if s.User == nil {
		beside = nil // it has no namespace of its own
	}
	mounts, err := mountsOf(beside)
	if err != nil {
		return nil, err
	}
	defer mounts.Close() //nolint:errcheck // read only
	if path == "" {
		if path, err = resolveIn(mounts, s); err != nil {
			return nil, err
		}
	}
	var proc *process
	for range 10 {
		proc, err = start(ctx, path, s, std, g, mounts, ready)
		// A program that was just written may still be open for writing in a child that
		// another goroutine is about to exec ("text file busy").
		if !errors.Is(err, syscall.ETXTBSY) {
			break
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(10 * time.Millisecond):
		}
	}
	if err != nil {
		return nil, explain(err, path, s)
	}
	return proc, nil
}

// start is one attempt of spawn. The process enters mounts, if that is not nil.
func start(ctx context.Context, path string, s runtime.Spec, std stdio, g *cgroup.Group,
	mounts *os.File, ready *spares) (*process, error) {
	var pid int
	var report *os.File
	err := onthread.Do(func() error {
		// The umask belongs to a process's threads together; this one leaves their
		// company, and the child inherits. Where that is forbidden (a container's
		// filter) the engine's own umask holds.
		if unix.Unshare(unix.CLONE_FS) == nil {
			unix.Umask(umask)
		}
		if err := enter(s, mounts != nil); err != nil {
			return err
		}
		attr := &syscall.ProcAttr{
			Dir:   s.Dir,
			Env:   s.Env,
			Files: std.fds(),
			Sys:   &syscall.SysProcAttr{Setsid: true, Setctty: std.terminal},
		}
		fork := func() error { return forkExec(path, s.Command, attr, &pid) }
		if s.User != nil {
			fork = func() (err error) {
				report, err = forkAs(path, s, std, g, mounts, attr, ready, &pid)
				return err
			}
		}
		if g == nil || s.User != nil {
			return fork()
		}
		return g.Fork(attr.Sys, fork)
	})
	if err != nil {
		return nil, err
	}
	// Nobody else waits for our child, so the pid is its own until release.
	st, err := readStat(pid)
	boot, err2 := bootID()
	proc := newProcess(pid, st.started, boot, openPidfd(pid))
	if err := errors.Join(err, err2); err != nil {
		proc.abandon()
		return nil, fmt.Errorf("identify the started process: %w", err)
	}
	if report != nil {
		if err := proc.becomesUser(ctx, report); err != nil {
			proc.abandon()
			return nil, err
		}
	}
	return proc, nil
}

// abandon kills a child of which nobody was told, without waiting for its end.
func (p *process) abandon() {
	_ = p.signal(unix.SIGKILL) // it may have ended
	go func() {
		_, _, _ = p.wait() // whatever it ended with
		p.release()
	}()
}

// resolveIn finds the program of s in the mount namespace mounts, nil is that of this
// process.
func resolveIn(mounts *os.File, s runtime.Spec) (path string, err error) {
	find := func() error {
		if path, err = resolve(s); err != nil || s.User == nil {
			return err
		}
		return mayExecute(path, s.User)
	}
	if mounts == nil {
		return path, find()
	}
	err = onthread.Do(func() error {
		if err := join(mounts); err != nil {
			return err
		}
		return find()
	})
	return path, err
}

// forkAs starts the program as the user of s, by way of package setpriv: a child that
// changed its user between fork and exec could be stopped there by any process of that user,
// and with it the thread of this process that forks, and with that the whole process.
// The child enters g itself, as its own memory is more than some limits of programs. Where there
// is a spare, that becomes the program.
func forkAs(path string, s runtime.Spec, std stdio, g *cgroup.Group, mounts *os.File, attr *syscall.ProcAttr,
	ready *spares, pid *int) (report *os.File, err error) {
	if mounts == nil { // else the path was found there
		if err := mayExecute(path, s.User); err != nil {
			return nil, &commandError{err}
		}
	}
	if err := give(s.User, std); err != nil {
		return nil, err
	}
	c := setpriv.Command{
		UID: s.User.UID, GID: s.User.GID, LowPorts: s.User.LowPorts, Path: path, Args: s.Command, Dir: s.Dir, Env: s.Env,
		Mounts: mounts != nil,
	}
	var groups []*os.File
	if g != nil {
		if groups, err = g.Entries(); err != nil {
			return nil, err
		}
		defer func() {
			for _, f := range groups {
				_ = f.Close() // nothing is written through it
			}
		}()
		c.Groups = len(groups)
	}
	report, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer w.Close() //nolint:errcheck // nothing is written through it
	if mounts == nil && !std.terminal {
		if spare := ready.take(); spare != nil {
			err := spare.become(c, s.NetNS != "", []*os.File{w, std.in, std.out, std.err}, groups)
			if err == nil {
				*pid = spare.pid
				return report, nil
			}
			ready.log.Debug("a process held ready was of no use", "error", err)
			ready.work.Go(spare.reap) // its socket is closed, so it ends at once
		}
	}
	attr.Dir, attr.Env = "", c.Environ()
	attr.Files = append(attr.Files, w.Fd())
	if mounts != nil {
		attr.Files = append(attr.Files, mounts.Fd())
	}
	for _, f := range groups {
		attr.Files = append(attr.Files, f.Fd())
	}
	if err := forkExec(setpriv.Binary, c.Argv(), attr, pid); err != nil {
		return nil, errors.Join(fmt.Errorf("start as another user: %w", errors.Unwrap(err)), report.Close())
	}
	return report, nil
}

// stoppedCheck is how often a process that becomes another user is looked at.
const stoppedCheck = 200 * time.Millisecond

// becomesUser waits until the child executes its program, and says why it does not.
func (p *process) becomesUser(ctx context.Context, report *os.File) error {
	defer report.Close()                                                                   //nolint:errcheck // read only
	stop := context.AfterFunc(ctx, func() { _ = report.SetReadDeadline(time.Unix(1, 0)) }) // fails only where it is closed
	defer stop()
	var got []byte
	buf := make([]byte, 64)
	for {
		if err := report.SetReadDeadline(time.Now().Add(stoppedCheck)); err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		n, err := report.Read(buf)
		got = append(got, buf[:n]...)
		switch {
		case err == nil:
		case errors.Is(err, io.EOF):
			if err := setpriv.Result(got); err != nil {
				return &execError{err}
			}
			return nil
		case !errors.Is(err, os.ErrDeadlineExceeded):
			return err
		default:
			if st, err := readStat(p.pid); err == nil && st.state == 'T' {
				return &execError{errors.New("another process of its user stopped it before it ran")}
			}
		}
	}
}

// enter brings the calling thread into the network namespace of a task, with the name
// servers of that, and into its view of the machine, unless its child is going to enter the
// one of a task that runs.
func enter(s runtime.Spec, beside bool) error {
	network := -1
	if s.NetNS != "" {
		fd, err := unix.Open(s.NetNS, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			return fmt.Errorf("open its network namespace: %w", err)
		}
		defer unix.Close(fd) //nolint:errcheck // read only
		network = fd
	}
	if !beside && (s.User != nil || s.NetNS != "" && s.Resolv != "") {
		if err := remount(s); err != nil {
			return err
		}
	}
	if network < 0 {
		return nil
	}
	if err := unix.Setns(network, unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("enter its network namespace: %w", err)
	}
	if s.User != nil && !beside {
		openNetwork()
	}
	return nil
}

// remount makes a mount namespace, into which what is mounted later on the machine comes
// as well, with what is different for the task.
func remount(s runtime.Spec) error {
	if err := unix.Unshare(unix.CLONE_FS | unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("make a mount namespace: %w", err)
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SLAVE, ""); err != nil {
		return fmt.Errorf("mounts of its own: %w", err)
	}
	if s.NetNS != "" && s.Resolv != "" {
		// A machine without the file has no programs that would read it.
		if err := unix.Mount(s.Resolv, "/etc/resolv.conf", "", unix.MS_BIND, ""); err != nil && !errors.Is(err, unix.ENOENT) {
			return fmt.Errorf("its own /etc/resolv.conf: %w", err)
		}
		// Services of the machine that libraries ask for names before any name server.
		// They know nothing of the instance's own: who finds none there goes on to that.
		for _, socket := range []string{"/run/systemd/resolve/io.systemd.Resolve", "/run/nscd/socket"} {
			if err := unix.Mount("/dev/null", socket, "", unix.MS_BIND, ""); err != nil && !errors.Is(err, unix.ENOENT) {
				return fmt.Errorf("hide %s of the machine: %w", socket, err)
			}
		}
	}
	if s.User == nil {
		return nil
	}
	return isolate(s.User, s.View)
}

// forkExec forks and executes, and tells errors of that from others.
func forkExec(path string, argv []string, attr *syscall.ProcAttr, pid *int) (err error) {
	if *pid, err = syscall.ForkExec(path, argv, attr); err != nil {
		return &execError{err}
	}
	return nil
}
