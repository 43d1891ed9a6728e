package hooks

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/bus/bustest"
	"github.com/verge-edge/verge/internal/seal"
	"github.com/verge-edge/verge/internal/wire"
)

// A notice that cannot be read is left where it is, and the others are delivered; a hook
// that cannot be may be one that has to agree: nothing starts without it.
func TestRecordsThatCannotBeRead(t *testing.T) {
	t.Parallel()
	key, err := seal.Ensure(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	s := bustest.NewMemStore()
	open := func() (*Keeper, error) {
		return Open(t.Context(), Options{Store: s, Key: key, Now: time.Now, Log: slog.New(slog.DiscardHandler)})
	}
	k, err := open()
	if err != nil {
		t.Fatal(err)
	}
	(&world{t: t, k: k}).set("", "x", "http://127.0.0.1:1/", wire.HookSpec{On: []string{"*"}})
	id := k.order[0].rec.ID
	k.Close()
	const bad = `{"v":2}`
	for _, key := range []string{queueKey(id, 7), keyMark + "application/a"} {
		if _, err := s.Put(t.Context(), key, []byte(bad)); err != nil {
			t.Fatal(err)
		}
	}
	if k, err = open(); err != nil {
		t.Fatal(err)
	}
	if len(k.Unread()) != 2 || k.order[0].next != 8 {
		t.Errorf("%v, the next notice is %d", k.Unread(), k.order[0].next)
	}
	k.Close()
	if e, err := s.Get(t.Context(), queueKey(id, 7)); err != nil || string(e.Value) != bad {
		t.Errorf("%q, %v", e.Value, err)
	}
	if _, err := s.Put(t.Context(), keyHook+"_.x", []byte(bad)); err != nil {
		t.Fatal(err)
	}
	if k, err := open(); err == nil || !strings.Contains(err.Error(), "start the newer program again") {
		t.Errorf("it starts without a hook: %v", err)
		if err == nil {
			k.Close()
		}
	}
}
