package unixsock

import (
	"context"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// exchange sends one word over a socket at path and returns what arrived.
func exchange(t *testing.T, l net.Listener, path string) string {
	t.Helper()
	got := make(chan string, 1)
	go func() {
		c, err := l.Accept()
		if err != nil {
			got <- err.Error()
			return
		}
		b, err := io.ReadAll(c)
		if err != nil {
			b = []byte(err.Error())
		}
		_ = c.Close()
		got <- string(b)
	}()
	c, err := Dial(context.Background(), path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(c, "hello"); err != nil {
		t.Fatal(err)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	return <-got
}

func TestAnyPathLength(t *testing.T) {
	t.Parallel()
	for _, pad := range []int{1, 200} {
		dir := filepath.Join(t.TempDir(), strings.Repeat("d", pad))
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, "a.sock")
		l, err := Listen(path)
		if err != nil {
			t.Fatal(err)
		}
		if got := exchange(t, l, path); got != "hello" {
			t.Errorf("%d bytes of path: got %q", len(path), got)
		}
		fi, err := os.Lstat(path)
		if err != nil {
			t.Fatal(err)
		}
		if fi.Mode().Perm() != 0o600 {
			t.Errorf("mode %v, want 0600", fi.Mode().Perm())
		}
		if l.Addr().String() != path {
			t.Errorf("address %s, want %s", l.Addr(), path)
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		if names, _ := os.ReadDir(dir); len(names) != 0 {
			t.Errorf("left behind: %v", names)
		}
	}
}

func TestListenTakesTheSocketOfADeadProcess(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a.sock")
	dead, err := Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	// As after a crash: closed, but its name is still there.
	if err := dead.(*listener).UnixListener.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := Dial(context.Background(), path); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("dial a dead socket: %v, want an error that names it", err)
	}
	l, err := Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if got := exchange(t, l, path); got != "hello" {
		t.Errorf("got %q", got)
	}
}

func TestListenKeepsAFileThatIsNoSocket(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a.sock")
	if err := os.WriteFile(path, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Listen(path); err == nil {
		t.Fatal("listened over a file")
	}
	if b, _ := os.ReadFile(path); string(b) != "precious" {
		t.Errorf("the file is now %q", b)
	}
}

func TestAllowed(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		peer, own uint32
		want      bool
	}{{1000, 1000, true}, {0, 1000, true}, {1001, 1000, false}, {1000, 0, false}} {
		if got := allowed(c.peer, c.own); got != c.want {
			t.Errorf("allowed(%d, %d) = %v", c.peer, c.own, got)
		}
	}
}

func TestRefusesConnectionsOfOthers(t *testing.T) {
	t.Parallel()
	l, err := Listen(filepath.Join(t.TempDir(), "a.sock"))
	if err != nil {
		t.Fatal(err)
	}
	// Nobody runs as this user, and as root everybody is allowed who is root:
	// so the listener is made to belong to another, and the peer must not be 0.
	if os.Getuid() == 0 {
		t.Skip("root is always allowed")
	}
	l.(*listener).uid = uint32(os.Getuid()) + 1
	accepted := make(chan error, 1)
	go func() {
		_, err := l.Accept()
		accepted <- err
	}()
	c, err := Dial(context.Background(), l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Read(make([]byte, 1)); err == nil {
		t.Error("read from a connection that must be closed")
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-accepted; err == nil {
		t.Error("a stranger's connection was accepted")
	}
}
