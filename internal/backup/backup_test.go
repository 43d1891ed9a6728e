package backup

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"filippo.io/age"

	"github.com/verge-edge/verge/internal/atomicfile"
	"github.com/verge-edge/verge/internal/bus"
	"github.com/verge-edge/verge/internal/bus/busserver"
	"github.com/verge-edge/verge/internal/bus/bustest"
	"github.com/verge-edge/verge/internal/wire"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// source is a data directory with a store in memory.
func source(t *testing.T) Source {
	t.Helper()
	dir := t.TempDir()
	for path, content := range map[string]string{
		"authority.pem": "CA KEY", "key.pem": "KEY", "context.yaml": "context", "bus/bus.json": busKeys(t),
		"identity/deep.pem": "x",
		// None of these is worth keeping.
		"bus/lock": "", "bus/store": "verge store 1\n", "bus/jetstream/x/y": "log", "a.lock": "", "engine.log": "text",
		".key.pem.1.tmp": "half",
	} {
		p := filepath.Join(dir, path)
		if err := errors.Join(os.MkdirAll(filepath.Dir(p), 0o700),
			os.WriteFile(p, []byte(content), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("/etc/passwd", filepath.Join(dir, "link.pem")); err != nil {
		t.Fatal(err)
	}
	store := bustest.NewMemStore()
	for n := range 300 {
		if _, err := store.Put(t.Context(), fmt.Sprintf("app.a%d", n),
			bytes.Repeat([]byte{byte(n)}, n*50)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := store.Delete(t.Context(), "app.a3"); err != nil {
		t.Fatal(err)
	}
	return Source{Manifest: Manifest{Role: "root", Name: "root", Root: "r1", Version: "v1", Made: noon}, Dir: dir,
		Store: store}
}

// busKeys are those of a server that has run once.
func busKeys(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := busserver.WriteSnapshot(t.Context(), dir, snapshotOf(t, bustest.NewMemStore()), quiet); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(filepath.Join(dir, "bus.json"))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

var quiet = slog.New(slog.DiscardHandler)

func snapshotOf(t *testing.T, s bus.Store) bus.Snapshot {
	t.Helper()
	c, err := s.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func archive(t *testing.T, s Source) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := Write(t.Context(), &b, s); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestAnArchiveHoldsWhatTheRoleIs(t *testing.T) {
	s := source(t)
	data := archive(t, s)
	a, err := Read(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	var paths []string
	for _, f := range a.Files {
		paths = append(paths, f.Path)
	}
	if got := strings.Join(paths, " "); got != "authority.pem bus/bus.json context.yaml identity/deep.pem key.pem" {
		t.Errorf("files: %s", got)
	}
	if !reflect.DeepEqual(a.Store, snapshotOf(t, s.Store)) || a.Entries != 300 || a.Role != "root" ||
		!a.Made.Equal(noon) {
		t.Errorf("the store has %d entries; %+v", len(a.Store.Entries), a.Manifest)
	}
	if a.At != s.Store.Timeline().At(s.Store.Rev()) {
		t.Errorf("it is of %v", a.At)
	}
}

func TestSeals(t *testing.T) {
	id, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	other, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	pass := Seal{Passphrase: "correct horse", Work: 10}
	to := Seal{Recipients: []string{id.Recipient().String()}}
	for name, tc := range map[string]struct {
		seal Seal
		keys Keys
		want string // code of the problem
	}{
		"plain":                            {Seal{}, Keys{}, ""},
		"plain, with keys":                 {Seal{}, Keys{Passphrase: "x"}, ""},
		"passphrase":                       {pass, Keys{Passphrase: "correct horse"}, ""},
		"wrong passphrase":                 {pass, Keys{Passphrase: "wrong"}, "wrong-passphrase"},
		"no passphrase":                    {pass, Keys{}, "backup-sealed"},
		"recipient":                        {to, Keys{Identities: "# mine\n" + id.String() + "\n"}, ""},
		"another's":                        {to, Keys{Identities: other.String()}, "wrong-passphrase"},
		"a passphrase where there is none": {to, Keys{Passphrase: "x"}, "wrong-passphrase"},
		"no identity":                      {to, Keys{Identities: "rubbish"}, "bad-identity"},
		"no recipient":                     {Seal{Recipients: []string{"age1x"}}, Keys{}, "bad-recipient"},
	} {
		var b bytes.Buffer
		w, err := tc.seal.Writer(&b)
		var out []byte
		sealed := false
		if err == nil {
			_, werr := io.WriteString(w, "\x1f\x8b and the rest")
			if err = errors.Join(werr, w.Close()); err != nil {
				t.Fatal(err)
			}
			var r io.Reader
			if r, sealed, err = Unseal(&b, tc.keys); err == nil {
				if out, err = io.ReadAll(r); err != nil {
					t.Fatal(err)
				}
			}
		}
		if got := code(err); got != tc.want || (err == nil && string(out) != "\x1f\x8b and the rest") {
			t.Errorf("%s: %q, %v, want %q", name, out, err, tc.want)
		}
		if err == nil && sealed != (tc.seal.Passphrase != "" || tc.seal.Recipients != nil) {
			t.Errorf("%s: sealed %v", name, sealed)
		}
	}
}

// code of a problem with a remedy, "" for no error.
func code(err error) string {
	var p *wire.Problem
	switch {
	case err == nil:
		return ""
	case !errors.As(err, &p) || p.Remedy == "" || p.Detail == "":
		return fmt.Sprintf("no problem with a remedy: %v", err)
	}
	return p.Code
}

// Wherever a file ends and whichever byte of it is another: nothing is read.
func TestDamageIsFound(t *testing.T) {
	s := source(t)
	plainFile := archive(t, s)
	var sealed bytes.Buffer
	pass := Seal{Passphrase: "p", Work: 10}
	w, err := pass.Writer(&sealed)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(plainFile); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	var last Archive // as it was read last
	open := func(data []byte) error {
		r, _, err := Unseal(bytes.NewReader(data), Keys{Passphrase: "p"})
		if err != nil {
			return err
		}
		last, err = Read(r)
		return err
	}
	for name, data := range map[string][]byte{"plain": plainFile, "sealed": sealed.Bytes()} {
		if err := open(data); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		good := last
		step := max(1, len(data)/40)
		for n := 0; n < len(data); n += step {
			if err := open(data[:n]); code(err) == "" {
				t.Errorf("%s: of %d bytes %d are enough", name, len(data), n)
			}
			// The sealed one costs a passphrase each time.
			if bad := bytes.Clone(data); n%(3*step) == 0 || name == "plain" {
				bad[n] ^= 0x40
				// Bits that fill the last byte of what is compressed say nothing.
				if err := open(bad); err == nil && !harmless(name, n, len(data)) && !reflect.DeepEqual(last, good) {
					t.Errorf("%s: byte %d may be another", name, n)
				}
			}
		}
		if err := open(append(bytes.Clone(data), "more"...)); err == nil && name == "sealed" {
			t.Errorf("%s: something may follow", name)
		}
	}
}

// harmless are the bytes in the head of gzip that say when and where it was made,
// and the last one before its sum, which need not be used to its last bit.
func harmless(name string, n, size int) bool { return name == "plain" && (n < 10 || n == size-9) }

// remade is an archive with other entries.
func remade(t *testing.T, data []byte, change func(name string, content []byte) (string, []byte)) []byte {
	t.Helper()
	zip, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	in := tar.NewReader(zip)
	var b bytes.Buffer
	out := gzip.NewWriter(&b)
	w := &writer{tar: tar.NewWriter(out)}
	for {
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
		name := h.Name
		if name == sumsName {
			content = bytes.Clone(w.sums.Bytes())
		}
		if name, content = change(name, content); name != "" {
			w.add(name, content)
		}
	}
	if err := errors.Join(w.err, w.tar.Close(), out.Close()); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestArchivesThatAreRefused(t *testing.T) {
	data := archive(t, source(t))
	manifest := func(f func(m *Manifest)) func(string, []byte) (string, []byte) {
		return func(name string, content []byte) (string, []byte) {
			if name != manifestName {
				return name, content
			}
			var m Manifest
			if err := json.Unmarshal(content, &m); err != nil {
				t.Fatal(err)
			}
			f(&m)
			b, err := json.Marshal(m)
			if err != nil {
				t.Fatal(err)
			}
			return name, b
		}
	}
	rename := func(from, to string) func(string, []byte) (string, []byte) {
		return func(name string, content []byte) (string, []byte) {
			if name == from {
				name = to
			}
			return name, content
		}
	}
	for name, tc := range map[string]struct {
		change func(string, []byte) (string, []byte)
		want   string
	}{
		"the same":       {rename("", ""), ""},
		"newer":          {manifest(func(m *Manifest) { m.Format = 9 }), "backup-newer"},
		"something else": {manifest(func(m *Manifest) { m.Kind = "x" }), "not-a-backup"},
		"another role":   {manifest(func(m *Manifest) { m.Role = "worker" }), "backup-damaged"},
		"a path as name": {manifest(func(m *Manifest) { m.Role, m.Name = "cluster", "x/../../../etc/x" }),
			"backup-damaged"},
		"another number": {manifest(func(m *Manifest) { m.Entries++ }), "backup-damaged"},
		"outside":        {rename("files/key.pem", "files/../key.pem"), "backup-damaged"},
		"absolute":       {rename("files/key.pem", "files//etc/passwd"), "backup-damaged"},
		"unknown":        {rename("files/key.pem", "keys/key.pem"), "backup-damaged"},
		"no manifest":    {rename(manifestName, ""), "backup-damaged"},
		"no sums":        {rename(sumsName, ""), "backup-truncated"},
		"a record less":  {rename("store/000002", ""), "backup-damaged"},
		"no store at all": {func(n string, c []byte) (string, []byte) {
			return map[bool]string{true: "", false: n}[strings.HasPrefix(n, storePrefix)], c
		}, "backup-damaged"},
		"other sums": {func(n string, c []byte) (string, []byte) {
			if n == sumsName {
				c[3] ^= 1
			}
			return n, c
		}, "backup-damaged"},
	} {
		if _, err := Read(bytes.NewReader(remade(t, data, tc.change))); code(err) != tc.want {
			t.Errorf("%s: %v, want %q", name, err, tc.want)
		}
	}
	if _, _, err := Unseal(strings.NewReader("PK\x03\x04 something else"), Keys{}); code(err) != "not-a-backup" {
		t.Errorf("another file: %v", err)
	}
	if _, _, err := Unseal(strings.NewReader(""), Keys{}); code(err) != "not-a-backup" {
		t.Errorf("an empty file: %v", err)
	}
}

func TestRestoreMakesADataDirectory(t *testing.T) {
	s := source(t)
	a, err := Read(bytes.NewReader(archive(t, s)))
	if err != nil {
		t.Fatal(err)
	}
	for name, prepare := range map[string]func(dir string) error{
		"not there": func(string) error { return nil },
		"empty":     func(dir string) error { return os.MkdirAll(dir, 0o700) },
	} {
		dir := filepath.Join(t.TempDir(), "deep", "data")
		if err := prepare(dir); err != nil {
			t.Fatal(err)
		}
		if err := Restore(t.Context(), dir, a, noon.Add(time.Hour), quiet); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for path, want := range map[string]string{"authority.pem": "CA KEY", "identity/deep.pem": "x"} {
			p := filepath.Join(dir, path)
			b, err := os.ReadFile(p)
			info, serr := os.Stat(p)
			if err != nil || serr != nil || string(b) != want || info.Mode().Perm() != 0o600 {
				t.Errorf("%s: %s: %q, %v, %v", name, path, b, err, info)
			}
		}
		if got := restored(t, dir); got.Made != noon || !got.At.Equal(noon.Add(time.Hour)) {
			t.Errorf("%s: the mark says %+v", name, got)
		}
		if left, err := filepath.Glob(filepath.Join(filepath.Dir(dir), ".*")); err != nil || len(left) > 0 {
			t.Errorf("%s: left: %v, %v", name, left, err)
		}
		// Not over what is there now.
		if err := Restore(t.Context(), dir, a, noon, quiet); code(err) != "data-dir-not-empty" {
			t.Errorf("%s: again: %v", name, err)
		}
		unlock, err := atomicfile.Lock(filepath.Join(dir, StoreDir, "lock"))
		if err != nil {
			t.Fatal(err)
		}
		if err := Restore(t.Context(), dir, a, noon, quiet); code(err) != "data-dir-not-empty" ||
			!strings.Contains(err.Error(), "a process works") {
			t.Errorf("%s: in use: %v", name, err)
		}
		unlock()
	}
}

// restored reads the mark of a restored store, as a process that opens it would.
func restored(t *testing.T, dir string) (m Mark) {
	t.Helper()
	c, err := busserver.ReadStore(t.Context(), filepath.Join(dir, StoreDir), quiet)
	if err != nil {
		t.Fatal(err)
	}
	list := c.List(MarkKey)
	if len(list) != 1 || len(c.List("app.")) != 299 {
		t.Fatalf("%d marks, %d applications", len(list), len(c.List("app.")))
	}
	if err := json.Unmarshal(list[0].Value, &m); err != nil {
		t.Fatal(err)
	}
	return m
}

// What cannot be finished leaves nothing.
func TestAFailedRestoreLeavesNothing(t *testing.T) {
	a, err := Read(bytes.NewReader(archive(t, source(t))))
	if err != nil {
		t.Fatal(err)
	}
	parent := t.TempDir()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	bad := a
	bad.Files = append([]File{{Path: "../out", Data: nil}}, a.Files...)
	broken := a
	broken.Files = []File{{Path: "bus/bus.json", Data: []byte("{")}}
	for name, err := range map[string]error{
		"interrupted": Restore(ended, filepath.Join(parent, "data"), a, noon, quiet),
		"outside":     Restore(t.Context(), filepath.Join(parent, "data"), bad, noon, quiet),
		"keys":        Restore(t.Context(), filepath.Join(parent, "data"), broken, noon, quiet),
	} {
		if err == nil {
			t.Errorf("%s: it was restored", name)
		}
	}
	if left, err := os.ReadDir(parent); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}
