package overlaytest

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/verge-edge/verge/internal/onthread"
)

// inside is set in the environment of a binary that runs in namespaces of its own.
const inside = "VERGE_OVERLAYTEST_INSIDE"

// Main is what TestMain calls: it runs the tests in namespaces of their own where
// the rights suffice.
func Main(m *testing.M) {
	switch {
	case os.Getenv(inside) != "":
		if err := settle(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(m.Run())
	case os.Geteuid() != 0:
		os.Exit(m.Run()) // Need skips
	}
	c := again(os.Args[1:]...)
	c.Stdin, c.Stdout, c.Stderr = os.Stdin, os.Stdout, os.Stderr
	err := c.Run()
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		os.Exit(max(exit.ExitCode(), 1))
	case err != nil:
		os.Unsetenv(inside) //nolint:errcheck // it cannot fail for a name like this
		fmt.Fprintln(os.Stderr, "no namespaces for tests:", err)
		os.Exit(m.Run())
	}
	os.Exit(0)
}

// again is this binary in namespaces of its own. It is killed with us.
func again(args ...string) *exec.Cmd {
	c := exec.Command("/proc/self/exe", args...) //nolint:gosec // ourselves
	c.Env = append(os.Environ(), inside+"=1")
	c.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWNS,
		Pdeathsig: syscall.SIGKILL}
	runtime.LockOSThread() // for Pdeathsig, which is the thread's
	return c
}

// settle makes the namespaces ours.
func settle() error {
	// What is mounted here is nobody else's.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("private mounts: %w", err)
	}
	if err := loopbackUp(); err != nil {
		return fmt.Errorf("loopback: %w", err)
	}
	return nil
}

// Again runs the calling test once more, in namespaces of its own, and reports how
// that went: then it returns true, and the test is over. Within them it returns
// false. It is for packages most of whose tests need no namespaces.
func Again(t *testing.T) bool {
	t.Helper()
	if os.Getenv(inside) != "" {
		if err := settle(); err != nil {
			t.Fatal(err)
		}
		return false
	}
	if os.Geteuid() != 0 {
		Need(t)
	}
	defer runtime.UnlockOSThread()
	out, err := again("-test.run", "^"+t.Name()+"$", "-test.v").CombinedOutput()
	t.Logf("in namespaces of its own:\n%s", out)
	if err != nil {
		t.Error(err)
	}
	return true
}

// Need skips the test where it can't have namespaces, loudly, and fails it where
// nothing may be skipped.
func Need(t testing.TB) {
	t.Helper()
	if os.Getenv(inside) != "" {
		return
	}
	Without(t, "needs root, network namespaces and nftables")
}

// Without skips a test because something is missing, but never in CI.
func Without(t testing.TB, why string) {
	t.Helper()
	if os.Getenv("VERGE_CI_NO_SKIP") != "" {
		t.Fatal(why)
	}
	t.Skip("SKIPPED: " + why)
}

func loopbackUp() error {
	s, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(s) //nolint:errcheck // nothing was written
	r, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	r.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	return unix.IoctlIfreq(s, unix.SIOCSIFFLAGS, r)
}

// In runs f in the network namespace at path; "" is the machine's. f must not start
// goroutines that open sockets.
func In(t testing.TB, path string, f func() error) error {
	t.Helper()
	if path == "" {
		return f()
	}
	return onthread.InNetwork(path, f)
}

// Serve answers each TCP connection to addr in the namespace at path with what
// says, and each UDP packet too, until the test ends.
func Serve(t testing.TB, path string, addr netip.AddrPort, says string) {
	t.Helper()
	var ln net.Listener
	var pc net.PacketConn
	err := In(t, path, func() (err error) {
		if ln, err = net.Listen("tcp", addr.String()); err != nil {
			return err
		}
		pc, err = net.ListenPacket("udp", addr.String())
		return err
	})
	if err != nil {
		t.Fatalf("listen on %s in %s: %v", addr, path, err)
	}
	t.Cleanup(func() { _, _ = ln.Close(), pc.Close() })
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				_, _ = io.WriteString(c, says)
				_, _ = io.Copy(io.Discard, c)
				_ = c.Close()
			}()
		}
	}()
	go func() {
		var b [64]byte
		for {
			_, from, err := pc.ReadFrom(b[:])
			if err != nil {
				return
			}
			_, _ = pc.WriteTo([]byte(says), from)
		}
	}()
}

// How long to wait for an answer that comes, and for one that does not.
const (
	timeout    = 5 * time.Second
	impatience = 250 * time.Millisecond
)

// Ask connects from the namespace at path and returns the answer.
func Ask(t testing.TB, path, proto string, to netip.AddrPort) (string, error) {
	t.Helper()
	return ask(t, path, proto, to, timeout)
}

// Refused says that nothing answers there: within a quarter of a second, as a drop
// has no answer to wait for.
func Refused(t testing.TB, path, proto string, to netip.AddrPort) bool {
	t.Helper()
	_, err := ask(t, path, proto, to, impatience)
	return err != nil
}

func ask(t testing.TB, path, proto string, to netip.AddrPort, within time.Duration) (said string, err error) {
	t.Helper()
	err = In(t, path, func() error {
		c, err := net.DialTimeout(proto, to.String(), within)
		if err != nil {
			return err
		}
		defer c.Close() //nolint:errcheck // read only
		if err := c.SetDeadline(time.Now().Add(within)); err != nil {
			return err
		}
		if _, err := c.Write([]byte("?")); err != nil {
			return err
		}
		var b [64]byte
		n, err := c.Read(b[:])
		said = string(b[:n])
		return err
	})
	return said, err
}
