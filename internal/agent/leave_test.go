package agent

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/verge-edge/verge/internal/engineapi"
	"github.com/verge-edge/verge/internal/wire"
)

// Who has not joined has nothing to leave, and who is at work does not leave.
func TestWhoCannotLeave(t *testing.T) {
	dir := t.TempDir()
	code := func(want string) {
		t.Helper()
		_, err := Leave(t.Context(), dir, true)
		var p *wire.Problem
		if !errors.As(err, &p) || p.Code != want || !strings.Contains(p.Detail, dir) || p.Remedy == "" {
			t.Errorf("%v, want %s", err, want)
		}
	}
	code("no-worker")
	unlock, err := Lock(dir)
	if err != nil {
		t.Fatal(err)
	}
	code("in-use")
	unlock()
	if _, err := os.Stat(filepath.Join(dir, engineapi.IdentityDir)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("it has made something: %v", err)
	}
}
