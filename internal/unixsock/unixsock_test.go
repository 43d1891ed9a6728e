package unixsock

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
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

// asStranger makes this test binary dial the socket that it names and say
// whether the connection was kept open.
const asStranger = "UNIXSOCK_TEST_STRANGER"

func TestMain(m *testing.M) {
	path := os.Getenv(asStranger)
	if path == "" {
		os.Exit(m.Run())
	}
	c, err := net.Dial("unix", path)
	if err != nil {
		os.Exit(3) // not even that
	}
	if _, err := c.Read(make([]byte, 1)); err != nil {
		os.Exit(0) // cut off, as it should be
	}
	os.Exit(4)
}

// As root another user dials; as anybody else the listener is made to belong to
// another, since one cannot become somebody else.
func TestRefusesConnectionsOfOthers(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp("", "s") // one that other users may enter
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	path := filepath.Join(dir, "a.sock")
	l, err := Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	accepted := make(chan error, 1)
	go func() {
		_, err := l.Accept()
		accepted <- err
	}()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if os.Getuid() == 0 {
		copied := filepath.Join(dir, "test")
		binary, err := os.ReadFile(self)
		if err == nil {
			err = errors.Join(os.WriteFile(copied, binary, 0o755), os.Chmod(dir, 0o755), os.Chmod(path, 0o666))
		}
		if err != nil {
			t.Fatal(err)
		}
		self = copied
	} else {
		l.(*listener).uid = uint32(os.Getuid()) + 1
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), asStranger+"="+path)
	if os.Getuid() == 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("the stranger was not cut off: %v %s", err, out)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-accepted; err == nil {
		t.Error("a stranger's connection was accepted")
	}
}
