package enroll

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/verge-edge/verge/internal/wire"
)

// A data directory belongs to one role.
func TestOwnDir(t *testing.T) {
	for _, c := range []struct {
		file, role string
		refused    bool
	}{
		{"authority.pem", "root", false}, {"authority.pem", "cluster", true}, {"authority.pem", "worker", true},
		{"cluster-ca-key.pem", "root", true}, {"cluster-ca-key.pem", "cluster", false},
		{"cluster-ca-key.pem", "worker", true},
		{"engine.json", "worker", false}, {"context.yaml", "cluster", false},
	} {
		dir := t.TempDir()
		if err := OwnDir(filepath.Join(dir, "none"), c.role); err != nil {
			t.Errorf("a new one: %v", err)
		}
		if err := os.WriteFile(filepath.Join(dir, c.file), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		var p *wire.Problem
		if err := OwnDir(dir, c.role); errors.As(err, &p) != c.refused || c.refused && p.Code != "other-role" {
			t.Errorf("%+v: %v", c, err)
		}
	}
}
