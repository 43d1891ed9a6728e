package container

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/verge-edge/verge/internal/runtime/container/pidfd"
)

// Of a directory that is removed while something is waited for in it nothing is heard any
// more but that.
func TestADirectoryThatIsRemoved(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "containerd")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if _, err := unix.InotifyAddWatch(fd, dir, unix.IN_CREATE|unix.IN_MOVED_TO|unix.IN_ONLYDIR); err != nil {
		t.Fatal(err)
	}
	events := func() []byte {
		t.Helper()
		buf := make([]byte, 4096)
		n, err := unix.Read(fd, buf) // of what has happened already
		if err != nil {
			t.Fatal(err)
		}
		return buf[:n]
	}
	for _, name := range []string{"another", "a longer name of another socket"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if unwatched(events()) || unwatched(nil) {
		t.Error("it is there")
	}
	if err := os.WriteFile(filepath.Join(dir, "the last"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if !unwatched(events()) {
		t.Error("it is removed")
	}
}

// What could not be removed is tried again although nobody asks for anything and containerd
// has never been away.
func TestADebtIsSettledInTheEnd(t *testing.T) {
	d := New(Options{Base: t.TempDir()})
	defer d.Close()
	d.debtAgain = 1
	tries, settled := 0, make(chan struct{})
	d.debts["c"] = func(context.Context) error {
		if tries++; tries < 3 {
			return errors.New("it does not answer in time")
		}
		close(settled)
		return nil
	}
	self, err := pidfd.Find(os.Getpid(), 0) // as containerd, which stays
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	parked := make(chan struct{})
	go func() { defer close(parked); d.park(ctx, self) }()
	<-settled
	cancel()
	<-parked
	if d.owes() {
		t.Error("it is still owed")
	}
}
