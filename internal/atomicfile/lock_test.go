package atomicfile

import (
	"errors"
	"path/filepath"
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
