package wasm

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/verge-edge/verge/internal/runtime/logfile"
)

// The directory of a log is made by its first line, and not before.
func TestFirstLineMakesTheLog(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "fn", "log")
	l := &logWriter{dir: dir}
	l.close()
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("without a line: %v", err)
	}
	for _, text := range []string{"one\n", "two\n"} {
		if _, err := l.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	c, err := logfile.Read(dir, 0, 100)
	if err != nil || string(c.Data) != "one\ntwo\n" {
		t.Errorf("%q, %v", c.Data, err)
	}
}
