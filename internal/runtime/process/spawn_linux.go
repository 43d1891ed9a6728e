package process

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/verge-edge/verge/internal/onthread"
	"github.com/verge-edge/verge/internal/runtime"
	"github.com/verge-edge/verge/internal/runtime/cgroup"
)

// umask of instances: what they make is readable by others, writable by none.
const umask = 0o022

// spawn starts the program of s in a session of its own and in g, which may be nil: as
// the user of s and with its view, where it has one. The program is the one at path, or,
// where path is "", what the process beside finds by the name: then it runs in the mount
// namespace of that.
func spawn(ctx context.Context, path string, s runtime.Spec, io stdio, g *cgroup.Group, beside *process) (*process, error) {
	var pid int
	err := onthread.Do(func() error {
		// The umask belongs to a process's threads together; this one leaves their
		// company, and the child inherits. Where that is forbidden (a container's
		// filter) the engine's own umask holds.
		if unix.Unshare(unix.CLONE_FS) == nil {
			unix.Umask(umask)
		}
		if err := enter(s, beside); err != nil {
			return err
		}
		if path == "" {
			var err error
			if path, err = resolve(s); err != nil {
				return &commandError{err}
			}
		}
		attr := &syscall.ProcAttr{
			Dir:   s.Dir,
			Env:   s.Env,
			Files: io.fds(),
			Sys:   &syscall.SysProcAttr{Setsid: true, Setctty: io.terminal},
		}
		if s.User != nil {
			if err := become(s.User, path, io, attr.Sys); err != nil {
				return err
			}
		}
		fork := func() error { return forkExec(ctx, path, s.Command, attr, &pid) }
		if g == nil {
			return fork()
		}
		return g.Fork(attr.Sys, fork)
	})
	if err != nil {
		return nil, explain(err, path, s)
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

// become lets the child of the calling thread be the user, with none of the rights of
// this process.
func become(u *runtime.User, path string, io stdio, sys *syscall.SysProcAttr) error {
	if err := mayExecute(path, u); err != nil {
		return &commandError{err}
	}
	if err := give(u, io); err != nil {
		return err
	}
	if err := dropRights(u); err != nil {
		return err
	}
	// Without groups it is in none but its own.
	sys.Credential = &syscall.Credential{Uid: u.UID, Gid: u.GID}
	if u.LowPorts {
		sys.AmbientCaps = []uintptr{unix.CAP_NET_BIND_SERVICE}
	}
	return nil
}

// enter brings the calling thread into the network namespace of a task, with the
// name servers of that, and into its view of the machine: the one that the process
// beside has, or a new one.
func enter(s runtime.Spec, beside *process) error {
	network := -1
	if s.NetNS != "" {
		fd, err := unix.Open(s.NetNS, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			return fmt.Errorf("open its network namespace: %w", err)
		}
		defer unix.Close(fd) //nolint:errcheck // read only
		network = fd
	}
	switch {
	case s.User != nil && beside != nil:
		if err := join(beside.pid); err != nil {
			return err
		}
	case s.User != nil || s.NetNS != "" && s.Resolv != "":
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
	if s.User != nil && beside == nil {
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
