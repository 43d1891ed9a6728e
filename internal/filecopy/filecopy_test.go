package filecopy

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

var then = time.Date(2024, 5, 6, 7, 8, 9, 0, time.UTC)

// scene is a directory with something beside it that must not be touched.
type scene struct {
	t    *testing.T
	dir  string // root is below it
	root *os.Root
}

func newScene(t *testing.T) *scene {
	t.Helper()
	s := &scene{t: t, dir: t.TempDir()}
	s.write("outside", "secret", 0o644)
	s.write("root/one", "1", 0o640)
	s.write("root/tree/two", strings.Repeat("2", 100_000), 0o755)
	s.write("root/tree/deep/er/three", "", 0o400)
	if err := os.Chmod(s.path("root/tree/deep"), 0o710); err != nil {
		t.Fatal(err)
	}
	var err error
	if s.root, err = os.OpenRoot(s.path("root")); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.root.Close() })
	return s
}

func (s *scene) path(name string) string { return filepath.Join(s.dir, name) }

func (s *scene) write(name, text string, mode fs.FileMode) {
	s.t.Helper()
	p := s.path(name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(p), 0o750), os.WriteFile(p, []byte(text), 0o600), os.Chmod(p, mode), os.Chtimes(p, then, then)); err != nil {
		s.t.Fatal(err)
	}
}

// tree says what is in the root: paths, modes, sizes.
func (s *scene) tree(at string) []string {
	s.t.Helper()
	var out []string
	err := filepath.WalkDir(s.path("root/"+at), func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		rel, _ := filepath.Rel(s.path("root/"+at), p)
		text := ""
		if info.Mode().IsRegular() {
			text = info.ModTime().UTC().Format(" 2006")
			if b, err := os.ReadFile(p); err == nil {
				text += " " + string(b[:min(len(b), 5)])
			}
		}
		out = append(out, rel+" "+info.Mode().String()+text)
		return err
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return out
}

func (s *scene) pack(name string) ([]byte, Summary) {
	s.t.Helper()
	var b bytes.Buffer
	sum, err := Pack(s.t.Context(), &b, s.root, name)
	if err != nil {
		s.t.Fatal(err)
	}
	return b.Bytes(), sum
}

func (s *scene) unpack(b []byte, t Target) error {
	t.Root = s.root
	_, err := Unpack(s.t.Context(), bytes.NewReader(b), t)
	return err
}

func TestTreesAreTheSame(t *testing.T) {
	from, to := newScene(t), newScene(t)
	b, sum := from.pack("tree")
	if sum.Files != 2 || sum.Directories != 3 || sum.Bytes != 100_000 || sum.Left != 0 {
		t.Errorf("%+v", sum)
	}
	if err := to.unpack(b, Target{Path: "copy", Name: "tree"}); err != nil {
		t.Fatal(err)
	}
	if got, want := to.tree("copy"), from.tree("tree"); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	// Into what is there now, under its name, and then once more over itself.
	for range 2 {
		if err := to.unpack(b, Target{Path: "copy", Name: "tree"}); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := to.tree("copy/tree"), from.tree("tree"); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	// What is in it alone.
	if err := os.Mkdir(to.path("root/flat"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := to.unpack(b, Target{Path: "flat", Within: true}); err != nil {
		t.Fatal(err)
	}
	if got, want := to.tree("flat")[1:], from.tree("tree")[1:]; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	// A file: by a new name, in place of another, and into a directory.
	b, _ = from.pack("one")
	for _, c := range []Target{{Path: "new", Name: "one"}, {Path: "tree/two", Name: "one"}, {Path: "flat", Name: "one"}} {
		if err := to.unpack(b, c); err != nil {
			t.Error(err)
		}
	}
	for _, name := range []string{"new", "tree/two", "flat/one"} {
		info, err := os.Stat(to.path("root/" + name))
		if err != nil || info.Mode() != 0o640 || info.Size() != 1 || !info.ModTime().Equal(then) {
			t.Errorf("%s: %v, %v", name, info, err)
		}
	}
}

// A stream that breaks off anywhere leaves whole files and no others.
func TestBrokenStream(t *testing.T) {
	from := newScene(t)
	b, _ := from.pack("tree")
	for n := 0; n < len(b)-1024; n += 1 + n/7 {
		to := newScene(t)
		if err := to.unpack(b[:n], Target{Path: "copy", Name: "tree"}); err == nil || !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Fatalf("%d bytes of %d: %v", n, len(b), err)
		}
		if _, err := os.Stat(to.path("root/copy")); err != nil {
			continue
		}
		for _, line := range to.tree("copy") {
			if strings.Contains(line, temporary) || (strings.HasPrefix(line, "two ") && !strings.HasSuffix(line, "22222")) {
				t.Errorf("%d bytes of %d left %q", n, len(b), line)
			}
		}
		if info, err := os.Stat(to.path("root/copy/two")); err == nil && info.Size() != 100_000 {
			t.Errorf("%d bytes of %d left half a file of %d", n, len(b), info.Size())
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Unpack(ctx, bytes.NewReader(b), Target{Root: from.root, Path: "x"}); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

// Links in the tree lead nowhere, neither when it is read nor when it is written to.
func TestLinksLeadNowhere(t *testing.T) {
	s := newScene(t)
	for name, to := range map[string]string{
		"root/up": "../outside", "root/abs": s.path("outside"), "root/dir": "..", "root/absdir": s.dir, "root/tree/link": "two", "root/tree/far": "../../outside",
	} {
		if err := os.Symlink(to, s.path(name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Mkfifo(s.path("root/tree/pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"up", "abs", "dir/outside", "absdir", "../outside", "tree/pipe", "none", "one/x"} {
		var b bytes.Buffer
		if _, err := Pack(t.Context(), &b, s.root, name); err == nil || bytes.Contains(b.Bytes(), []byte("secret")) {
			t.Errorf("%s was read: %v", name, err)
		}
	}
	b, sum := s.pack("tree")
	if sum.Left != 3 || bytes.Contains(b, []byte("secret")) || !strings.Contains(sum.String(), "3 links or special files were left out (tree/") {
		t.Errorf("%+v", sum)
	}
	one, _ := s.pack("one")
	for _, name := range []string{"up/x", "dir/new", "absdir/new", "../new", "dir/outside"} {
		if err := s.unpack(one, Target{Path: name, Name: "one"}); err == nil {
			t.Errorf("%s was written", name)
		}
	}
	// A link in the place of a file is replaced, not followed.
	if err := s.unpack(one, Target{Path: "tree/far", Name: "one"}); err == nil {
		if got, _ := os.ReadFile(s.path("outside")); string(got) != "secret" {
			t.Error("what is outside was written")
		}
	}
	if got, err := os.ReadFile(s.path("outside")); err != nil || string(got) != "secret" {
		t.Errorf("outside is now %q, %v", got, err)
	}
	list, _ := os.ReadDir(s.dir)
	if len(list) != 2 {
		t.Errorf("beside the root there is %v", list)
	}
}

// hostile is a stream with one entry after a directory.
func hostile(t *testing.T, h tar.Header) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, h := range []tar.Header{{Typeflag: tar.TypeDir, Name: "./", Mode: 0o755}, h} {
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
	}
	_, _ = w.Write(make([]byte, max(h.Size, 0)))
	_ = w.Flush()
	return b.Bytes()
}

func TestHostileStreams(t *testing.T) {
	for name, h := range map[string]tar.Header{
		"up":           {Typeflag: tar.TypeReg, Name: "../new", Mode: 0o600},
		"absolute":     {Typeflag: tar.TypeReg, Name: "/new", Mode: 0o600},
		"hidden up":    {Typeflag: tar.TypeReg, Name: "a/../../new", Mode: 0o600},
		"a link":       {Typeflag: tar.TypeSymlink, Name: "new", Linkname: "/etc"},
		"a hard link":  {Typeflag: tar.TypeLink, Name: "new", Linkname: "../outside"},
		"a device":     {Typeflag: tar.TypeChar, Name: "new", Mode: 0o666, Devmajor: 1, Devminor: 3},
		"a pipe":       {Typeflag: tar.TypeFifo, Name: "new", Mode: 0o666},
		"itself again": {Typeflag: tar.TypeDir, Name: "./", Mode: 0o777},
		"too long":     {Typeflag: tar.TypeReg, Name: strings.Repeat("x/", 3000) + "y", Mode: 0o600},
		"no parent":    {Typeflag: tar.TypeReg, Name: "no/where/new", Mode: 0o600},
	} {
		s := newScene(t)
		if err := s.unpack(hostile(t, h), Target{Path: "copy"}); err == nil || errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("%s: %v", name, err)
		}
		if list, _ := os.ReadDir(s.dir); len(list) != 2 {
			t.Errorf("%s: beside the root there is %v", name, list)
		}
	}
	s := newScene(t)
	suid := hostile(t, tar.Header{Typeflag: tar.TypeReg, Name: "new", Mode: 0o6755})
	_ = s.unpack(suid, Target{Path: "copy"}) // it has no end
	if info, err := os.Stat(s.path("root/copy/new")); err != nil || info.Mode() != 0o755 {
		t.Errorf("set-user-ID: %v %v", info, err)
	}
	if _, err := Unpack(t.Context(), strings.NewReader("no tar at all, but long enough to be"+strings.Repeat(" one", 300)), Target{Root: s.root, Path: "y"}); err == nil {
		t.Error("rubbish was taken")
	}
}

func TestTargetsThatAreRefused(t *testing.T) {
	s := newScene(t)
	file, _ := s.pack("one")
	dir, _ := s.pack("tree")
	for name, c := range map[string]struct {
		b    []byte
		t    Target
		says string
	}{
		"no parent":            {file, Target{Path: "no/where", Name: "x"}, "there is no no"},
		"a slash and nothing":  {file, Target{Path: "no", Name: "x", Within: true}, "there is no directory no"},
		"a slash and a file":   {file, Target{Path: "one", Name: "x", Within: true}, "one is not a directory"},
		"a tree over a file":   {dir, Target{Path: "one", Name: "x"}, "one is not a directory"},
		"a file over a tree":   {file, Target{Path: ".", Name: "tree"}, "tree is a directory"},
		"a name that leads up": {file, Target{Path: "tree", Name: ".."}, "no name of a file"},
		"no room":              {dir, Target{Path: "n", Room: func(*os.File) (int64, error) { return 99_999, nil }}, "room for 99999"},
	} {
		if err := s.unpack(c.b, c.t); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if got, _ := os.ReadFile(s.path("root/one")); string(got) != "1" {
		t.Errorf("one is %q", got)
	}
}

// What is left out is read all the same, so it counts, in one directory and in all
// together; nothing is left out unsaid.
func TestWhatIsLeftOutCounts(t *testing.T) {
	s := newScene(t)
	for d := range 2 {
		dir := s.path("root/many/" + strconv.Itoa(d))
		if err := os.MkdirAll(dir, 0o750); err != nil {
			t.Fatal(err)
		}
		for i := range 50 {
			if err := os.Symlink("x", filepath.Join(dir, strconv.Itoa(i))); err != nil {
				t.Fatal(err)
			}
		}
	}
	for most, fits := range map[int]bool{103: true, 102: false, 60: false, 50: false, 2: false} {
		sum, err := pack(t.Context(), io.Discard, s.root, "many", most)
		if fits && (err != nil || sum.Left != 100 || sum.Directories != 3) || !fits && (err == nil || !strings.Contains(err.Error(), "more than "+strconv.Itoa(most))) {
			t.Errorf("%d at most: %+v, %v", most, sum, err)
		}
	}
}

// A few bytes that say they are a file full of zeros are refused.
func TestSparseStreamsAreRefused(t *testing.T) {
	s := newScene(t)
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: "./", Mode: 0o755}); err != nil {
		t.Fatal(err)
	}
	// The library writes no sparse files, so the records are spelled another way first.
	h := &tar.Header{Typeflag: tar.TypeReg, Name: "new", Mode: 0o600, Size: 512, Format: tar.FormatPAX, PAXRecords: map[string]string{
		"ABC.sparse.major": "1", "ABC.sparse.minor": "0", "ABC.sparse.name": "new", "ABC.sparse.realsize": "1073741824",
	}}
	if err := w.WriteHeader(h); err != nil {
		t.Fatal(err)
	}
	one := make([]byte, 512)
	copy(one, "1\n1073741824\n0\n")
	if _, err := w.Write(one); err != nil {
		t.Fatal(err)
	}
	_ = w.Close()
	err := s.unpack(bytes.ReplaceAll(b.Bytes(), []byte("ABC.sparse"), []byte("GNU.sparse")), Target{Path: "copy"})
	if err == nil || !strings.Contains(err.Error(), "is sparse") {
		t.Errorf("%v", err)
	}
}

// What is copied is measured against the file system that it goes to, and reaches its
// disk before it is said to be there.
func TestRoomAndSync(t *testing.T) {
	s := newScene(t)
	b, _ := s.pack("tree")
	var asked, synced []string
	to := Target{
		Path: "copy",
		Room: func(f *os.File) (int64, error) { asked = append(asked, path.Dir(f.Name())); return 1 << 30, nil },
		Sync: func(f *os.File) error { synced = append(synced, f.Name()); return nil },
	}
	if err := s.unpack(b, to); err != nil {
		t.Fatal(err)
	}
	if len(asked) != 2 || !strings.HasSuffix(asked[0], "copy") && !strings.HasSuffix(asked[0], "copy/deep/er") {
		t.Errorf("asked for the room of %v", asked)
	}
	if len(synced) != 1 {
		t.Errorf("synced %v", synced)
	}
	to.Sync = func(*os.File) error { return errors.New("the disk is gone") }
	if err := s.unpack(b, to); err == nil || !strings.Contains(err.Error(), "the disk is gone") {
		t.Errorf("%v", err)
	}
}

// FuzzUnpack gives whatever is not a stream: it must neither panic nor leave the root.
func FuzzUnpack(f *testing.F) {
	f.Add([]byte("x"))
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	_ = w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: "../x", Size: 1})
	f.Add(b.Bytes())
	f.Fuzz(func(t *testing.T, data []byte) {
		dir := t.TempDir()
		if err := os.Mkdir(filepath.Join(dir, "root"), 0o700); err != nil {
			t.Fatal(err)
		}
		root, err := os.OpenRoot(filepath.Join(dir, "root"))
		if err != nil {
			t.Fatal(err)
		}
		defer root.Close()
		_, _ = Unpack(t.Context(), bytes.NewReader(data), Target{Root: root, Path: "to", Name: "x"}) // any answer
		if list, err := os.ReadDir(dir); err != nil || len(list) != 1 {
			t.Fatalf("beside the root: %v, %v", list, err)
		}
	})
}

func TestResolve(t *testing.T) {
	s := newScene(t)
	for name, to := range map[string]string{"abs": "/tree/deep", "up": "../../../tree", "chain": "abs/er", "loop": "loop", "gone": "/nowhere/x"} {
		if err := os.Symlink(to, s.path("root/"+name)); err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range map[string]string{
		"/": ".", "": ".", "/tree/../../../one": "one", "abs/er/three": "tree/deep/er/three", "up/two": "tree/two", "/chain": "tree/deep/er",
		"abs/..": "tree", "new": "new", "abs/new/er": "tree/deep/new/er", "gone": "nowhere/x", "gone/../x": "nowhere/../x",
	} {
		// A ".." is taken away before links are followed, as in what a user types.
		if name == "gone/../x" || name == "abs/.." {
			want = path.Clean(name)
		}
		if got, err := Resolve(s.root, name); err != nil || got != want {
			t.Errorf("%s is %s, %v; want %s", name, got, err, want)
		}
	}
	if _, err := Resolve(s.root, "loop/x"); err == nil {
		t.Error("a loop has an end")
	}
}

func TestSummaryInWords(t *testing.T) {
	for want, s := range map[string]Summary{
		"a directory with nothing in it":                                            {Directories: 1},
		"1 file, 1 directory, 3 bytes":                                              {Files: 1, Directories: 1, Bytes: 3},
		"0 files, 2 directories, 0 bytes":                                           {Directories: 2},
		"2 files, 0 directories, 5 bytes":                                           {Files: 2, Bytes: 5},
		"0 files, 1 directory, 0 bytes; 1 links or special files were left out (a)": {Directories: 1, Left: 1, Examples: []string{"a"}},
	} {
		if got := s.String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
