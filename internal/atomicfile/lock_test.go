package atomicfile

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
)

func TestLockIsHeldByOne(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	unlock, err := Lock(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Lock(path); !errors.Is(err, ErrLocked) {
		t.Errorf("a second lock gave %v, want ErrLocked", err)
	}
	unlock()
	again, err := Lock(path)
	if err != nil {
		t.Fatalf("after unlocking: %v", err)
	}
	again()
	if _, err := Lock(filepath.Join(path, "no", "such")); err == nil || errors.Is(err, ErrLocked) {
		t.Errorf("a file that cannot be made gave %v", err)
	}
}

// A child that is being started shares the open file, and with it the lock,
// until it runs its program.
func TestUnlockTakesTheLockFromChildren(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	unlock, err := Lock(path)
	if err != nil {
		t.Fatal(err)
	}
	fds, err := filepath.Glob("/proc/self/fd/*")
	if err != nil {
		t.Fatal(err)
	}
	shared := -1
	for _, fd := range fds {
		if to, err := os.Readlink(fd); err != nil || to != path {
			continue
		}
		n, err := strconv.Atoi(filepath.Base(fd))
		if err != nil {
			t.Fatal(err)
		}
		if shared, err = syscall.Dup(n); err != nil {
			t.Fatal(err)
		}
		defer func() { _ = syscall.Close(shared) }() // nothing was written
	}
	if shared < 0 {
		t.Skip("SKIPPED: a lock that a child shares, for want of /proc")
	}
	unlock()
	again, err := Lock(path)
	if err != nil {
		t.Fatalf("after unlocking: %v", err)
	}
	again()
}
