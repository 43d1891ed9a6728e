package ctrd

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/verge-edge/verge/internal/runtime"
)

// Mounts is how containerd sees the files of this process.
type Mounts struct {
	// Root is that of containerd, as a path from here; "" is the same as ours.
	Root string
}

// MountsOf finds out whether containerd shares the mount namespace of this process: a systemd
// service may have its own. If it does, that is remembered as long as the client is in use.
func (x *Connection) MountsOf(ctx context.Context) (Mounts, error) {
	x.mu.Lock()
	c, together := x.client, x.together
	x.mu.Unlock()
	if together {
		return Mounts{}, nil
	}
	seen, err := x.lookAtMounts(ctx)
	if err == nil && seen.Root == "" {
		x.mu.Lock()
		x.together = x.client != nil && x.client == c
		x.mu.Unlock()
	}
	return seen, err
}

func (x *Connection) lookAtMounts(ctx context.Context) (Mounts, error) {
	conn, err := x.Dial(ctx)
	if err != nil {
		return Mounts{}, err
	}
	defer conn.Close() //nolint:errcheck // it was only a knock
	pid, err := PeerOf(conn)
	if err != nil || pid == 0 { // of another pid namespace: nothing is known
		return Mounts{}, err
	}
	theirs, err := os.Stat(fmt.Sprintf("/proc/%d/ns/mnt", pid))
	if err != nil {
		return Mounts{}, nil // as above
	}
	ours, err := os.Stat("/proc/self/ns/mnt")
	if err != nil || os.SameFile(theirs, ours) {
		return Mounts{}, err
	}
	return Mounts{Root: fmt.Sprintf("/proc/%d/root", pid)}, nil
}

// PeerOf is the process at the other end of a connection, 0 if it is not visible here.
func PeerOf(conn net.Conn) (int, error) {
	raw, err := conn.(*net.UnixConn).SyscallConn()
	if err != nil {
		return 0, err
	}
	var peer *unix.Ucred
	e := raw.Control(func(fd uintptr) { peer, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) })
	if e != nil || err != nil {
		return 0, errors.Join(e, err)
	}
	return int(peer.Pid), nil
}

// Sees returns why containerd cannot use a file of this machine.
func (m Mounts) Sees(path string) error {
	if m.Root == "" {
		return nil
	}
	real, err := filepath.EvalSymlinks(path) // which would lead out of theirs
	if err != nil {
		return err
	}
	ours, err := os.Stat(real)
	if err != nil {
		return err
	}
	if theirs, err := os.Stat(m.Root + real); err == nil && os.SameFile(ours, theirs) {
		return nil
	}
	return fmt.Errorf("containerd does not see %s: the worker has mounts of its own, and this is one of them; "+
		"run the worker with the mounts of the machine (systemd: neither PrivateMounts nor ProtectSystem nor the like in its unit), "+
		"with its --data-dir on a disk that both see", path)
}

// Network gives the network namespace of a task a path that containerd finds, until done: its own
// path is a mount.
func (m Mounts) Network(s *runtime.Spec) (done func(), err error) {
	if m.Root == "" || s.NetNS == "" {
		return func() {}, nil
	}
	ns, err := os.Open(s.NetNS)
	if err != nil {
		return nil, fmt.Errorf("open its network namespace: %w", err)
	}
	s.NetNS = "/proc/" + strconv.Itoa(syscall.Getpid()) + "/fd/" + strconv.Itoa(int(ns.Fd()))
	return func() { _ = ns.Close() }, nil // nothing was written
}
