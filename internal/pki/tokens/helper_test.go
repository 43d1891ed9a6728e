package tokens

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/pki"
)

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

const day = 24 * time.Hour

func must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// testKey is a key, with its public half as it travels.
func testKey(t testing.TB) (dir string, public []byte) {
	t.Helper()
	dir = t.TempDir()
	return dir, must(pki.EnsureKey(dir))(t)
}

func writeFile(t testing.TB, dir, name, text string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
