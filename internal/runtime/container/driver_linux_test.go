package container

import (
	"bytes"
	"context"
	"errors"
	"net/http/httptest"
	"os"
	"path/filepath"
	goruntime "runtime"
	"strings"
	"testing"
	"time"

	imagename "github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/verge-edge/verge/internal/runtime"
	"github.com/verge-edge/verge/internal/runtime/container/containertest"
	"github.com/verge-edge/verge/internal/runtime/container/imagestore"
	"github.com/verge-edge/verge/internal/runtime/logfile"
	"github.com/verge-edge/verge/internal/wire"
)

// bench is a driver with a containerd of its own that has an image of busybox.
func bench(t testing.TB, config containertest.Config) (*Driver, *containertest.Containerd) {
	t.Helper()
	c := containertest.Need(t)
	load(t, c, testImage, config)
	return driver(t, c), c
}

func driver(t testing.TB, c *containertest.Containerd) *Driver {
	t.Helper()
	d := New(Options{Base: t.TempDir(), Address: c.Address})
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

func specOf(t testing.TB, image string, command ...string) runtime.Spec {
	t.Helper()
	return runtime.Spec{
		ID: "app.web.0", Command: command, LogDir: t.TempDir(), CPUWeight: 100,
		Container: &runtime.Container{Image: image},
	}
}

// run runs a container to its end and returns what it wrote.
func run(t testing.TB, d *Driver, s runtime.Spec) (string, wire.Exit) {
	t.Helper()
	task, err := d.Start(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	e := exitOf(t, task)
	if err := task.Cleanup(); err != nil {
		t.Error(err)
	}
	c, err := logfile.Read(s.LogDir, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	return string(c.Data), e
}

func exitOf(t testing.TB, task runtime.Task) wire.Exit {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	e, err := task.Wait(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	look := time.NewTicker(5 * time.Millisecond)
	defer look.Stop()
	for end := time.Now().Add(30 * time.Second); !ok(); <-look.C {
		if time.Now().After(end) {
			t.Fatalf("not within 30s: %s", what)
		}
	}
}

// empty checks that nothing of a container is left.
func empty(t testing.TB, c *containertest.Containerd) {
	t.Helper()
	left, told := "", ""
	eventually(t, "nothing is left", func() bool {
		var err error
		if left, err = c.Left(); err != nil {
			t.Fatal(err)
		}
		if left != told {
			t.Log(left)
		}
		told = left
		return left == ""
	})
}

func TestImageConfiguration(t *testing.T) {
	d, c := bench(t, containertest.Config{
		Entrypoint: []string{"/bin/echo", "entry"}, Cmd: []string{"image's"},
		Env: []string{"FROM=image", "BOTH=image"}, WorkingDir: "/tmp",
	})
	for name, want := range map[string]struct {
		command, args []string
		out           string
	}{
		"as the image says": {nil, nil, "entry image's\n"},
		"other arguments":   {nil, []string{"mine"}, "entry mine\n"},
		"another command":   {[]string{"/bin/sh", "-c", "echo $FROM $BOTH; pwd"}, nil, "image service\n/tmp\n"},
	} {
		s := specOf(t, testImage, want.command...)
		s.Env, s.Container.Args = []string{"BOTH=service"}, want.args
		if out, e := run(t, d, s); out != want.out || e.Code != 0 {
			t.Errorf("%s: %q, %+v", name, out, e)
		}
	}
	for name, want := range map[string]struct {
		s    runtime.Spec
		says string
	}{
		"no such image": {specOf(t, "nothing.test/x:1", "x"), "is not on this worker"},
		"a bad name":    {specOf(t, "UPPER CASE", "x"), "not the name of an image"},
		"not in PATH":   {specOf(t, testImage, "no-such-program"), "command not found"},
		"no such path":  {specOf(t, testImage, "/no/such"), "command not found"},
		"a directory":   {specOf(t, testImage, "/etc"), "/etc"},
		"no program":    {specOf(t, testImage, "/etc/passwd"), "not executable"},
	} {
		if task, err := d.Start(t.Context(), want.s); err == nil || !strings.Contains(err.Error(), want.says) {
			t.Errorf("%s: %v, %v", name, task, err)
		}
	}
	other := "s390x"
	if goruntime.GOARCH == other {
		other = "amd64"
	}
	image, err := containertest.Build(containertest.Config{Cmd: []string{"true"}, Architecture: other})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "other.tar")
	if err := containertest.Save(path, "verge.test/other:1", image); err != nil {
		t.Fatal(err)
	}
	if err := importFile(c.Address, path); err == nil || !strings.Contains(err.Error(), other) && !strings.Contains(err.Error(), "for this machine") {
		t.Errorf("an image for another machine: %v", err)
	}
	empty(t, c)
}

func TestPull(t *testing.T) {
	d, c := bench(t, containertest.Config{})
	server := httptest.NewServer(registry.New())
	defer server.Close()
	host := strings.TrimPrefix(server.URL, "http://")
	name := host + "/shop/web:1"
	push := func(word string) {
		t.Helper()
		image, err := containertest.Build(containertest.Config{Cmd: []string{"/bin/echo", word}})
		if err != nil {
			t.Fatal(err)
		}
		tag, err := imagename.NewTag(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := remote.Write(tag, image); err != nil {
			t.Fatal(err)
		}
	}
	push("one")
	s := specOf(t, name)
	var steps []string
	note := func(step string) { steps = append(steps, step) }
	s.Container.Pull = runtime.PullNever
	if err := d.Fetch(t.Context(), s, note); err == nil || !strings.Contains(err.Error(), "pull is never") || len(steps) > 0 {
		t.Errorf("never: %v, %q", err, steps)
	}
	s.Container.Pull = ""
	if err := d.Fetch(t.Context(), s, note); err != nil {
		t.Fatal(err)
	}
	if len(steps) == 0 || steps[0] != "pulling "+name {
		t.Errorf("progress %q", steps)
	}
	say := func(want string) {
		t.Helper()
		if out, _ := run(t, d, s); out != want {
			t.Errorf("it says %q, want %q", out, want)
		}
		s.LogDir = t.TempDir()
	}
	say("one\n")
	push("two")
	if err := d.Fetch(t.Context(), s, note); err != nil {
		t.Error(err)
	}
	say("one\n") // it is not missing
	s.Container.Pull = runtime.PullAlways
	if err := d.Fetch(t.Context(), s, note); err != nil {
		t.Error(err)
	}
	say("two\n")
	absent := specOf(t, host+"/shop/web:2")
	if err := d.Fetch(t.Context(), absent, note); err == nil || errors.Is(err, runtime.ErrAway) || !strings.Contains(err.Error(), "there is no image") {
		t.Errorf("a tag that is not there: %v", err)
	}
	server.Close()
	if err := d.Fetch(t.Context(), s, note); !errors.Is(err, runtime.ErrAway) {
		t.Errorf("a registry that is away: %v", err)
	}
	images, err := d.Images(t.Context())
	if err != nil || len(images) != 2 || images[0].Name != name || images[0].Size == 0 {
		t.Errorf("images %+v, %v", images, err)
	}
	if err := d.RemoveImage(t.Context(), name); err != nil {
		t.Error(err)
	}
	if err := d.RemoveImage(t.Context(), name); !errors.Is(err, imagestore.ErrNoImage) {
		t.Errorf("removed twice: %v", err)
	}
	empty(t, c)
}

func TestUserAndMounts(t *testing.T) {
	d, c := bench(t, containertest.Config{WorkingDir: "/tmp"})
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	file, data := filepath.Join(dir, "secret"), filepath.Join(dir, "data")
	if err := os.WriteFile(file, []byte("word\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(data, 0o700); err != nil {
		t.Fatal(err)
	}
	s := specOf(t, testImage, "/bin/sh", "-c", `id -u; id -g; cat conf/secret; echo kept >/data/f; (echo no >/ro/f) 2>/dev/null || echo read only; df -k /mem | tail -1 | awk '{print $2}'`)
	s.Container.User = "web"
	s.Container.Mounts = []runtime.Mount{
		{Source: file, Target: "conf/secret", Own: true},
		{Source: data, Target: "/data", Own: true},
		{Source: dir, Target: "/ro", ReadOnly: true},
		{Tmpfs: 1 << 20, Target: "/mem"},
	}
	out, e := run(t, d, s)
	if !strings.HasPrefix(out, "1000\n1000\nword\n") || !strings.Contains(out, "read only\n") || !strings.HasSuffix(out, "\n1024\n") || e.Code != 0 {
		t.Errorf("%q, %+v", out, e)
	}
	if b, err := os.ReadFile(filepath.Join(data, "f")); string(b) != "kept\n" {
		t.Errorf("%q, %v", b, err)
	}
	s.Container.User = "nobody-knows"
	if _, err := d.Start(t.Context(), s); err == nil || !strings.Contains(err.Error(), "is not one of the image") {
		t.Errorf("an unknown user: %v", err)
	}
	empty(t, c)
}

// How a container ended while containerd was away is known at once, by its shim, also where
// containerd does not know it any more when it is back: as containerd 2 does, the task is
// removed there before anybody can ask.
func TestEndWhileContainerdIsAway(t *testing.T) {
	d, c := bench(t, containertest.Config{})
	start := func(script string) (runtime.Task, runtime.Spec) {
		t.Helper()
		s := specOf(t, testImage, "/bin/sh", "-c", script)
		task, err := d.Start(t.Context(), s)
		if err != nil {
			t.Fatal(err)
		}
		eventually(t, "it has its trap", func() bool {
			log, err := logfile.Read(s.LogDir, 0, 0)
			return err == nil && string(log.Data) == "up\n"
		})
		return task, s
	}
	seven, s := start("trap 'echo bye; exit 7' TERM; echo up; while :; do sleep 0.05; done")
	other, _ := start("echo up; sleep 100000") // under the same shim
	c.Kill()
	if err := seven.Signal("TERM"); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if e := exitOf(t, seven); e.Code != 7 || e.Unknown || e.At.Before(began.Add(-time.Second)) || e.At.After(time.Now()) {
		t.Errorf("%+v", e)
	}
	eventually(t, "its log is complete", func() bool {
		log, err := logfile.Read(s.LogDir, 0, 0)
		return err == nil && string(log.Data) == "up\nbye\n"
	})
	// Its shim says nothing of one that runs, or that it does not have.
	if e, err := d.askShim(t.Context(), other.Handle()); err == nil || !strings.Contains(err.Error(), "RUNNING") {
		t.Errorf("of one that runs: %+v, %v", e, err)
	}
	stranger := other.Handle()
	stranger.Container = "stranger"
	if e, err := d.askShim(t.Context(), stranger); err == nil {
		t.Errorf("of one that it does not have: %+v", e)
	}
	stranger.Shim = "stranger"
	if e, err := d.askShim(t.Context(), stranger); err == nil {
		t.Errorf("of a shim that is not there: %+v", e)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	if err := seven.Cleanup(); err != nil {
		t.Error(err)
	}
	end(t, other)
	empty(t, c)
}

// While containerd is away what runs goes on, and its end is not lost.
func TestContainerdAway(t *testing.T) {
	d, c := bench(t, containertest.Config{})
	problems, back := make(chan error, 100), make(chan struct{}, 100)
	d.Report(func(err error) { problems <- err }, func() { back <- struct{}{} })
	<-back // it is there
	runs, err := d.Start(t.Context(), specOf(t, testImage, "/bin/sh", "-c", "trap 'exit 7' TERM; while :; do sleep 0.05; done"))
	if err != nil {
		t.Fatal(err)
	}
	c.Kill()
	for err := range problems {
		if err != nil {
			if !errors.Is(err, runtime.ErrAway) {
				t.Error(err)
			}
			break
		}
	}
	if _, err := d.Probe(); !errors.Is(err, runtime.ErrAway) {
		t.Errorf("probe: %v", err)
	}
	if _, err := d.Start(t.Context(), specOf(t, testImage, "true")); !errors.Is(err, runtime.ErrAway) {
		t.Errorf("start: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	if e, err := runs.Wait(ctx); err == nil {
		t.Errorf("reported as ended: %+v", e)
	}
	cancel()
	var out bytes.Buffer
	if e, err := say(t, runs, &out, "echo works"); err != nil || e.Code != 0 || out.String() != "works\n" {
		t.Errorf("a command beside it: %q, %+v, %v", out.String(), e, err)
	}
	successor := driver(t, c)
	successor.mark, successor.groups = d.mark, d.groups
	adopted, err := successor.Adopt(t.Context(), specOf(t, testImage), runs.Handle())
	if err != nil {
		t.Fatal(err)
	}
	if err := runs.Signal("TERM"); err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	<-back
	// Whichever asks first is told by containerd, the other by what that one noted.
	both := []runtime.Task{runs, adopted}
	for _, task := range both {
		if e := exitOf(t, task); e.Code != 7 || e.Unknown {
			t.Errorf("exit %+v", e)
		}
	}
	for _, task := range both {
		if err := task.Cleanup(); err != nil {
			t.Error(err)
		}
	}
	empty(t, c)
}

func say(t testing.TB, task runtime.Task, out *bytes.Buffer, script string) (wire.Exit, error) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	read := make(chan struct{})
	go func() {
		defer close(read)
		_, _ = out.ReadFrom(r)
	}()
	e, err := task.Exec(t.Context(), runtime.Exec{Command: []string{"sh", "-c", script}, Env: []string{"PATH=/bin"}, Stdout: w})
	_ = w.Close()
	<-read
	_ = r.Close()
	return e, err
}

// What was killed while containerd was away is removed when it is back; so is what
// no successor knows.
func TestNothingIsLeftBehind(t *testing.T) {
	d, c := bench(t, containertest.Config{})
	start := func() runtime.Task {
		t.Helper()
		task, err := d.Start(t.Context(), specOf(t, testImage, "sleep", "1000"))
		if err != nil {
			t.Fatal(err)
		}
		return task
	}
	killed, stray, kept := start(), start(), start()
	c.Kill()
	if err := killed.Kill(t.Context()); err != nil {
		t.Fatal(err)
	}
	if e := exitOf(t, killed); e.Code != 137 {
		t.Errorf("exit %+v", e)
	}
	if err := killed.Cleanup(); err != nil {
		t.Error(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	has := func(task runtime.Task) bool {
		out, err := c.Ctr("containers", "ls", "-q")
		if err != nil {
			t.Fatal(err, out)
		}
		return strings.Contains(out, task.Handle().Container)
	}
	eventually(t, "the debt is settled", func() bool { return !has(killed) })
	successor := driver(t, c)
	successor.mark, successor.groups = d.mark, d.groups
	if err := successor.Sweep(t.Context(), func(path string) bool { return path == kept.Handle().Cgroup }); err != nil {
		t.Fatal(err)
	}
	if has(stray) || !has(kept) {
		t.Errorf("a stray is there: %v; what is kept: %v", has(stray), has(kept))
	}
	if err := successor.EndOrphans(t.Context(), "app.web.0"); err != nil {
		t.Fatal(err)
	}
	for _, task := range []runtime.Task{stray, kept} {
		exitOf(t, task)
		if err := task.Cleanup(); err != nil {
			t.Error(err)
		}
	}
	empty(t, c)
}

// A containerd that appears later is noticed without anybody looking for it.
func TestContainerdAppears(t *testing.T) {
	c := containertest.Need(t)
	c.Kill()
	dir := filepath.Join(t.TempDir(), "run", "containerd")
	d := New(Options{Base: t.TempDir(), Address: filepath.Join(dir, "c.sock")})
	defer d.Close()
	changed := make(chan struct{}, 10)
	d.Report(func(err error) {
		if err != nil {
			t.Error(err)
		}
	}, func() { changed <- struct{}{} })
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(c.Address, filepath.Join(dir, "c.sock")); err != nil {
		t.Fatal(err)
	}
	<-changed
}
