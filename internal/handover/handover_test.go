package handover

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestMain is a successor, too: it answers connections to its sockets with what it is.
func TestMain(m *testing.M) {
	in, err := Take()
	if err != nil || in != nil {
		os.Exit(succeed(in, err))
	}
	os.Exit(m.Run())
}

func succeed(in *Inheritance, err error) int {
	if err != nil || os.Args[1] == "fails" {
		return 3
	}
	if os.Getenv(Env) != "" || syscall.Flock(int(in.Lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) != nil {
		return 4
	}
	if os.Args[1] == "hangs" {
		select {}
	}
	if os.Args[1] == "reads" {
		return readsLetter(in)
	}
	ln, err := in.Sockets.Listen(context.Background(), net.ListenConfig{KeepAlive: -1}, "door", "tcp", "127.0.0.1:0")
	if err != nil {
		return 5
	}
	served := make(chan error)
	go func() {
		c, err := ln.Accept()
		if err == nil {
			_, err = io.WriteString(c, "successor")
			err = errors.Join(err, c.Close())
		}
		served <- err
	}()
	if err := in.Ready(context.Background(), "here"); err != nil {
		return 6
	}
	if <-served != nil {
		return 7
	}
	return 0
}

// readsLetter says as its first word what was sent to it, and answers when it may.
func readsLetter(in *Inheritance) int {
	c, err := in.Sockets.ListenPacket(context.Background(), net.ListenConfig{}, "letters", "udp", "127.0.0.1:0")
	if err != nil {
		return 5
	}
	b := make([]byte, 64)
	n, from, err := c.ReadFrom(b)
	if err != nil || in.Ready(context.Background(), string(b[:n])) != nil {
		return 6
	}
	if _, err := c.WriteTo([]byte("from the successor"), from); err != nil {
		return 7
	}
	return 0
}

func start(t *testing.T, s *Sockets, lock *os.File, how string) *Successor {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	next, err := s.Start(self, []string{how}, lock)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(next.Kill)
	return next
}

func locked(t *testing.T) *os.File {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "lock"))
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		t.Fatal(err)
	}
	return f
}

func isLocked(t *testing.T, lock *os.File) bool {
	t.Helper()
	other, err := os.Open(lock.Name())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = other.Close() }()
	return errors.Is(syscall.Flock(int(other.Fd()), syscall.LOCK_EX|syscall.LOCK_NB), syscall.EWOULDBLOCK)
}

func TestSuccessorHasSocketAndLock(t *testing.T) {
	var s Sockets
	ln, err := s.Listen(t.Context(), net.ListenConfig{}, "door", "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	other, err := s.Listen(t.Context(), net.ListenConfig{}, "gone", "tcp", "127.0.0.1:0")
	if err != nil || other.Close() != nil {
		t.Fatal(err)
	}
	lock := locked(t)
	next := start(t, &s, lock, "works")
	said, err := next.Wait(t.Context())
	if err != nil || said != "here" {
		t.Fatalf("%q, %v", said, err)
	}
	// It accepts nothing yet: what comes now is ours.
	c, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	mine, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(c.Close(), mine.Close()); err != nil {
		t.Fatal(err)
	}
	// A client that is not accepted yet is the successor's.
	c, err = net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(ln.Close(), lock.Close()); err != nil {
		t.Fatal(err)
	}
	if !isLocked(t, lock) {
		t.Error("the lock went with the process before")
	}
	next.Go()
	if b, err := io.ReadAll(c); err != nil || string(b) != "successor" {
		t.Errorf("%q, %v", b, err)
	}
	<-next.ended
	if next.err != nil {
		t.Error(next.err)
	}
	if isLocked(t, lock) {
		t.Error("the lock outlives both")
	}
}

func TestSuccessorThatDoesNotWork(t *testing.T) {
	for how, want := range map[string]string{"fails": "exit status 3", "hangs": "in time"} {
		t.Run(how, func(t *testing.T) {
			var s Sockets
			ln, err := s.Listen(t.Context(), net.ListenConfig{}, "door", "tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			lock := locked(t)
			next := start(t, &s, lock, how)
			ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
			if how == "fails" {
				ctx, cancel = context.WithCancel(t.Context())
			}
			defer cancel()
			if _, err := next.Wait(ctx); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%v, want %q", err, want)
			}
			next.Kill()
			if !isLocked(t, lock) {
				t.Error("its end has freed the lock")
			}
			c, err := net.Dial("tcp", ln.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = c.Close() }()
			if mine, err := ln.Accept(); err != nil {
				t.Error(err)
			} else {
				_ = mine.Close()
			}
		})
	}
}

func TestManySocketsThatComeAndGo(t *testing.T) {
	var s Sockets
	for i := range 1000 {
		ln, err := s.Listen(t.Context(), net.ListenConfig{}, fmt.Sprint(i), "tcp", "127.0.0.1:0")
		if err != nil || ln.Close() != nil {
			t.Fatal(err)
		}
	}
	if len(s.open) > 200 {
		t.Errorf("%d closed sockets are kept", len(s.open))
	}
	if _, files, err := s.files(); err != nil || len(files) != 0 {
		t.Errorf("%d files of closed sockets, %v", len(files), err)
	}
}

// While a successor has the sockets and has not taken them over yet, who accepts
// connections here hears of the end of it.
func TestAcceptEndsBesideASuccessor(t *testing.T) {
	var s Sockets
	ln, err := s.Listen(t.Context(), net.ListenConfig{}, "door", "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	start(t, &s, locked(t), "hangs")
	accepted, ended := make(chan struct{}, 1), make(chan error, 1)
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				ended <- err
				return
			}
			_ = c.Close() // nothing was said
			accepted <- struct{}{}
		}
	}()
	c, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	<-accepted
	// From here on it waits in the kernel if the socket blocks.
	closed := make(chan error, 1)
	go func() { closed <- ln.Close() }()
	for range 2 {
		select {
		case err := <-closed:
			if err != nil {
				t.Error(err)
			}
		case err := <-ended:
			if !errors.Is(err, net.ErrClosed) {
				t.Error(err)
			}
		case <-time.After(30 * time.Second):
			t.Fatal("closing the socket does not end who accepts")
		}
	}
}

// A datagram that came while nobody was reading is read by the successor, at the same
// address.
func TestSuccessorHasDatagrams(t *testing.T) {
	var s Sockets
	in, err := s.ListenPacket(t.Context(), net.ListenConfig{}, "letters", "udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.ListenPacket(t.Context(), net.ListenConfig{}, "letters", "unixgram", filepath.Join(t.TempDir(), "s")); err == nil {
		t.Error("a socket that is not UDP's was taken")
	}
	at := in.LocalAddr().String()
	c, err := net.Dial("udp", at)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	if _, err := c.Write([]byte("hello")); err != nil {
		t.Fatal(err)
	}
	next := start(t, &s, locked(t), "reads")
	if said, err := next.Wait(t.Context()); err != nil || said != "hello" {
		t.Fatalf("%q, %v", said, err)
	}
	if err := in.Close(); err != nil {
		t.Fatal(err)
	}
	next.Go()
	if err := c.SetReadDeadline(time.Now().Add(30 * time.Second)); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 64)
	if n, err := c.Read(b); err != nil || string(b[:n]) != "from the successor" {
		t.Errorf("%q, %v", b[:n], err)
	}
	<-next.ended
	if next.err != nil {
		t.Error(next.err)
	}
}
