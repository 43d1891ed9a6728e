package leftover

import (
	"errors"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/verge-edge/verge/internal/atomicfile"
)

// A process that was killed holds its locks for a moment; one that runs, longer.
func TestALockIsWaitedFor(t *testing.T) {
	path := filepath.Join(t.TempDir(), "engine.lock")
	synctest.Test(t, func(t *testing.T) {
		dying, err := atomicfile.Lock(path)
		if err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(time.Second, dying)
		running, err := lockSoon(t.Context(), path)
		if err != nil {
			t.Fatal(err)
		}
		defer running()
		began := time.Now()
		if _, err := lockSoon(t.Context(), path); !errors.Is(err, atomicfile.ErrLocked) || time.Since(began) < grace {
			t.Errorf("after %s: %v", time.Since(began), err)
		}
	})
}
