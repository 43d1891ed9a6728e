package objects

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/verge-edge/verge/internal/engine/identity"
	"github.com/verge-edge/verge/internal/handover"
)

// An instance finds its objects where it was told, also after a restart of the engine; a
// damaged file gives other keys.
func TestWhatWasToldStays(t *testing.T) {
	dir := t.TempDir()
	log := slog.New(slog.DiscardHandler)
	run := func(f func(c *Cache)) {
		t.Helper()
		var wg sync.WaitGroup
		c := New(Options{
			Dir: dir, Identity: identity.New(t.TempDir(), nil, log), Sockets: &handover.Sockets{}, Log: log,
			Problem: func(subject, sentence string) { t.Errorf("%s: %s", subject, sentence) },
		})
		c.Start(func(f func(context.Context)) { wg.Go(func() { f(t.Context()) }) })
		f(c)
		c.Close()
		wg.Wait()
	}
	var first string
	run(func(c *Cache) {
		if _, err := os.Stat(filepath.Join(dir, objectsFile)); !os.IsNotExist(err) {
			t.Errorf("it listens although nothing was started: %v", err)
		}
		first = c.URL("shop", "")
		if first == "" || c.URL("other", "") == first || c.URL("shop", "10.0.0.1:80") == first {
			t.Errorf("URL %q", first)
		}
	})
	run(func(c *Cache) {
		if again := c.URL("shop", ""); again != first {
			t.Errorf("was %s, is %s", first, again)
		}
	})
	if err := os.WriteFile(filepath.Join(dir, objectsFile), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	run(func(c *Cache) {
		if again := c.URL("shop", ""); again == first || again == "" {
			t.Errorf("with a damaged file it is %q", again)
		}
	})
}
