package wasm

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/runtime/wasm/modulestore"
)

// codeOf are the files with machine code of all modules in a driver's directory.
func codeOf(t *testing.T, d *Driver) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(d.library.disk.Dir, "*", modulestore.CodeDir, "*", "*"))
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func damage(t *testing.T, path string) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	b[len(b)/2] ^= 0xff
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestAModuleIsCompiledOnce(t *testing.T) {
	dir := t.TempDir()
	d := New(Options{Dir: dir})
	one, two := startTask(t, d, specOf(t, testModule(t, "hello"))), startTask(t, d, specOf(t, testModule(t, "hello")))
	for _, x := range []*task{one, two} {
		if resp, body := ask(t, x, "GET", "/", ""); resp.StatusCode != 200 || body != "hello\n" {
			t.Fatalf("%s: %s", resp.Status, body)
		}
	}
	if n := d.library.inMemory(); n != 1 {
		t.Errorf("%d modules in memory, want one for both", n)
	}
	files := codeOf(t, d)
	if len(files) != 1 {
		t.Fatalf("machine code: %v", files)
	}
	before, err := os.Stat(files[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	// Another engine finds it on disk.
	d = newDriver(t, Options{Dir: dir})
	steps := ""
	s := specOf(t, testModule(t, "hello"))
	if err := d.Fetch(t.Context(), s, func(step string) { steps += step }); err != nil || steps != "" {
		t.Errorf("%v, and it did %q again", err, steps)
	}
	if resp, _ := ask(t, startTask(t, d, s), "GET", "/", ""); resp.StatusCode != 200 {
		t.Errorf("%s", resp.Status)
	}
	if after, err := os.Stat(files[0]); err != nil || !after.ModTime().Equal(before.ModTime()) {
		t.Errorf("the machine code was written again: %v", err)
	}
}

func TestDamageIsRepaired(t *testing.T) {
	for _, c := range []struct {
		name string
		what func(t *testing.T, d *Driver)
	}{
		{"machine code", func(t *testing.T, d *Driver) { damage(t, codeOf(t, d)[0]) }},
		{"cut off", func(t *testing.T, d *Driver) {
			if err := os.Truncate(codeOf(t, d)[0], 20); err != nil {
				t.Fatal(err)
			}
		}},
		{"of another version", func(t *testing.T, d *Driver) {
			old := filepath.Dir(codeOf(t, d)[0])
			if err := os.Rename(old, old+"-older"); err != nil {
				t.Fatal(err)
			}
		}},
		{"module", func(t *testing.T, d *Driver) {
			files, _ := filepath.Glob(filepath.Join(d.library.disk.Dir, "*", "module.wasm"))
			damage(t, files[0])
		}},
		{"seal", func(t *testing.T, d *Driver) {
			files, _ := filepath.Glob(filepath.Join(d.library.disk.Dir, "*", "seal.json"))
			damage(t, files[0])
		}},
		{"all gone", func(t *testing.T, d *Driver) {
			if err := os.RemoveAll(d.library.disk.Dir); err != nil {
				t.Fatal(err)
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := newDriver(t, Options{})
			x := startTask(t, d, specOf(t, testModule(t, "hello")))
			if resp, _ := ask(t, x, "GET", "/", ""); resp.StatusCode != 200 {
				t.Fatal(resp.Status)
			}
			unloadAll(t, d)
			c.what(t, d)
			for range 2 {
				if resp, body := ask(t, x, "GET", "/", ""); resp.StatusCode != 200 || body != "hello\n" {
					t.Fatalf("%s: %s", resp.Status, body)
				}
				unloadAll(t, d)
			}
			s, err := d.library.disk.Seal(x.digest)
			if err != nil || len(s.Code) != 1 || !d.library.disk.Code(x.digest, s) {
				t.Errorf("after that its files are %+v, %v", s, err)
			}
		})
	}
}

// A copy that cannot be read for a moment is no damage: where it came from may be gone.
func TestACopyThatCannotBeRead(t *testing.T) {
	for _, name := range []string{"seal.json", "module.wasm"} {
		d := newDriver(t, Options{})
		from := testModule(t, "hello")
		x := startTask(t, d, specOf(t, from))
		if resp, _ := ask(t, x, "GET", "/", ""); resp.StatusCode != 200 {
			t.Fatal(resp.Status)
		}
		unloadAll(t, d)
		path, away := d.library.disk.Path(x.digest, name), filepath.Join(t.TempDir(), "away")
		if err := os.Rename(path, away); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(path, path); err != nil { // it leads nowhere, as for who is out of descriptors
			t.Fatal(err)
		}
		if _, _, err := d.library.disk.Module(x.digest); err == nil || errors.Is(err, modulestore.ErrDamaged) {
			t.Errorf("%s cannot be read: %v", name, err)
		}
		if err := errors.Join(os.Remove(path), os.Rename(away, path)); err != nil {
			t.Fatal(err)
		}
		if _, _, err := d.library.disk.Module(x.digest); err != nil {
			t.Errorf("%s can be read again: %v", name, err)
		}
	}
}

// unloadAll drops all modules from memory, once nobody uses them: an answer is there
// before that.
func unloadAll(t *testing.T, d *Driver) {
	t.Helper()
	eventually(t, "no module in memory", func() bool {
		l := d.library
		l.mu.Lock()
		defer l.mu.Unlock()
		for range l.loaded {
			l.evictLocked()
		}
		return len(l.loaded) == 0
	})
}

// Where a request waits for a task its module is loaded by the start, else by the request.
func TestAModuleIsExpected(t *testing.T) {
	d := newDriver(t, Options{})
	s := specOf(t, testModule(t, "hello"))
	startTask(t, d, s) // compiles it
	unloadAll(t, d)
	s.Wasm.Listen = freeAddr(t)
	startTask(t, d, s)
	if n := d.library.inMemory(); n != 0 {
		t.Errorf("%d modules in memory that nobody waits for", n)
	}
	s.Wasm.Soon, s.Wasm.Listen = true, freeAddr(t)
	x := startTask(t, d, s)
	if n := d.library.inMemory(); n != 1 {
		t.Errorf("%d modules in memory or on their way", n)
	}
	if resp, _ := ask(t, x, "GET", "/", ""); resp.StatusCode != 200 {
		t.Error(resp.Status)
	}
}

func TestIdleModulesLeaveMemory(t *testing.T) {
	d := newDriver(t, Options{IdleAfter: 50 * time.Millisecond})
	x := startTask(t, d, specOf(t, testModule(t, "handler")))
	if resp, _ := ask(t, x, "POST", "/", "e"); resp.StatusCode != 200 {
		t.Fatal(resp.Status)
	}
	eventually(t, "no module in memory", func() bool { return loadedModules(d) == 0 })
	if u := x.Usage(); u.Memory != 0 {
		t.Errorf("%d bytes of instances are left", u.Memory)
	}
	if resp, body := ask(t, x, "POST", "/", "e"); resp.StatusCode != 200 || !strings.HasPrefix(body, "1\n") {
		t.Errorf("it comes back as new: %s: %.20s", resp.Status, body)
	}
}

func TestMemoryIsBoundedByBytes(t *testing.T) {
	d := newDriver(t, Options{MaxIdle: 1, IdleAfter: time.Hour})
	for _, name := range []string{"hello", "echo"} {
		x := startTask(t, d, specOf(t, testModule(t, name)))
		if resp, _ := ask(t, x, "GET", "/", ""); resp.StatusCode != 200 {
			t.Fatal(resp.Status)
		}
	}
	eventually(t, "no module in memory that is not used", func() bool { return loadedModules(d) == 0 })
}

func TestDiskIsBoundedByBytes(t *testing.T) {
	d := newDriver(t, Options{MaxDisk: 1})
	s := specOf(t, testModule(t, "hello"))
	x := startTask(t, d, s)
	startTask(t, d, specOf(t, testModule(t, "echo")))
	if got := len(codeOf(t, d)); got != 2 {
		t.Fatalf("%d modules on disk; those of tasks stay", got)
	}
	if err := x.Cleanup(); err != nil {
		t.Fatal(err)
	}
	startTask(t, d, specOf(t, testModule(t, "handler"))) // the next that is compiled makes room
	if got := len(codeOf(t, d)); got != 2 {
		t.Errorf("%d modules on disk, want those of the two tasks", got)
	}
	if resp, _ := ask(t, startTask(t, d, s), "GET", "/", ""); resp.StatusCode != 200 {
		t.Error(resp.Status)
	}
}

// What modules take on disk is counted as they come, without looking at all of them.
func TestModulesOnDiskAreCounted(t *testing.T) {
	d := newDriver(t, Options{})
	var want int64
	for _, name := range []string{"hello", "echo", "handler"} {
		want += d.library.disk.Size(startTask(t, d, specOf(t, testModule(t, name))).digest)
	}
	d.library.keeping.Lock()
	defer d.library.keeping.Unlock()
	if !d.library.counted || d.library.kept != want || want == 0 {
		t.Errorf("counted %d of %d bytes", d.library.kept, want)
	}
}
