package engine

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/engine/state"
	"github.com/verge-edge/verge/internal/engineapi"
	"github.com/verge-edge/verge/internal/runtime/workdir"
	"github.com/verge-edge/verge/internal/wire"
)

func TestFilesAreThereAtEachStart(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		work := filepath.Join(r.dir, state.InstancesDir, web0, "work")
		is := func(name, want string) {
			t.Helper()
			if got, err := os.ReadFile(filepath.Join(work, name)); err != nil || string(got) != want {
				t.Errorf("%s: %q, %v; want %q", name, got, err, want)
			}
		}
		o := order(0, 1, 100)
		o.Spec.Env = map[string]string{"MODE": "quick"}
		o.Spec.Files = map[string]api.File{
			"conf/app.ini": {Content: "port=${PORT} mode=${MODE} on ${VERGE_WORKER} for $$5\n"},
			"old":          {Content: "x", Mode: 0o644},
		}
		r.apply(o)
		s := r.status(web0)
		want := fmt.Sprintf("port=%d mode=quick on w1 for $5\n", s.Ports["http"])
		is("conf/app.ini", want)
		// What the instance did to it does not outlive its run.
		if err := os.WriteFile(filepath.Join(work, "conf/app.ini"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		r.one(web0).end(1)
		after(time.Second)
		is("conf/app.ini", want)
		// Another program, another engine, other files.
		r.stop()
		r.start()
		next := order(0, 2, 100)
		next.Spec.Files = map[string]api.File{"conf/app.ini": {Content: "new"}}
		r.apply(next)
		after(time.Second)
		is("conf/app.ini", "new")
		if _, err := os.Stat(filepath.Join(work, "old")); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("a file that nobody wants any more: %v", err)
		}
		// What can't be put there is a failed start that says why.
		if err := os.RemoveAll(filepath.Join(work, "conf")); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(r.dir, filepath.Join(work, "conf")); err != nil {
			t.Fatal(err)
		}
		r.one(web0).end(1)
		after(150 * time.Millisecond)
		if s := r.status(web0); !strings.Contains(s.Why,
			"not started: file conf/app.ini: the instance has made a link that leads out") {
			t.Errorf("%+v", s)
		}
		if _, err := os.Lstat(filepath.Join(r.dir, "app.ini")); !errors.Is(err, os.ErrNotExist) {
			t.Error("something was written outside")
		}
	})
}

func TestNamedVolumesStay(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		o := order(0, 1, 100)
		o.Namespace = "shop-team"
		o.Spec.Volumes = []api.Volume{{Path: "var/data", Name: "data"}}
		r.apply(o)
		inside := filepath.Join(r.dir, state.InstancesDir, web0, "work", "var", "data", "x")
		if err := os.WriteFile(inside, []byte("kept"), 0o600); err != nil {
			t.Fatal(err)
		}
		r.apply()
		after(time.Minute)
		if _, err := os.Stat(filepath.Join(r.dir, state.InstancesDir, web0)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("it is not forgotten: %v", err)
		}
		o.Incarnation = 2
		r.apply(o)
		if got, err := os.ReadFile(inside); err != nil || string(got) != "kept" {
			t.Errorf("%q, %v", got, err)
		}
		if got, err := os.ReadFile(filepath.Join(r.dir, "volumes", "shop-team", web0, "data", "x")); err != nil ||
			string(got) != "kept" {
			t.Errorf("%q, %v", got, err)
		}
		// Neither another instance nor another namespace finds it.
		for _, other := range []wire.Order{order(1, 1, 100), order(0, 3, 100)} {
			other.Namespace = map[bool]string{true: "shop-team", false: "others"}[other.Ordinal == 1]
			other.Spec.Volumes = o.Spec.Volumes
			r.apply(other)
			after(time.Minute)
			if _, err := os.Stat(filepath.Join(r.dir, state.InstancesDir, other.ID, "work", "var", "data",
				"x")); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("%s of %s sees it: %v", other.ID, other.Namespace, err)
			}
		}
	})
}

func TestVolumeOutsideOfWhatIsAllowed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		srv := t.TempDir()
		if err := os.Symlink(r.dir, filepath.Join(srv, "out")); err != nil {
			t.Fatal(err)
		}
		r.config.HostPaths = []string{srv}
		r.start()
		defer func() { r.stop() }()
		o := order(0, 1, 100)
		o.Spec.Volumes = []api.Volume{{Path: "d", Host: "/etc"}}
		r.apply(o)
		if s := r.status(web0); s.Phase != wire.PhaseRefused ||
			!strings.Contains(s.Why, "/etc is not below a directory") {
			t.Errorf("%+v", s)
		}
		o.Spec.Volumes[0].Host = filepath.Join(srv, "out")
		o.Incarnation = 2
		r.apply(o)
		if s := r.status(web0); s.Phase != wire.PhasePending || !strings.Contains(s.Why, "is not below a directory") ||
			r.driver.starts(web0) != 0 {
			t.Errorf("%+v", s)
		}
	})
}

// mountsOf lists what is mounted below a worker's directory.
func mountsOf(t *testing.T, dir string) (points []string) {
	t.Helper()
	info, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(info)) {
		if f := strings.Fields(line); strings.HasPrefix(f[4], dir+"/") {
			points = append(points, f[4])
		}
	}
	return points
}

// unmountAll ends what a test has left mounted.
func unmountAll(t *testing.T, dir string) {
	t.Helper()
	for _, point := range slices.Backward(mountsOf(t, dir)) {
		if err := syscall.Unmount(point, 0); err != nil {
			t.Errorf("left mounted: %s: %v", point, err)
		}
	}
}

func TestMountsOfRealProcesses(t *testing.T) {
	if why := workdir.CannotMount(); why != "" {
		t.Skip("NOT TESTED: nothing can be mounted here: " + why)
	}
	b := newBench(t)
	o := serverOrder(t)
	o.Spec.Limits.Memory = 192 << 20
	o.Spec.Volumes = []api.Volume{
		{Path: "scratch", Tmpfs: 8 << 20},
		{Path: "shared", Name: "shared", ReadOnly: true},
	}
	b.apply(o)
	before := b.ready(0)
	if got := mountsOf(t, b.dir); len(got) != 2 {
		t.Fatalf("mounted: %v", got)
	}
	b.touch("scratch/x")
	if err := os.WriteFile(b.workFile("scratch/x"), make([]byte, 9<<20), 0o600); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("more than its size: %v", err)
	}
	if err := os.WriteFile(b.workFile("shared/x"), nil, 0o600); !errors.Is(err, syscall.EROFS) {
		t.Errorf("read-only: %v", err)
	}
	// They last as long as the process, whatever becomes of the engine.
	b.kill()
	b.start()
	if s := b.ready(0); s.PID != before.PID || len(mountsOf(t, b.dir)) != 2 {
		t.Errorf("adopted: %+v with %v", s, mountsOf(t, b.dir))
	}
	b.touch("scratch/y")
	// An instance that ends while there is no engine leaves nothing mounted.
	b.kill()
	if err := syscall.Kill(before.PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	b.until("it has ended", func() bool { return !alive(before.PID) })
	b.start()
	after := b.ready(before.PID)
	if got := mountsOf(t, b.dir); len(got) != 2 {
		t.Errorf("started again: %v", got)
	}
	if _, err := os.Stat(b.workFile("scratch/y")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("what was in memory: %v", err)
	}
	// Stopped while there is no engine, and not wanted any more.
	b.kill()
	if err := syscall.Kill(after.PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(b.dir, engineapi.EngineOrdersFile)); err != nil {
		t.Fatal(err)
	}
	b.start()
	b.apply()
	b.until("it is forgotten", func() bool { return b.status(web0).ID == "" })
	if got := mountsOf(t, b.dir); len(got) != 0 {
		t.Errorf("left mounted: %v", got)
	}
}

// TestMemoryVolumeCounts: what an instance writes to it counts against its limit.
func TestMemoryVolumeCounts(t *testing.T) {
	if why := workdir.CannotMount(); why != "" {
		t.Skip("NOT TESTED: nothing can be mounted here: " + why)
	}
	b := newBench(t)
	if missing := b.info().Missing["process"]; missing != "" {
		t.Skip("NOT TESTED: " + missing)
	}
	o := order(0, 1, 100)
	o.Spec.Ports = nil
	o.Spec.Command = []string{"dd", "if=/dev/zero", "of=scratch/x", "bs=1M", "count=128"}
	o.Spec.Restart.Policy = "never"
	o.Spec.Limits.Memory = 32 << 20
	o.Spec.Volumes = []api.Volume{{Path: "scratch", Tmpfs: 256 << 20}}
	b.apply(o)
	b.until("it has ended", func() bool { return b.status(web0).Phase == wire.PhaseExited })
	if s := b.status(web0); s.LastExit == nil || !s.LastExit.OOM {
		t.Errorf("%+v, %+v", s, s.LastExit)
	}
	if got := mountsOf(t, b.dir); len(got) != 0 {
		t.Errorf("left mounted: %v", got)
	}
}
