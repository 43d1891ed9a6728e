//go:build unix

package bus

import (
	"errors"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// Where there are many free descriptors few are taken and given back to know it, and where
// there are few each write looks.
func TestHandlesAreNotLookedUpWithEachWrite(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		var h handles
		for range 1000 {
			if err := h.check(dir); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Millisecond)
		}
		if h.looked > 25 {
			t.Errorf("they were looked up %d times in a second", h.looked)
		}
		if free, err := freeDescriptors(dir, manyHandles); free != manyHandles || err != nil {
			t.Fatal(free, err)
		}
		var limit syscall.Rlimit
		if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
			t.Fatal(err)
		}
		time.Sleep(looksAgain)
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: 16, Max: limit.Max}); err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
				t.Error(err)
			}
		}()
		before := h.looked
		for range 3 {
			if err := h.check(dir); !errors.Is(err, syscall.EMFILE) {
				t.Errorf("with less than %d: %v", minHandles, err)
			}
		}
		if h.looked != before+3 {
			t.Errorf("they were looked up %d times in 3 writes", h.looked-before)
		}
	})
}
