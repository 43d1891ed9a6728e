package cli

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/backup"
	"github.com/verge-edge/verge/internal/bus"
	"github.com/verge-edge/verge/internal/bus/bustest"
	"github.com/verge-edge/verge/internal/rest/resttest"
)

// rootBackup is an archive as a root sends it.
func rootBackup(t *testing.T) []byte {
	t.Helper()
	store := bustest.NewMemStore()
	if _, err := store.Commit(t.Context(), bus.Put("app.a", []byte("{}")), bus.Put("app.b", []byte("{}"))); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "authority.pem"), []byte("KEY"), 0o600); err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	err := backup.Write(t.Context(), &b, backup.Source{
		Manifest: backup.Manifest{Role: "root", Name: "root", Root: "r", Version: "v-test", Made: noon.Add(-time.Hour)},
		Dir:      dir, Store: store,
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// varies are the parts of what is printed that are different in each run.
var varies = regexp.MustCompile(`[0-9a-f]{6}/2|[0-9.]+ KiB\b`)

func (f *fixture) goldenBackup(name string, r result, args ...string) {
	f.t.Helper()
	r.stdout, r.stderr = varies.ReplaceAllString(r.stdout, "X"), varies.ReplaceAllString(r.stderr, "X")
	f.golden(name, r, args...)
}

func (f *fixture) secret(name, content string) string {
	f.t.Helper()
	p := filepath.Join(f.dir, name)
	if err := os.WriteFile(p, []byte(content), 0o600); err != nil {
		f.t.Fatal(err)
	}
	return p
}

func TestBackupAndRestore(t *testing.T) {
	fake := &resttest.Fake{NodeData: resttest.NodeData{Archive: rootBackup(t)}}
	f := newFixture(t, fake)
	pass, other := f.secret("pass", "correct horse\n"), f.secret("other", "battery")
	file := filepath.Join(f.dir, "root.backup")
	step := func(name string, args ...string) {
		t.Helper()
		f.goldenBackup(name, f.run(args...), args...)
	}
	step("backup", "backup", file, "--passphrase-file", pass)
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	if b, err := os.ReadFile(file); err != nil || bytes.Contains(b, []byte("KEY")) ||
		!bytes.HasPrefix(b, []byte("age-encryption.org/")) {
		t.Errorf("it is not encrypted, %v", err)
	}
	step("backup-there", "backup", file, "--passphrase-file", pass)
	step("restore-check", "restore", file, "--dry-run", "--passphrase-file", pass)
	step("restore-wrong", "restore", file, "--dry-run", "--passphrase-file", other)
	step("restore-sealed", "restore", file, "--dry-run")
	dir := filepath.Join(f.dir, "data")
	step("restore", "restore", file, "--data-dir", dir, "--passphrase-file", pass)
	if b, err := os.ReadFile(filepath.Join(dir, "authority.pem")); err != nil || string(b) != "KEY" {
		t.Errorf("%q, %v", b, err)
	}
	step("restore-again", "restore", file, "--data-dir", dir, "--passphrase-file", pass)
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	f.secret("cut.backup", string(whole[:len(whole)-20]))
	step("restore-cut", "restore", filepath.Join(f.dir, "cut.backup"), "--data-dir", dir+"2", "--passphrase-file", pass)
	if _, err := os.Stat(dir + "2"); !errors.Is(err, os.ErrNotExist) {
		t.Error("something was written of a backup that is cut")
	}
	// Through a pipe.
	r := f.run("backup", "-", "--plain")
	if r.code != 0 || !bytes.Equal([]byte(r.stdout), fake.Archive) {
		t.Errorf("exit %d, %d bytes, %s", r.code, len(r.stdout), r.stderr)
	}
	if r := f.runWith(r.stdout, "restore", "-", "--dry-run"); r.code != 0 {
		t.Errorf("exit %d: %s", r.code, r.stderr)
	}
}

func TestBackupRefuses(t *testing.T) {
	f := newFixture(t, &resttest.Fake{NodeData: resttest.NodeData{Archive: rootBackup(t)}})
	empty := f.secret("empty", "\n")
	for name, args := range map[string][]string{
		"backup-no-seal":       {"backup", "x"},
		"backup-two-seals":     {"backup", "x", "--plain", "--passphrase-file", empty},
		"backup-empty-pass":    {"backup", "x", "--passphrase-file", empty},
		"backup-bad-recipient": {"backup", "x", "--recipient", "age1nobody"},
		"backup-often":         {"backup", "x", "--plain", "--every", "1s"},
		"backup-keep-alone":    {"backup", "x", "--plain", "--keep", "3"},
		"restore-no-dir":       {"restore", "x"},
		"restore-missing":      {"restore", "nothing", "--dry-run"},
		"restore-not-a-backup": {"restore", empty, "--dry-run"},
	} {
		f.golden(name, f.run(args...), args...)
	}
}

// newerBackup is a backup as a later version may write it: of a format that this one does
// not know.
func newerBackup(t *testing.T) []byte {
	t.Helper()
	z, err := gzip.NewReader(bytes.NewReader(rootBackup(t)))
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	out := gzip.NewWriter(&b)
	w := tar.NewWriter(out)
	changed := 0
	for in := tar.NewReader(z); ; {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(in)
		if err != nil {
			t.Fatal(err)
		}
		var m map[string]any
		if json.Unmarshal(content, &m) == nil && m["format"] != nil {
			m["format"], m["version"] = backup.Format+1, "v99.1.0"
			if content, err = json.Marshal(m); err != nil {
				t.Fatal(err)
			}
			h.Size = int64(len(content))
			changed++
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(content); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(w.Close(), out.Close()); err != nil || changed != 1 {
		t.Fatalf("%d manifests, %v", changed, err)
	}
	return b.Bytes()
}

// A backup of a later version is not half restored: it says which version reads it.
func TestRestoreOfANewerBackup(t *testing.T) {
	f := newFixture(t, &resttest.Fake{})
	file := f.secret("newer.backup", string(newerBackup(t)))
	dir := filepath.Join(f.dir, "data")
	for name, args := range map[string][]string{
		"restore-newer":       {"restore", file, "--data-dir", dir},
		"restore-newer-check": {"restore", file, "--dry-run"},
	} {
		r := f.run(args...)
		if r.code != 1 || !strings.Contains(r.stderr, "use verge v99.1.0 or a later one") {
			t.Errorf("%s: exit %d: %s", name, r.code, r.stderr)
		}
		f.golden(name, r, args...)
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("something was written of a backup that cannot be read: %v", err)
	}
}

// What the server could not finish is no backup, and leaves no file.
func TestAHalfBackupIsNone(t *testing.T) {
	fake := &resttest.Fake{NodeData: resttest.NodeData{Archive: rootBackup(t)}}
	fake.Archive = fake.Archive[:len(fake.Archive)-30]
	f := newFixture(t, fake)
	r := f.run("backup", filepath.Join(f.dir, "x.backup"), "--plain")
	if r.code != 1 || !strings.Contains(r.stderr, "not complete") {
		t.Errorf("exit %d: %s", r.code, r.stderr)
	}
	if left, err := filepath.Glob(filepath.Join(f.dir, "*backup*")); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
	if left, err := filepath.Glob(filepath.Join(f.dir, ".verge*")); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

func TestRepeatedBackups(t *testing.T) {
	fake := &resttest.Fake{NodeData: resttest.NodeData{Archive: rootBackup(t)}}
	tries := 0
	fake.Hook = func(_ *resttest.Fake, op string) error {
		if op != "backup" {
			return nil
		}
		if tries++; tries == 2 || tries == 3 {
			return errors.New("the disk is slow today")
		}
		return nil
	}
	f := newFixture(t, fake)
	dir := filepath.Join(f.dir, "backups")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{".verge-1.backup.tmp", "mine.txt", "verge-root-20200101T000000Z.backup",
		"verge-cluster-edge-20200101T000000Z.backup"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	f.onSleep = func() {
		if tries == 6 {
			cancel()
		}
	}
	args := []string{"backup", "--every", "1h", "--keep", "2", "--plain", dir}
	f.goldenBackup("backup-every", f.runContext(ctx, "", args...), args...)
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	want := "mine.txt verge-cluster-edge-20200101T000000Z.backup verge-root-20250601T140030Z.backup " +
		"verge-root-20250601T150030Z.backup"
	if got := strings.Join(names, " "); got != want {
		t.Errorf("left: %s\nwant: %s", got, want)
	}
}
