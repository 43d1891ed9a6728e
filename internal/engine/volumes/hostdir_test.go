package volumes

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestHostDir(t *testing.T) {
	t.Parallel()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	at := func(name string) string { return filepath.Join(dir, name) }
	for _, d := range []string{"real/srv/data", "secret"} {
		if err := os.MkdirAll(at(d), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for name, target := range map[string]string{"srv": "real/srv", "real/srv/in": "data",
		"real/srv/out": at("secret")} {
		if err := os.Symlink(target, at(name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(at("real/srv/file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	allowed := []string{at("nowhere"), at("srv")}
	for path, want := range map[string]string{
		"srv/data": "real/srv/data", "srv/in": "real/srv/data", "real/srv/data": "real/srv/data", "srv": "real/srv",
	} {
		if got, err := hostDir(at(path), allowed); err != nil || got != at(want) {
			t.Errorf("%s: %q, %v", path, got, err)
		}
	}
	for path, want := range map[string]string{
		"srv/out": "(which is " + at("secret") + ") is not below", "secret": "is not below",
		"srv/gone": "make it there", "srv/file": "is not a directory",
	} {
		if got, err := hostDir(at(path), allowed); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %q, %v; want %q", path, got, err, want)
		}
	}
}
