package logs

import (
	"errors"
	"log/slog"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/verge-edge/verge/internal/engine/state"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

// A reader gets what is there, waits for more, and still gets it for a day when the instance
// has left.
func TestReaders(t *testing.T) {
	const id = "shop.web.0"
	dir, here := t.TempDir(), true
	synctest.Test(t, func(t *testing.T) {
		s := New(Options{
			Dir: dir, Log: slog.New(slog.DiscardHandler), Problems: func(string, error) {}, Ended: make(chan struct{}),
			Status: func(wire.InstanceID) (wire.InstanceStatus, bool) {
				return wire.InstanceStatus{Incarnation: 1},
					here
			},
		})
		read := func(q rpc.LogAsk, want string) rpc.LogChunk {
			t.Helper()
			c, err := s.Read(t.Context(), id, q)
			if err != nil || string(c.Data) != want {
				t.Errorf("%+v: %q, %v, want %q", q, c.Data, err, want)
			}
			return c
		}
		log := state.At(dir, id).Log()
		read(rpc.LogAsk{}, "")
		if err := os.MkdirAll(log, 0o700); err != nil {
			t.Fatal(err)
		}
		writeLog(t, log, "one\n")
		c := read(rpc.LogAsk{}, "one\n")
		go func() {
			time.Sleep(time.Second) // of the bubble
			writeLog(t, log, "two\n")
		}()
		began := time.Now()
		read(rpc.LogAsk{Offset: c.Next, Wait: time.Minute}, "two\n")
		if waited := time.Since(began); waited < time.Second || waited > 2*time.Second {
			t.Errorf("waited for %s", waited)
		}
		if err := s.Keep(id, 1); err != nil {
			t.Fatal(err)
		}
		s.Forget(id)
		here = false
		read(rpc.LogAsk{Incarnation: 1}, "one\ntwo\n")
		if _, err := s.Read(t.Context(), id, rpc.LogAsk{}); !errors.Is(err, state.ErrNoInstance) {
			t.Errorf("the log of what is not here: %v", err)
		}
		if _, err := s.Read(t.Context(), "../x", rpc.LogAsk{}); !errors.Is(err, state.ErrNoInstance) {
			t.Errorf("a name that leads elsewhere: %v", err)
		}
	})
}
