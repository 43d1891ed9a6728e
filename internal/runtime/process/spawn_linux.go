package process

import (
	"context"
	"errors"
	"fmt"
	goruntime "runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/verge-edge/verge/internal/runtime"
	"github.com/verge-edge/verge/internal/runtime/cgroup"
)

// umask of instances: what they make is readable by others, writable by none.
const umask = 0o022

// spawn starts the program at path in a session of its own and in g, which may
// be nil.
func spawn(ctx context.Context, path string, s runtime.Spec, io stdio, g *cgroup.Group) (*process, error) {
	var pid int
	err := onOwnThread(func() error {
		// The umask belongs to a process's threads together; this one leaves their
		// company, and the child inherits. Where that is forbidden (a container's
		// filter) the engine's own umask holds.
		if unix.Unshare(unix.CLONE_FS) == nil {
			unix.Umask(umask)
		}
		if err := enter(s); err != nil {
			return err
		}
		attr := &syscall.ProcAttr{
			Dir:   s.Dir,
			Env:   s.Env,
			Files: io.fds(),
			Sys:   &syscall.SysProcAttr{Setsid: true, Setctty: io.terminal},
		}
		fork := func() error { return forkExec(ctx, path, s.Command, attr, &pid) }
		if g == nil {
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
	if err := errors.Join(err, err2); err != nil {
		_ = unix.Kill(-pid, unix.SIGKILL)
		(&process{pid: pid}).release()
		return nil, fmt.Errorf("identify the started process: %w", err)
	}
	return newProcess(pid, st.started, boot, openPidfd(pid)), nil
}

// enter brings the calling thread into the network namespace of a task, with the
// name servers of that: in a mount namespace of its own, into which what is mounted
// later on the machine comes as well.
func enter(s runtime.Spec) error {
	if s.NetNS == "" {
		return nil
	}
	if s.Resolv != "" {
		if err := unix.Unshare(unix.CLONE_FS | unix.CLONE_NEWNS); err != nil {
			return fmt.Errorf("make a mount namespace: %w", err)
		}
		if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SLAVE, ""); err != nil {
			return fmt.Errorf("mounts of its own: %w", err)
		}
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
	fd, err := unix.Open(s.NetNS, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open its network namespace: %w", err)
	}
	defer unix.Close(fd) //nolint:errcheck // read only
	if err := unix.Setns(fd, unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("enter its network namespace: %w", err)
	}
	return nil
}

// forkExec starts the program. One that was just written may still be open for
// writing in a child that another goroutine is about to exec ("text file busy").
func forkExec(ctx context.Context, path string, argv []string, attr *syscall.ProcAttr, pid *int) (err error) {
	for range 10 {
		*pid, err = syscall.ForkExec(path, argv, attr)
		if err == nil {
			return nil
		}
		err = &execError{err}
		if !errors.Is(err, syscall.ETXTBSY) {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(10 * time.Millisecond):
		}
	}
	return err
}

// onOwnThread runs fn on a thread that ends with it, so that what fn changes of
// the thread (its control groups, its umask) stays with it and its child.
func onOwnThread(fn func() error) error {
	done := make(chan error, 1)
	go func() {
		goruntime.LockOSThread() // and never unlocked: the thread ends with us
		if unix.Gettid() == unix.Getpid() {
			// The main thread cannot end; Go would park it for ever as it is. While
			// we hold it, another goroutine must get another thread.
			err := onOwnThread(fn)
			goruntime.UnlockOSThread()
			done <- err
			return
		}
		done <- fn()
	}()
	return <-done
}
