package runtimetest

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/verge-edge/verge/internal/runtime"
	"github.com/verge-edge/verge/internal/wire"
)

func testExitCodes(t *testing.T, s Suite) {
	d := s.driver(t, t.TempDir())
	for _, c := range []struct {
		name, script string
		want         wire.Exit
	}{
		{"success", "exit 0", wire.Exit{}},
		{"failure", "exit 7", wire.Exit{Code: 7}},
		{"largest", "exit 255", wire.Exit{Code: 255}},
		{"terminated", "kill -TERM $$", wire.Exit{Code: 143, Signal: "TERM"}},
		{"killed, not by the kernel", "kill -KILL $$", wire.Exit{Code: 137, Signal: "KILL"}},
		{"like a signal", "exit 143", wire.Exit{Code: 143}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if s.contained() && (strings.HasPrefix(c.script, "kill") || c.want.Code == 143) {
				// The first process cannot signal itself, and 143 is as good as TERM.
				c.script, c.want = "exit 143", wire.Exit{Code: 143, Signal: "TERM"}
			}
			sp := shell(s.spec(t, ""), c.script)
			sp.Attempt = 3
			task := start(t, d, sp)
			got := wait(t, task)
			if got.At.IsZero() {
				t.Error("no time of the end")
			}
			c.want.Attempt, c.want.At = 3, got.At
			if got != c.want {
				t.Errorf("exit %+v, want %+v", got, c.want)
			}
			cleanup(t, task)
			if again := wait(t, task); again != got {
				t.Errorf("after Cleanup Wait says %+v", again)
			}
			if err := task.Signal("TERM"); !errors.Is(err, runtime.ErrGone) {
				t.Errorf("signal after the end: %v", err)
			}
		})
	}
}

func testWaitMany(t *testing.T, s Suite) {
	d := s.driver(t, t.TempDir())
	task := start(t, d, s.spec(t, "block"))

	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := task.Wait(ctx); !errors.Is(err, context.Canceled) {
		t.Fatalf("Wait with a done context: %v", err)
	}
	var wg sync.WaitGroup
	exits := make([]wire.Exit, 20)
	for i := range exits {
		wg.Go(func() { exits[i], _ = task.Wait(t.Context()) })
	}
	if err := task.Signal("KILL"); err != nil {
		t.Fatal(err)
	}
	wg.Wait()
	for _, e := range exits {
		if e != exits[0] || e.Signal != "KILL" || e.OOM {
			t.Errorf("exit %+v", e)
		}
	}
}

func testEnvironment(t *testing.T, s Suite) {
	t.Setenv("VERGE_SECRET_OF_THE_ENGINE", "1")
	// What the engine inherited without close-on-exec must not reach instances.
	leak, err := syscall.Open("/dev/zero", syscall.O_RDONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(leak) //nolint:errcheck // read only
	d := s.driver(t, t.TempDir())
	sp := s.spec(t, "describe")
	sp.Command = append(sp.Command, "an argument", "")
	sp.Env = append(sp.Env, "GREETING=hello world")
	task := start(t, d, sp)
	if e := wait(t, task); e.Code != 0 {
		t.Fatalf("exit %+v: %s", e, output(t, sp))
	}
	var got description
	if err := json.Unmarshal([]byte(output(t, sp)), &got); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(got.Args, sp.Command) {
		t.Errorf("arguments %q, want %q", got.Args, sp.Command)
	}
	if s.contained() { // runc says where the home of a user is
		got.Env = slices.DeleteFunc(got.Env, func(v string) bool { return strings.HasPrefix(v, "HOME=") })
	}
	if !slices.Equal(got.Env, sp.Env) {
		t.Errorf("environment %q, want %q", got.Env, sp.Env)
	}
	if want, _ := filepath.EvalSymlinks(sp.Dir); got.Dir != want {
		t.Errorf("directory %q, want %q", got.Dir, want)
	}
	if got.Umask != 0o022 {
		t.Errorf("umask %#o", got.Umask)
	}
	if s.contained() {
		if got.PID != 1 || got.Session != 1 || len(got.Files) != 3 || got.Files[0] != os.DevNull {
			t.Errorf("pid %d, session %d, descriptors %q: want the first process, with /dev/null and two outputs", got.PID, got.Session, got.Files)
		}
		return
	}
	if got.PID != task.Handle().PID || got.Session != got.PID {
		t.Errorf("pid %d, session %d, handle %+v", got.PID, got.Session, task.Handle())
	}
	if len(got.Files) != 3 || got.Files[0] != os.DevNull || got.Files[1] != got.Files[2] {
		t.Errorf("descriptors %q: want /dev/null, the log, the log", got.Files)
	}
}

func testStartErrors(t *testing.T, s Suite) {
	d := s.driver(t, t.TempDir())
	dir := t.TempDir()
	file := func(name, content string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	plain := file("plain", "#!/bin/sh\n", 0o644)
	garbage := file("garbage", "\x00\x01\x02", 0o755)
	orphan := file("orphan", "#!/does/not/exist\n", 0o755)
	file("works", "#!/bin/sh\nexit 5\n", 0o755)
	for _, c := range []struct {
		name    string
		command []string
		change  func(*runtime.Spec)
		want    []string // in the message
	}{
		{"not in PATH", []string{"no-such-program"}, nil, []string{"command not found", `"no-such-program"`, "PATH=/usr/bin:/bin"}},
		{"no such path", []string{"/no/such/program"}, nil, []string{"command not found", "/no/such/program"}},
		{"not beneath Dir", []string{"./absent"}, nil, []string{"command not found", "./absent", dir}},
		{"a directory", []string{dir}, nil, []string{"is a directory"}},
		{"not executable", []string{plain}, nil, []string{"not executable", "-rw-r--r--"}},
		{"not executable in PATH", []string{"plain"}, func(s *runtime.Spec) { s.Env = []string{"PATH=" + dir} },
			[]string{"not executable", plain}},
		{"format", []string{garbage}, nil, []string{"cannot execute", "neither a program for this machine"}},
		{"interpreter", []string{orphan}, nil, []string{"/does/not/exist", "first line"}},
		{"no directory", []string{"/bin/sh"}, func(s *runtime.Spec) { s.Dir = dir + "/absent" },
			[]string{"working directory", dir + "/absent"}},
		{"directory is a file", []string{"/bin/sh"}, func(s *runtime.Spec) { s.Dir = plain }, []string{"not a directory"}},
		{"nothing", nil, nil, []string{"no command"}},
		{"NUL", []string{"/bin/sh", "a\x00b"}, nil, []string{"NUL"}},
		{"too long", []string{"/bin/sh", strings.Repeat("x", 4<<20)}, nil, []string{"too long"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			sp := s.spec(t, "")
			sp.Command, sp.Dir = c.command, dir
			if c.change != nil {
				c.change(&sp)
			}
			if s.contained() { // which has other files, and who starts it other words
				if c.name != "not in PATH" && c.name != "no such path" && c.name != "NUL" {
					t.Skip("its own test has what is wrong with a container")
				}
				c.want = c.want[:1]
			}
			task, err := d.Start(t.Context(), sp)
			if err == nil {
				cleanup(t, task)
				t.Fatal("started")
			}
			for _, w := range c.want {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("%q does not say %q", err, w)
				}
			}
		})
	}
	t.Run("beneath Dir", func(t *testing.T) {
		if s.contained() {
			t.Skip("its own test has what is wrong with a container")
		}
		for _, command := range []string{"./works", "works"} {
			sp := s.spec(t, "")
			sp.Command, sp.Dir, sp.Env = []string{command}, dir, []string{"PATH=/nowhere:."}
			if e := wait(t, start(t, d, sp)); e.Code != 5 {
				t.Errorf("%s: exit %+v", command, e)
			}
		}
	})
	t.Run("done context", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := d.Start(ctx, s.spec(t, "block")); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
	})
}

func testSignals(t *testing.T, s Suite) {
	d := s.driver(t, t.TempDir())
	sp := shell(s.spec(t, ""), `trap 'echo usr1' USR1; trap 'exit 4' TERM; echo ready; while :; do sleep 0.02; done`)
	task := start(t, d, sp)
	waitOutput(t, sp, 1)
	if err := task.Signal("NONSENSE"); err == nil || !strings.Contains(err.Error(), "NONSENSE") {
		t.Errorf("unknown signal: %v", err)
	}
	if err := task.Signal("USR1"); err != nil {
		t.Fatal(err)
	}
	if got := waitOutput(t, sp, 2); got[1] != "usr1" {
		t.Errorf("output %q", got)
	}
	if err := task.Signal("TERM"); err != nil {
		t.Fatal(err)
	}
	if e := wait(t, task); e.Code != 4 || e.Signal != "" {
		t.Errorf("exit %+v", e)
	}
}
