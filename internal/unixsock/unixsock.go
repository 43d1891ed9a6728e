package unixsock

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
)

// maxPath is the longest path that fits sockaddr_un with its final zero, less
// the few bytes of the temporary name's suffix.
const maxPath = 100

// Listen opens the socket at path with mode 0600, in the place of whatever
// socket is there. Closing the listener removes the socket.
func Listen(path string) (net.Listener, error) {
	short, done, err := reach(path)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", path, err)
	}
	defer done()
	if fi, err := os.Lstat(path); err == nil && fi.Mode().Type() != os.ModeSocket {
		return nil, fmt.Errorf("listen on %s: a file that is not a socket is in its place; move it away", path)
	}
	tmp := short + ".new"
	if err := os.Remove(tmp); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("listen on %s: %w", path, err)
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: tmp, Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", path, err)
	}
	// The name it was bound to is about to go; Close removes the final one.
	l.SetUnlinkOnClose(false)
	err = os.Chmod(tmp, 0o600)
	if err == nil {
		err = os.Rename(tmp, path)
	}
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", path, errors.Join(err, l.Close(), os.Remove(tmp)))
	}
	own, err := os.Lstat(path)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", path, errors.Join(err, l.Close()))
	}
	return &listener{UnixListener: l, path: path, own: own, uid: uint32(os.Getuid())}, nil
}

// Dial connects to the socket at path.
func Dial(ctx context.Context, path string) (net.Conn, error) {
	short, done, err := reach(path)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", path, err)
	}
	defer done()
	var d net.Dialer
	c, err := d.DialContext(ctx, "unix", short)
	if err != nil {
		// The inner error would show the detour of a long path.
		var sys *os.SyscallError
		if errors.As(err, &sys) {
			err = sys
		}
		return nil, fmt.Errorf("connect to %s: %w", path, err)
	}
	return c, nil
}

// Listener is the process that listens at path: the one that made the socket,
// even if it does not answer.
func Listener(ctx context.Context, path string) (pid int, err error) {
	c, err := Dial(ctx, path)
	if err != nil {
		return 0, err
	}
	defer func() { _ = c.Close() }() // nothing was said
	u, ok := c.(*net.UnixConn)
	if !ok {
		return 0, fmt.Errorf("connect to %s: %T is no connection of a socket", path, c)
	}
	if pid, _, err = peer(u); err != nil {
		return 0, fmt.Errorf("who listens on %s: %w", path, err)
	}
	return pid, nil
}

// reach returns a name for path that is short enough for the kernel, valid
// until done is called.
func reach(path string) (short string, done func(), err error) {
	if len(path) <= maxPath {
		return path, func() {}, nil
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return "", nil, err
	}
	short = fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), filepath.Base(path))
	if len(short) > maxPath {
		return "", nil, errors.Join(fmt.Errorf("the name %s is too long for a socket", filepath.Base(path)), dir.Close())
	}
	return short, func() { _ = dir.Close() }, nil
}

// listener hands out only connections of its own user and of root.
type listener struct {
	*net.UnixListener
	path string
	own  os.FileInfo // of the socket
	uid  uint32
}

// Accept waits for the next connection that is allowed.
func (l *listener) Accept() (net.Conn, error) {
	for {
		c, err := l.AcceptUnix()
		if err != nil {
			return nil, err
		}
		_, uid, err := peer(c)
		if err == nil && allowed(uid, l.uid) {
			return c, nil
		}
		// Mode 0600 has refused strangers already; this is for a folder whose
		// file system does not know modes.
		_ = c.Close()
	}
}

// Close stops listening and removes the socket, unless another took its place.
func (l *listener) Close() error {
	err := l.UnixListener.Close()
	if now, lerr := os.Lstat(l.path); lerr != nil || !os.SameFile(now, l.own) {
		return err
	}
	if rerr := os.Remove(l.path); rerr != nil && !errors.Is(rerr, os.ErrNotExist) && err == nil {
		err = rerr
	}
	return err
}

// Addr is the path that was asked for.
func (l *listener) Addr() net.Addr { return &net.UnixAddr{Name: l.path, Net: "unix"} }

func allowed(peer, own uint32) bool { return peer == own || peer == 0 }

// peer asks the kernel which process, and whose, opened the other side.
func peer(c *net.UnixConn) (pid int, uid uint32, err error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return 0, 0, err
	}
	var cerr error
	if err := raw.Control(func(fd uintptr) { pid, uid, cerr = peerOf(int(fd)) }); err != nil {
		return 0, 0, err
	}
	return pid, uid, cerr
}
