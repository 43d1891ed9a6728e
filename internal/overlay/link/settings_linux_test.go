package link

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/verge-edge/verge/internal/atomicfile/statefile"
)

// The settings that a worker of before the forms were numbered has changed are put back
// by this one, and its file is kept before it is written.
func TestSettingsOfAnOlderVersion(t *testing.T) {
	dir := t.TempDir()
	l := &Links{opts: Options{Dir: filepath.Join(dir, "links"), Boot: "b1"}}
	path := filepath.Join(dir, settingsFile)
	const was = `{"boot":"b1","had":{"ipv4/ip_forward":"0"}}`
	if err := os.WriteFile(path, []byte(was), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := l.changed()
	if err != nil || s.V != 1 || s.Had["ipv4/ip_forward"] != "0" {
		t.Fatal(s, err)
	}
	s.Had["ipv6/conf/all/forwarding"] = "0"
	if err := settingsKind.Write(path, s); err != nil {
		t.Fatal(err)
	}
	if kept, err := os.ReadFile(path + ".v0.bak"); err != nil || string(kept) != was {
		t.Errorf("kept %q, %v", kept, err)
	}
	if s, err := l.changed(); err != nil || len(s.Had) != 2 {
		t.Error(s, err)
	}
	// What a newer one has noted is not forgotten.
	if err := os.WriteFile(path, []byte(`{"v":2,"machine":{}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	var newer *statefile.NewerError
	if err := l.Restore(false); !errors.As(err, &newer) {
		t.Error(err)
	}
	if _, err := os.Stat(path); err != nil {
		t.Error(err)
	}
}
