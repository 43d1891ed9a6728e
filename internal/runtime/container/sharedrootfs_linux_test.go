package container

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/containerd/containerd/v2/core/snapshots"
	"github.com/containerd/containerd/v2/pkg/namespaces"

	"github.com/verge-edge/verge/internal/runtime"
	"github.com/verge-edge/verge/internal/runtime/container/containertest"
	"github.com/verge-edge/verge/internal/runtime/container/ctrd"
	"github.com/verge-edge/verge/internal/runtime/container/imagestore"
	"github.com/verge-edge/verge/internal/runtime/logfile"
)

// standOn counts the snapshots that containers stand on: shared ones, and files of their own.
func standOn(t *testing.T, d *Driver) (shared, own int) {
	t.Helper()
	ctx := namespaces.WithNamespace(t.Context(), ctrd.Namespace)
	c, release, err := d.conn.Use(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	err = c.SnapshotService("").Walk(ctx, func(_ context.Context, i snapshots.Info) error {
		switch i.Kind {
		case snapshots.KindView:
			shared++
		case snapshots.KindActive:
			own++
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return shared, own
}

// Containers that write nothing to their root share one, with what is mounted in each;
// it goes with the image, is laid again with the next, and the end of one of them leaves
// it to the others.
func TestSharedGround(t *testing.T) {
	d, c := bench(t, containertest.Config{WorkingDir: "/home/web"})
	host := t.TempDir()
	if err := os.WriteFile(filepath.Join(host, "file"), []byte("of the service"), 0o644); err != nil {
		t.Fatal(err)
	}
	look := "exec 2>&1; pwd; cat /etc/app/conf; ls /data; touch /data/written; touch /x || touch /tmp/x && echo -n up; exec sleep 1000"
	start := func(set func(*runtime.Spec)) (runtime.Task, string) {
		t.Helper()
		s := specOf(t, testImage, "/bin/sh", "-c", look)
		s.Container.Mounts = []runtime.Mount{
			{Source: filepath.Join(host, "file"), Target: "/etc/app/conf", ReadOnly: true}, {Source: host, Target: "/data"},
		}
		if set != nil {
			set(&s)
		}
		task, err := d.Start(t.Context(), s)
		if err != nil {
			t.Fatal(err)
		}
		var log string
		eventually(t, "it has looked around", func() bool {
			chunk, err := logfile.Read(s.LogDir, 0, 0)
			log = string(chunk.Data)
			return err == nil && strings.HasSuffix(log, "up")
		})
		return task, log
	}
	const said = "/home/web\nof the service"
	one, log := start(nil)
	if !strings.HasPrefix(log, said) || !strings.Contains(log, "Read-only file system") {
		t.Errorf("it says %q", log)
	}
	two, _ := start(nil)
	if shared, own := standOn(t, d); shared != 1 || own != 0 {
		t.Errorf("two that are alike: %d shared, %d with files of their own", shared, own)
	}
	other, _ := start(func(s *runtime.Spec) {
		s.Container.Mounts = append(s.Container.Mounts, runtime.Mount{Tmpfs: 1 << 20, Target: "/var/cache"})
	})
	writable, log := start(func(s *runtime.Spec) { s.Container.Security.WritableRoot = true })
	if strings.Contains(log, "Read-only") {
		t.Errorf("one that may write: %q", log)
	}
	if shared, own := standOn(t, d); shared != 2 || own != 1 {
		t.Errorf("with two others: %d shared, %d with files of their own", shared, own)
	}
	end(t, one)
	if e, err := two.Exec(t.Context(), runtime.Exec{Command: []string{"/bin/true"}}); err != nil || e.Code != 0 {
		t.Errorf("after the end of the first: %+v, %v", e, err)
	}
	three, log := start(nil)
	if !strings.HasPrefix(log, said) {
		t.Errorf("the third says %q", log)
	}
	for _, task := range []runtime.Task{two, three, other, writable} {
		end(t, task)
	}
	empty(t, c)

	name, err := imagestore.FullName(testImage)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.RemoveImage(t.Context(), name); err != nil {
		t.Fatal(err)
	}
	if out, err := c.Ctr("snapshots", "ls"); err != nil || strings.Contains(out, sharedPrefix) {
		t.Errorf("without the image: %s, %v", out, err)
	}
	load(t, c, testImage, containertest.Config{WorkingDir: "/home/web"})
	again, log := start(nil) // d remembers what is gone
	if !strings.HasPrefix(log, said) {
		t.Errorf("with the image again: %q", log)
	}
	end(t, again)
	empty(t, c)
}

// What a shared rootfs does not do for starts on files of its own.
func TestUnfitGround(t *testing.T) {
	d, c := bench(t, containertest.Config{})
	s := specOf(t, testImage, "/bin/cat", "/missing/file")
	s.Container.Mounts = []runtime.Mount{{Source: filepath.Join(t.TempDir(), "file"), Target: "/missing/file", ReadOnly: true}}
	if err := os.WriteFile(s.Container.Mounts[0].Source, []byte("here"), 0o644); err != nil {
		t.Fatal(err)
	}
	ctx := namespaces.WithNamespace(t.Context(), ctrd.Namespace)
	cl, release, err := d.conn.Use(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	image, err := d.Resolve(ctx, cl, s)
	if err != nil {
		t.Fatal(err)
	}
	points, err := mountPoints(s, image, ctrd.Mounts{})
	if err != nil {
		t.Fatal(err)
	}
	// One that a power cut has taken the points from.
	bad := &sharedRootfs{key: sharedKey(image.Chain, points)}
	leased, done, err := cl.WithLease(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := makeSharedRootfs(leased, cl.SnapshotService(image.Snapshotter), image.Chain, bad); err != nil {
		t.Fatal(err)
	}
	for i := range 2 { // one log
		if out, e := run(t, d, s); out != strings.Repeat("here", i+1) || e.Code != 0 {
			t.Errorf("%q, %+v", out, e)
		}
	}
	if err := done(ctx); err != nil {
		t.Fatal(err)
	}
	if !d.shared.unfit[bad.key] {
		t.Error("it was not found out")
	}
	empty(t, c)
}

// Points are made as the image's links lead to them, never outside of it, and what is
// there stays.
func TestPutPoints(t *testing.T) {
	dir, outside := t.TempDir(), t.TempDir()
	for name, to := range map[string]string{"var": "/data/var", "out": "../../../../../.." + outside, "abs": outside} {
		if err := os.Symlink(to, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "file"), []byte("the image's"), 0o600); err != nil {
		t.Fatal(err)
	}
	points := []point{{"/var/lib/x", true}, {"/out/a", true}, {"/abs/b", false}, {"/file", false}, {"/", true}, {"/../c/d", false}}
	for range 2 {
		if err := putPoints(dir, points); err != nil {
			t.Fatal(err)
		}
	}
	for name, isDir := range map[string]bool{"data/var/lib/x": true, outside[1:] + "/a": true, outside[1:] + "/b": false, "c/d": false} {
		info, err := os.Lstat(filepath.Join(dir, name))
		if err != nil || info.IsDir() != isDir || isDir && info.Mode().Perm() != 0o755 {
			t.Errorf("%s: %v, %v", name, info, err)
		}
	}
	if b, err := os.ReadFile(filepath.Join(dir, "file")); err != nil || string(b) != "the image's" {
		t.Errorf("%q, %v", b, err)
	}
	if list, err := os.ReadDir(outside); err != nil || len(list) != 0 {
		t.Errorf("outside: %v, %v", list, err)
	}
	for _, p := range []point{{"/file", true}, {"/c", false}, {"/file/x", true}} {
		if err := putPoints(dir, []point{p}); err == nil {
			t.Errorf("%v is another kind of file there", p)
		}
	}
}
