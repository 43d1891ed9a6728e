package volume

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func fill(t *testing.T, dir string) {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.MkdirAll(filepath.Join(dir, "a/deep/er"), 0o750))
	must(os.Mkdir(filepath.Join(dir, "closed"), 0o500))
	must(os.WriteFile(filepath.Join(dir, "a/one"), bytes.Repeat([]byte("x"), 300_000), 0o640))
	must(os.WriteFile(filepath.Join(dir, "empty"), nil, 0o400))
	must(os.WriteFile(filepath.Join(dir, strings.Repeat("long", 50)), []byte("long"), 0o600))
	must(os.Link(filepath.Join(dir, "a/one"), filepath.Join(dir, "z-linked")))
	must(os.Symlink("../../outside", filepath.Join(dir, "a/out")))
	must(os.Symlink("/etc/passwd", filepath.Join(dir, "abs")))
	must(os.Chmod(filepath.Join(dir, "a/one"), 0o640|os.ModeSetgid))
	old := time.Unix(1_000_000_000, 123456789)
	must(os.Chtimes(filepath.Join(dir, "a/one"), old, old))
	if os.Geteuid() == 0 {
		must(os.Lchown(filepath.Join(dir, "empty"), 1234, 4321))
		must(os.Lchown(filepath.Join(dir, "abs"), 1234, 4321))
		must(os.Lchown(filepath.Join(dir, "a"), 1234, 4321))
	}
	must(os.Chtimes(filepath.Join(dir, "a"), old, old))
	ln, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", filepath.Join(dir, "a", "s"))
	must(err)
	t.Cleanup(func() { _ = ln.Close() })
}

func packed(t *testing.T, dir string) ([]byte, Counts) {
	t.Helper()
	var b bytes.Buffer
	n, err := Pack(t.Context(), &b, dir)
	if err != nil {
		t.Fatal(err)
	}
	return b.Bytes(), n
}

// What is unpacked packs to the same bytes.
func TestThereAndBack(t *testing.T) {
	from, to := t.TempDir(), t.TempDir()
	fill(t, from)
	stream, n := packed(t, from)
	if n.Files != 6 || n.Bytes != 300_004 {
		t.Errorf("%+v", n)
	}
	if err := Unpack(t.Context(), bytes.NewReader(stream), to); err != nil {
		t.Fatal(err)
	}
	again, _ := packed(t, to)
	if sha256.Sum256(stream) != sha256.Sum256(again) {
		t.Errorf("another hash: %d and %d bytes", len(stream), len(again))
	}
	one, err := os.Stat(filepath.Join(to, "a/one"))
	if err != nil {
		t.Fatal(err)
	}
	if z, err := os.Stat(filepath.Join(to, "z-linked")); err != nil || !os.SameFile(one, z) || one.Mode() != 0o640|os.ModeSetgid || one.ModTime().Unix() != 1_000_000_000 {
		t.Errorf("%v %v, %v", one.Mode(), one.ModTime(), err)
	}
	// Any difference is another hash.
	for what, change := range map[string]func() error{
		"content": func() error {
			return os.WriteFile(filepath.Join(to, "a/one"), bytes.Repeat([]byte("y"), 300_000), 0o640)
		},
		"mode": func() error { return os.Chmod(filepath.Join(to, "empty"), 0o600) },
		"link": func() error { return os.Rename(filepath.Join(to, "abs"), filepath.Join(to, "abs2")) },
	} {
		before, _ := packed(t, to)
		if err := change(); err != nil {
			t.Fatal(err)
		}
		if after, _ := packed(t, to); bytes.Equal(before, after) {
			t.Errorf("%s: the same", what)
		}
	}
}

// A stream that leads out of the directory, or is cut off, is an error and writes
// nothing outside.
func TestUnpackRefuses(t *testing.T) {
	base := t.TempDir()
	make := func(headers ...*tar.Header) []byte {
		var b bytes.Buffer
		w := tar.NewWriter(&b)
		for _, h := range headers {
			h.Mode, h.Uid, h.Gid = 0o600, os.Geteuid(), os.Getegid()
			if err := w.WriteHeader(h); err != nil {
				t.Fatal(err)
			}
			if _, err := w.Write([]byte("data")[:h.Size]); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	good := t.TempDir()
	fill(t, good)
	whole, _ := packed(t, good)
	for name, stream := range map[string][]byte{
		"above":        make(&tar.Header{Name: "../x", Typeflag: tar.TypeReg, Size: 4}),
		"absolute":     make(&tar.Header{Name: "/tmp/x-of-verge", Typeflag: tar.TypeReg, Size: 4}),
		"by a link":    make(&tar.Header{Name: "l", Typeflag: tar.TypeSymlink, Linkname: ".."}, &tar.Header{Name: "l/x", Typeflag: tar.TypeReg, Size: 4}),
		"another's":    make(&tar.Header{Name: "l", Typeflag: tar.TypeLink, Linkname: "../secret"}),
		"a device":     make(&tar.Header{Name: "null", Typeflag: tar.TypeChar, Devmajor: 1, Devminor: 3}),
		"cut off":      whole[:len(whole)/2],
		"something":    []byte(strings.Repeat("no archive ", 100)),
		"a file twice": make(&tar.Header{Name: "x", Typeflag: tar.TypeReg, Size: 4}, &tar.Header{Name: "x", Typeflag: tar.TypeReg, Size: 4}),
	} {
		if err := os.WriteFile(filepath.Join(base, "secret"), []byte("secret"), 0o600); err != nil {
			t.Fatal(err)
		}
		dir := filepath.Join(base, "into")
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := Unpack(t.Context(), bytes.NewReader(stream), dir); err == nil {
			t.Errorf("%s: unpacked", name)
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
		if left, err := os.ReadDir(base); err != nil || len(left) != 1 {
			t.Errorf("%s: %v, %v", name, left, err)
		}
	}
}
