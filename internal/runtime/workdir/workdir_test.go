package workdir

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// scene is a working directory with something beside it that must not change.
type scene struct {
	t     *testing.T
	dir   string
	place Place
	had   []string
}

func newScene(t *testing.T) *scene {
	t.Helper()
	dir := t.TempDir()
	s := &scene{t: t, dir: dir, place: Place{Work: filepath.Join(dir, "work"), Mounts: filepath.Join(dir, "mounts and more"), MayMount: true}}
	for _, d := range []string{"work", "outside"} {
		if err := os.Mkdir(filepath.Join(dir, d), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		if err := s.place.Clear(); err != nil {
			t.Error(err)
		}
		if _, err := os.Lstat(s.place.Mounts); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s is left", s.place.Mounts)
		}
		if left := s.names("outside"); len(left) != 0 {
			t.Errorf("written outside: %v", left)
		}
	})
	return s
}

// prepare clears and prepares, as an engine does before each start.
func (s *scene) prepare(files []File, volumes []Volume) error {
	s.t.Helper()
	if err := s.place.Clear(); err != nil {
		s.t.Fatal(err)
	}
	var err error
	s.had, err = s.place.Prepare(files, volumes, s.had)
	return err
}

func (s *scene) path(name string) string { return filepath.Join(s.dir, filepath.FromSlash(name)) }

func (s *scene) names(dir string) (names []string) {
	s.t.Helper()
	entries, err := os.ReadDir(s.path(dir))
	if err != nil {
		s.t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func (s *scene) write(name, text string) {
	s.t.Helper()
	if err := os.MkdirAll(filepath.Dir(s.path(name)), 0o700); err != nil {
		s.t.Fatal(err)
	}
	if err := os.WriteFile(s.path(name), []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

func (s *scene) symlink(target, name string) {
	s.t.Helper()
	if err := os.Symlink(target, s.path(name)); err != nil {
		s.t.Fatal(err)
	}
}

// is checks content and mode of a file.
func (s *scene) is(name, text string, mode fs.FileMode) {
	s.t.Helper()
	b, err := os.ReadFile(s.path(name))
	if err != nil || string(b) != text {
		s.t.Errorf("%s: %q, %v; want %q", name, b, err, text)
		return
	}
	if st, err := os.Stat(s.path(name)); err != nil || st.Mode() != mode {
		s.t.Errorf("%s: mode %v, %v; want %v", name, st.Mode(), err, mode)
	}
}

func mustMount(t *testing.T) {
	t.Helper()
	if why := CannotMount(); why != "" {
		t.Skip("NOT TESTED: nothing can be mounted here: " + why)
	}
}

func TestFiles(t *testing.T) {
	s := newScene(t)
	files := []File{
		{Path: "app.ini", Content: []byte("a=1\n"), Mode: 0o600},
		{Path: "conf/deep/er.sh", Content: []byte("#!/bin/sh\n"), Mode: 0o755},
		{Path: "empty", Mode: 0o444},
	}
	if err := s.prepare(files, nil); err != nil {
		t.Fatal(err)
	}
	s.is("work/app.ini", "a=1\n", 0o600)
	s.is("work/conf/deep/er.sh", "#!/bin/sh\n", 0o755)
	s.is("work/empty", "", 0o444)
	if got := s.names("work"); !slices.Equal(got, []string{"app.ini", "conf", "empty"}) {
		t.Errorf("there is %v", got)
	}

	// What did not change is not written again; what the instance has changed is.
	old := time.Unix(1000, 0)
	if err := os.Chtimes(s.path("work/app.ini"), old, old); err != nil {
		t.Fatal(err)
	}
	s.write("work/conf/deep/er.sh", "changed")
	s.write("work/conf/own", "of the instance")
	if err := s.prepare(files, nil); err != nil {
		t.Fatal(err)
	}
	if st, err := os.Stat(s.path("work/app.ini")); err != nil || !st.ModTime().Equal(old) {
		t.Errorf("written again at %v, %v", st.ModTime(), err)
	}
	s.is("work/conf/deep/er.sh", "#!/bin/sh\n", 0o755)

	// Another content, another mode; and what is not wanted any more goes.
	files = []File{{Path: "app.ini", Content: []byte("a=2\n"), Mode: 0o640}, {Path: "empty/now/a/directory", Mode: 0o600}}
	if err := s.prepare(files, nil); err != nil {
		t.Fatal(err)
	}
	s.is("work/app.ini", "a=2\n", 0o640)
	s.is("work/empty/now/a/directory", "", 0o600)
	s.is("work/conf/own", "of the instance", 0o600)
	if got := s.names("work/conf"); !slices.Equal(got, []string{"own"}) {
		t.Errorf("in conf there is %v", got)
	}
	if err := s.prepare(nil, nil); err != nil {
		t.Fatal(err)
	}
	if got := s.names("work"); !slices.Equal(got, []string{"conf"}) || len(s.had) != 0 {
		t.Errorf("in the end there is %v, and %v is noted", got, s.had)
	}
}

func TestSecretFilesWithoutMounts(t *testing.T) {
	s := newScene(t)
	s.place.MayMount = false
	files := []File{{Path: "tls/key", Content: []byte("secret"), Mode: 0o400, Secret: true}}
	for range 2 {
		if err := s.prepare(files, nil); err != nil {
			t.Fatal(err)
		}
		s.is("work/tls/key", "secret", 0o400)
	}
	if err := s.prepare(nil, nil); err != nil {
		t.Fatal(err)
	}
	if got := s.names("work"); len(got) != 0 {
		t.Errorf("in the end there is %v", got)
	}
}

func TestFilesStayInside(t *testing.T) {
	s := newScene(t)
	file := func(path string) []File { return []File{{Path: path, Content: []byte("text"), Mode: 0o600}} }
	s.symlink("../outside", "work/out")
	s.symlink(s.path("outside"), "work/abs")
	s.symlink("../outside/file", "work/file")
	s.symlink("inside", "work/in")
	if err := os.Mkdir(s.path("work/inside"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"out/x", "abs/x", "abs/y/x", "../outside/x", "/x"} {
		err := s.prepare(file(path), nil)
		if err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", path, err)
		}
	}
	if err := s.prepare(file("out/x"), nil); err == nil || !strings.Contains(err.Error(), "link that leads out") {
		t.Errorf("%v", err)
	}
	// A link in place of the file is replaced and not followed; one that stays
	// inside is the instance's own affair.
	if err := s.prepare(append(file("file"), file("in/x")...), nil); err != nil {
		t.Fatal(err)
	}
	s.is("work/file", "text", 0o600)
	s.is("work/inside/x", "text", 0o600)

	// Not even to remove something.
	s.write("outside/precious", "text")
	s.had = []string{"out/precious"}
	if err := s.prepare(nil, nil); err != nil {
		t.Error(err)
	}
	s.is("outside/precious", "text", 0o600)
	if err := os.Remove(s.path("outside/precious")); err != nil {
		t.Fatal(err)
	}
	s.had = nil

	// Nor does a volume lead to somewhere else.
	if err := s.prepare(nil, []Volume{{Path: "out/data", Dir: s.path("work")}}); err == nil {
		t.Error("a volume outside")
	}
}

func TestVolumes(t *testing.T) {
	s := newScene(t)
	data := t.TempDir()
	if err := s.prepare(nil, []Volume{{Path: "var/data", Dir: data}}); err != nil {
		t.Fatal(err)
	}
	s.write("work/var/data/x", "kept")
	if b, err := os.ReadFile(filepath.Join(data, "x")); err != nil || string(b) != "kept" {
		t.Errorf("%q, %v", b, err)
	}
	if _, err := os.Lstat(s.place.Mounts); !errors.Is(err, fs.ErrNotExist) {
		t.Error("something was mounted for a link")
	}
	// Removing the working directory does not reach it.
	if err := os.RemoveAll(s.place.Work); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(s.place.Work, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := s.prepare(nil, []Volume{{Path: "var/data", Dir: data}}); err != nil {
		t.Fatal(err)
	}
	s.is("work/var/data/x", "kept", 0o600)

	// Where there is something of the instance already.
	s.write("work/mine/file", "text")
	s.write("work/plain", "text")
	for _, path := range []string{"mine", "plain"} {
		if err := s.prepare(nil, []Volume{{Path: path, Dir: data}}); err == nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "of the instance") {
			t.Errorf("%s: %v", path, err)
		}
	}
	s.is("work/mine/file", "text", 0o600)
	s.is("work/plain", "text", 0o600)
	if err := os.Mkdir(s.path("work/hollow"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := s.prepare(nil, []Volume{{Path: "hollow", Dir: data}}); err != nil {
		t.Errorf("an empty directory in its place: %v", err)
	}
	// What was a file of ours may become a volume, and the other way round.
	if err := s.prepare([]File{{Path: "turn", Mode: 0o600}}, nil); err != nil {
		t.Fatal(err)
	}
	if err := s.prepare(nil, []Volume{{Path: "turn", Dir: data}}); err != nil {
		t.Error(err)
	}
	if err := s.prepare([]File{{Path: "turn", Mode: 0o600}}, nil); err != nil {
		t.Error(err)
	}
	s.is("work/turn", "", 0o600)
}
