package container

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

// mounts is how containerd sees the files of this process.
type mounts struct {
	// root is that of containerd, as a path from here; "" is the same as ours.
	root string
}

// mountsOf looks whether containerd has the same table of mounts as this process:
// a service of systemd may have been given one of its own. That they are the same is
// looked for once for all who use one client at a time.
func (d *Driver) mountsOf(ctx context.Context) (mounts, error) {
	d.mu.Lock()
	c, together := d.client, d.together
	d.mu.Unlock()
	if together {
		return mounts{}, nil
	}
	seen, err := d.lookAtMounts(ctx)
	if err == nil && seen.root == "" {
		d.mu.Lock()
		d.together = d.client != nil && d.client == c
		d.mu.Unlock()
	}
	return seen, err
}

func (d *Driver) lookAtMounts(ctx context.Context) (mounts, error) {
	conn, err := d.dial(ctx)
	if err != nil {
		return mounts{}, err
	}
	defer conn.Close() //nolint:errcheck // it was only a knock
	pid, err := peerOf(conn)
	if err != nil || pid == 0 { // of another pid namespace: nothing is known
		return mounts{}, err
	}
	theirs, err := os.Stat(fmt.Sprintf("/proc/%d/ns/mnt", pid))
	if err != nil {
		return mounts{}, nil // as above
	}
	ours, err := os.Stat("/proc/self/ns/mnt")
	if err != nil || os.SameFile(theirs, ours) {
		return mounts{}, err
	}
	return mounts{root: fmt.Sprintf("/proc/%d/root", pid)}, nil
}

// peerOf is the process at the other end of a connection, 0 where it cannot be seen
// from here.
func peerOf(conn net.Conn) (int, error) {
	raw, err := conn.(*net.UnixConn).SyscallConn()
	if err != nil {
		return 0, err
	}
	var peer *unix.Ucred
	if e := raw.Control(func(fd uintptr) { peer, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) }); e != nil || err != nil {
		return 0, errors.Join(e, err)
	}
	return int(peer.Pid), nil
}

// sees says in words why containerd cannot use a file of this machine.
func (m mounts) sees(path string) error {
	if m.root == "" {
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
	if theirs, err := os.Stat(m.root + real); err == nil && os.SameFile(ours, theirs) {
		return nil
	}
	return fmt.Errorf("containerd does not see %s: the worker has mounts of its own, and this is one of them; "+
		"run the worker with the mounts of the machine (systemd: neither PrivateMounts nor ProtectSystem nor the like in its unit), "+
		"with its --data-dir on a disk that both see", path)
}

// network gives the network namespace of a task a name that containerd finds, until
// done: the one that it has is a mount.
func (m mounts) network(s *runtime.Spec) (done func(), err error) {
	if m.root == "" || s.NetNS == "" {
		return func() {}, nil
	}
	ns, err := os.Open(s.NetNS)
	if err != nil {
		return nil, fmt.Errorf("open its network namespace: %w", err)
	}
	s.NetNS = "/proc/" + strconv.Itoa(syscall.Getpid()) + "/fd/" + strconv.Itoa(int(ns.Fd()))
	return func() { _ = ns.Close() }, nil // nothing was written
}
