package container

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/verge-edge/verge/internal/runtime"
	"github.com/verge-edge/verge/internal/runtime/container/containertest"
	"github.com/verge-edge/verge/internal/runtime/container/ctrd"
	"github.com/verge-edge/verge/internal/runtime/logfile"
)

func TestWhoIsUnderWhichShim(t *testing.T) {
	d := New(Options{Base: t.TempDir()})
	defer d.Close()
	of := map[string]int{}
	for i := range shareMost + 1 {
		of[d.join(fmt.Sprintf("shop.web.%d", i))]++
	}
	if len(of) != 2 {
		t.Errorf("%v", of)
	}
	other := d.join("bank.web.0")
	if of[other] > 0 {
		t.Error("two applications are under one shim")
	}
	d.part(other)
	if again := d.join("bank.web.0"); again == other {
		t.Error("a shim that may have ended is used again")
	}
	for name, n := range of {
		if n == shareMost {
			d.part(name)
			if got := d.join("shop.db.0"); got != name {
				t.Error("the place of one that has ended is not used")
			}
			d.abandon(name)
			d.part(name)
			if got := d.join("shop.db.1"); got == name {
				t.Error("a shim that has ended is used")
			}
		}
	}
	// A successor knows by the handles.
	next := New(Options{Base: t.TempDir()})
	defer next.Close()
	next.joined("shop.web.0", "one")
	next.joined("shop.web.1", "")
	if got := next.join("shop.web.2"); got != "one" {
		t.Errorf("another shim: %s", got)
	}
}

// Who shares a shim goes on when another one of them, or containerd, ends; and what ends
// while others begin spoils no start.
func TestSharedShims(t *testing.T) {
	d, c := bench(t, containertest.Config{})
	start := func(i int) runtime.Task {
		t.Helper()
		s := specOf(t, testImage, "/bin/sh", "-c", "trap 'exit 7' TERM; while :; do sleep 0.05; done")
		s.ID = fmt.Sprintf("app.web.%d", i)
		task, err := d.Start(t.Context(), s)
		if err != nil {
			t.Fatal(err)
		}
		return task
	}
	first, second, third := start(0), start(1), start(2)
	if shims, err := c.Shims(); err != nil || len(shims) != 1 {
		t.Fatalf("%v, %v", shims, err)
	}
	end(t, first) // whose start began the shim
	c.Kill()
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	// The successor of the engine finds them, and puts another one under their shim.
	old := d
	d = driver(t, c)
	d.mark, d.groups = old.mark, old.groups
	for _, task := range []runtime.Task{second, third} {
		if _, err := d.Adopt(t.Context(), specOf(t, testImage), task.Handle()); err != nil {
			t.Fatal(err)
		}
	}
	fourth := start(3)
	shims, err := c.Shims()
	if err != nil || len(shims) != 1 {
		t.Errorf("%v, %v", shims, err)
	}
	if err := second.Signal("TERM"); err != nil {
		t.Fatal(err)
	}
	if e := exitOf(t, second); e.Code != 7 {
		t.Errorf("%+v", e)
	}
	for _, task := range []runtime.Task{third, fourth} {
		if _, err := os.Stat(fmt.Sprintf("/proc/%d", task.Handle().PID)); err != nil {
			t.Errorf("another one ended: %v", err)
		}
	}
	// With its shim containerd ends what was under it: all of them can be started anew.
	for _, pid := range shims {
		if err := unix.Kill(pid, unix.SIGKILL); err != nil {
			t.Fatal(err)
		}
	}
	for _, task := range []runtime.Task{third, fourth} {
		if e := exitOf(t, task); !e.Unknown {
			t.Errorf("%+v", e)
		}
	}
	for _, task := range []runtime.Task{second, third, fourth} {
		if err := task.Cleanup(); err != nil {
			t.Error(err)
		}
	}
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			for range 5 {
				s := specOf(t, testImage, "/bin/sh", "-c", "echo well")
				s.ID = fmt.Sprintf("app.web.%d", g)
				task, err := d.Start(t.Context(), s)
				if err != nil {
					t.Error(err)
					return
				}
				e, err := task.Wait(t.Context())
				if err == nil {
					err = task.Cleanup()
				}
				log, lerr := logfile.Read(s.LogDir, 0, 0)
				if err != nil || lerr != nil || e.Code != 0 || e.Unknown || !strings.HasPrefix(string(log.Data), "well\n") {
					t.Errorf("%+v, %q, %v, %v", e, log.Data, err, lerr)
				}
			}
		})
	}
	wg.Wait()
	empty(t, c)
}

// A shim that containerd was told of and cannot be connected to, since another one has
// removed its socket, is ended; one that has a container is not.
func TestShimForNothingIsEnded(t *testing.T) {
	d, c := bench(t, containertest.Config{})
	task, err := d.Start(t.Context(), specOf(t, testImage, "sleep", "100000"))
	if err != nil {
		t.Fatal(err)
	}
	used, err := c.Shims()
	if err != nil || len(used) != 1 {
		t.Fatalf("%v, %v", used, err)
	}
	begin := func(id string) {
		t.Helper()
		cmd := exec.Command("containerd-shim-runc-v2", "-namespace", ctrd.Namespace, "-id", id, "-address", c.Address, "start") //nolint:gosec,noctx // as containerd does
		cmd.Dir = t.TempDir()
		cmd.Env = append(os.Environ(), "TTRPC_ADDRESS="+c.Address+".ttrpc", "XDG_RUNTIME_DIR="+cmd.Dir)
		if err := os.WriteFile(cmd.Dir+"/config.json", []byte("{}"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := unix.Mkfifo(cmd.Dir+"/log", 0o600); err != nil {
			t.Fatal(err)
		}
		log, err := os.OpenFile(cmd.Dir+"/log", os.O_RDWR, 0) // without a reader it does not begin
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = log.Close() })
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	begin("one-of-nobody")
	if shims, err := c.Shims(); err != nil || len(shims) != 2 {
		t.Fatalf("%v, %v", shims, err)
	}
	d.seekOrphans()
	begin("another-of-nobody")
	d.seekOrphans() // while it waits whether the first one stays without any process
	eventually(t, "those of nobody are gone", func() bool {
		shims, err := c.Shims()
		return err == nil && slices.Equal(shims, used)
	})
	end(t, task)
	empty(t, c)
}
