package root

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/backup"
	"github.com/verge-edge/verge/internal/bus"
	"github.com/verge-edge/verge/internal/bus/bustest"
	"github.com/verge-edge/verge/internal/objects"
)

// TestBackupHasObjects: what objects hold is in a backup, each content once, and in what
// is made of it; nothing of it is believed that has another digest than it was put with.
func TestBackupHasObjects(t *testing.T) {
	store, blobs := bustest.NewMemStore(), bustest.NewMemBlobs()
	shelf, err := objects.Open(t.Context(), objects.Options{Store: store, Blobs: blobs})
	if err != nil {
		t.Fatal(err)
	}
	defer shelf.Close()
	large := strings.Repeat("0123456789abcdef", 50_000)
	for name, content := range map[string]string{"a": large, "b": large, "c": "other", "empty": "", "lost": "lost"} {
		if _, err := shelf.Put(t.Context(),
			objects.Upload{Namespace: "shop", Name: name, Size: -1, Body: strings.NewReader(content)}); err != nil {
			t.Fatal(err)
		}
	}
	// One whose content is lost keeps nobody from taking a backup.
	named, err := shelf.Named(snapshot(t, store))
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range named {
		if o.Name == "lost" {
			if err := blobs.Remove(t.Context(), o.Blob); err != nil {
				t.Fatal(err)
			}
		}
	}
	write := func(c backup.Contents) []byte {
		var b bytes.Buffer
		if err := backup.Write(t.Context(), &b, backup.Source{
			Manifest: backup.Manifest{Role: "root", Name: "root", Made: time.Now()}, Dir: t.TempDir(), Store: store,
			Contents: c,
		}); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	without, err := backup.Read(bytes.NewReader(write(nil)))
	if err != nil || without.Objects || without.Format != 1 || without.Contents != 0 {
		t.Errorf("without contents: %+v, %v", without.Manifest, err)
	}
	file := write(shelf)
	dir := filepath.Join(t.TempDir(), backup.ObjectsDir)
	read := func() {
		t.Helper()
		if err := errors.Join(os.RemoveAll(dir), os.Mkdir(dir, 0o700)); err != nil {
			t.Fatal(err)
		}
		a, err := backup.ReadInto(bytes.NewReader(file), dir)
		if err != nil || !a.Objects || a.Contents != 3 || a.ContentBytes != int64(len(large)+len("other")) {
			t.Fatalf("%d contents of %d bytes, %v", a.Contents, a.ContentBytes, err)
		}
	}
	read()
	open := func() *objects.Store {
		t.Helper()
		s, err := objects.Open(t.Context(), objects.Options{Store: store, Blobs: blobs, Restored: dir})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(s.Close)
		return s
	}
	get := func(s *objects.Store, name string) (string, error) {
		_, r, err := s.Get(t.Context(), "shop", name)
		if err != nil {
			return "", err
		}
		b, err := io.ReadAll(r)
		return string(b), errors.Join(err, r.Close())
	}
	// The store is that of the backup, and its blobs are gone.
	blobs = bustest.NewMemBlobs()
	s := open()
	for name, want := range map[string]string{"a": large, "b": large, "c": "other", "empty": ""} {
		if got, err := get(s, name); err != nil || got != want {
			t.Errorf("%s: %d bytes, %v", name, len(got), err)
		}
	}
	if got, err := get(s, "lost"); err == nil {
		t.Errorf("what is lost reads as %q", got)
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("what was taken over is there still: %v", err)
	}
	// Damaged on the disk after it was read: a name without content, and no start that fails.
	blobs = bustest.NewMemBlobs()
	read()
	damaged := 0
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if info, err := f.Info(); err == nil && info.Size() == int64(len("other")) {
			damaged++
			if err := os.WriteFile(filepath.Join(dir, f.Name()), []byte("OTHER"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	s = open()
	if got, err := get(s, "c"); err == nil || damaged != 1 {
		t.Errorf("what was damaged reads as %q", got)
	}
	if got, err := get(s, "a"); err != nil || got != large {
		t.Errorf("a: %d bytes, %v", len(got), err)
	}
	if ids, err := blobs.List(t.Context()); err != nil || len(ids) != 3 {
		t.Errorf("%d blobs, want those of a, b and empty: %v", len(ids), err)
	}
	// Whatever byte of the file is another, it is refused as a whole.
	for at := 100; at < len(file); at += len(file) / 50 {
		bad := bytes.Clone(file)
		bad[at] ^= 0x40
		// Bits that only fill a byte up, where the compressor began a new one, mean nothing.
		if _, err := backup.Read(bytes.NewReader(bad)); err == nil &&
			!bytes.Equal(unpacked(t, bad), unpacked(t, file)) {
			t.Errorf("byte %d of %d was changed, and it was taken", at, len(file))
		}
	}
	if _, err := backup.Read(bytes.NewReader(file[:len(file)*2/3])); err == nil {
		t.Error("two thirds of it were taken")
	}
}

func unpacked(t *testing.T, file []byte) []byte {
	t.Helper()
	zip, err := gzip.NewReader(bytes.NewReader(file))
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(zip)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func snapshot(t *testing.T, s bus.Store) bus.Snapshot {
	t.Helper()
	snap, err := s.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return snap
}

var _ backup.Contents = (*objects.Store)(nil)
